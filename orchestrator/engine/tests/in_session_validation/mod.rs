//! Validation within a session: agents that ask for a preview of the verdict while the run goes on.

mod answers;
mod cuts;
mod notes;
mod survivors;
mod world;
