//! The pure state machine of a run.
//!
//! [`step`] maps a state and an input to the new state and the effects to perform, without a clock,
//! disk or process. Every change of the state is a [`Record`] that is also appended to the journal, so
//! the state *is* the fold of the journal, and resuming is the same code as starting. The engine performs the effects and
//! feeds the inputs. Must not know clock, disk or processes.
//!
//! No file imports one that imports it. From the bottom up: what records hold (`record.rs`), the state and what is
//! read from it (`state.rs`), how each record changes it (`apply.rs`, `progress.rs`), a step in progress
//! (`transition.rs`), and the rules (`between_iterations.rs`, `during_iteration.rs` and the files beside them).

mod apply;
mod baseline;
mod between_iterations;
mod changes;
mod claim_stats;
mod control;
mod deferral;
mod due_hooks;
mod during_iteration;
mod escalate;
mod escalation;
mod evidence;
mod failover;
mod handoff;
mod hook;
mod initializer;
mod input;
mod limits;
mod normalize;
mod outcome;
mod path_identities;
mod policy;
mod progress;
mod rate_window;
mod reached_limits;
mod received_control;
mod record;
mod resume_blocker;
mod review;
mod save;
mod state;
mod step;
mod stop;
#[cfg(test)]
mod tests;
mod transition;
mod verdict;
mod window_wait;

pub use changes::{ChangedFile, Changes, FileChange};
pub use claim_stats::{ClaimStats, MOST_CAUSES, RejectionCause, first_clause};
pub use control::{Control, ControlOrigin, LimitChanges, LimitOverrides};
pub use escalation::{EscalationPlan, EscalationState, EscalationStep};
pub use evidence::{EvidenceHistory, ObservedEvidence};
pub use hook::{DueHook, HookCommand, HookEnd, HookEvent, HookState};
pub use input::{
    BaselineCheck, Effect, Input, IterationEnd, Now, Observation, ReceivedControl, Refusal,
    ReviewEnd, ReviewStart, SaveOrder, SaveResult, SetupEnd, StartIteration, StartOptions, Timer,
};
pub use limits::{
    BudgetRow, BudgetUse, Limit, LimitRow, LimitUnit, LimitValue, RunLimits, RunUsage, millis,
};
pub use outcome::IterationOutcome;
pub use path_identities::{FileIdentity, PathIdentities, PromptIdentity};
pub use policy::{AfterRejection, BaselineMode, CompletionTrigger, FrozenPolicy, ValidatorInfo};
pub use rate_window::{RateWindow, RateWindows};
pub use record::{LaunchDigests, Record, RunStarted, SaveMode, Trigger};
pub use resume_blocker::ResumeBlocker;
pub use state::{
    AgentChange, AgentState, AgentUse, Answer, ClaimState, Completion, ContextUsage, ControlState,
    ExplainedCompletion, InitializerState, LastError, Latch, Note, PauseState, ProcessState,
    ProgressState, ProviderWait, Rejection, RunningIteration, RunningReview, SaveState, SetupState,
    State, ValidationState, WorkspaceState,
};
pub use step::step;
pub use stop::{Stop, StopKind, StopReason};
pub use verdict::{Validation, ValidatorVerdict, is_unchecked};
