//! Tasks as their users write them, and as an enemy would.

mod dockerfile;
mod forms;
mod harbor;
mod hostile;
mod obstacles;
mod own_set;
mod rewards;
mod scratch;
mod verification;
