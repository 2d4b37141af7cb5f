//! The pure state machine of a run.
//!
//! [`step`] maps a state and an input to the new state and the effects to perform, without a clock,
//! disk or process. Every change of the state is a [`Record`] that is also appended to the journal, so
//! the state *is* the fold of the journal, and resuming is the same code as starting. The engine performs the effects and
//! feeds the inputs. Must not know clock, disk or processes.

mod apply;
mod baseline;
mod between_iterations;
mod changes;
mod claim_stats;
mod control;
mod deferral;
mod during_iteration;
mod evidence;
mod failover;
mod handoff;
mod hold;
mod initializer;
mod input;
mod limit_overrides;
mod limits;
mod normalize;
mod outcome;
mod path_identities;
mod policy;
mod progress;
mod record;
mod resume_blocker;
mod save;
mod state;
mod step;
mod stop;
#[cfg(test)]
mod tests;
mod transition;
mod verdict;
mod workspace_setup;

pub use changes::{ChangedFile, Changes, FileChange};
pub use claim_stats::{ClaimStats, MOST_CAUSES, RejectionCause, first_clause};
pub use control::{Control, ControlOrigin, ControlState, PauseState, ReceivedControl};
pub use evidence::{EvidenceHistory, ObservedEvidence};
pub use initializer::InitializerState;
pub use input::{
    BaselineCheck, Effect, Input, IterationEnd, Now, Observation, StartIteration, StartOptions,
    Timer, Validation,
};
pub use limit_overrides::{LimitChanges, LimitOverrides};
pub use limits::{BudgetRow, Limit, LimitRow, LimitUnit, LimitValue, RunLimits, RunUsage, millis};
pub use outcome::IterationOutcome;
pub use path_identities::{FileIdentity, PathIdentities, PromptIdentity};
pub use policy::{AfterRejection, BaselineMode, CompletionTrigger, FrozenPolicy, ValidatorInfo};
pub use record::{LaunchDigests, Record, RunStarted, Trigger};
pub use resume_blocker::ResumeBlocker;
pub use save::{SaveMode, SaveOrder, SaveResult, SaveState};
pub use state::{
    AgentChange, AgentState, Answer, BudgetUse, ClaimState, Completion, ContextUsage, LastError,
    Latch, Note, ProcessState, ProgressState, ProviderWait, Rejection, RunningIteration, State,
    ValidationState, WorkspaceState,
};
pub use step::step;
pub use stop::{Stop, StopKind, StopReason};
pub use verdict::{ValidatorVerdict, is_unchecked};
pub use workspace_setup::{SetupEnd, SetupState};
