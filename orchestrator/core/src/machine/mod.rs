//! The pure state machine of a run.
//!
//! [`step`] takes the state and one input and gives back the new state and the effects to perform:
//! no clock, no disk, no process in here. Every change of the state is a [`Record`] that is also
//! appended to the journal, so the state *is* the fold of the journal, and resuming is the same code
//! as starting. The driver in [`engine`](crate::engine) performs the effects and feeds the inputs.

mod baseline;
mod boundary;
mod change;
mod changes;
mod evidence;
mod fold;
mod input;
mod limits;
mod normalize;
mod obstacle;
mod pins;
mod progress;
mod record;
mod running;
mod state;
mod step;
mod story;
mod tally;
#[cfg(test)]
mod tests;
mod verdict;

pub use changes::{ChangedFile, Changes, FileChange};
pub use evidence::{EvidenceHistory, ObservedEvidence};
pub use input::{
    BaselineCheck, Effect, Ended, Input, Look, Now, StartIteration, StartOptions, Timer, Validation,
};
pub use limits::{Limits, StopReason};
pub use obstacle::Obstacle;
pub use pins::{FilePin, Pins, PromptPin};
pub use record::{
    AfterRejection, BaselineMode, CompletionTrigger, Given, NamedVerdict, Outcome, Policy, Record,
    RunStarted, Trigger, ValidatorInfo,
};
pub use state::{
    AgentChange, Answer, Completion, Context, Current, Latch, Note, Rejection, State, Stop, Wait,
};
pub use step::step;
pub use story::{Episode, Story, TreeChange};
pub use tally::{Cause, ClaimTally};
