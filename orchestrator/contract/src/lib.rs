//! What agents, detectors, validators and formats of backlogs implement, and the types they exchange.
//!
//! Nothing here names a runtime, a terminal, or a concrete adapter. All types that cross a boundary
//! can be serialised, so that the same traits can be carried over a process or library boundary.

mod agent;
pub mod agent_tools;
mod backlog;
mod build;
mod claim;
mod detector;
mod error;
mod event;
mod leftovers;
mod review;
pub mod size;
mod usage;
mod usd;
mod validator;
mod verdict;

pub use agent::{Agent, Budget, Capabilities, Description, Iteration, Launch};
pub use async_trait::async_trait;
pub use backlog::{
    BacklogEdit, BacklogFormat, BacklogItem, FormatDefect, FormatDescription, FormatError,
    ItemOrder, ItemStatus, NewItem, TextLocation,
};
pub use build::{BuildContext, BuildError, FactoryError, parse_config};
pub use claim::{Claim, ClaimKind, ClaimSource, NearMiss};
pub use detector::{CompletionDetector, DetectorInput, Findings};
pub use error::{AgentError, ErrorClass, Report};
pub use event::{
    CancelReason, CancelSignal, Event, EventSink, GUIDANCE, Guidance, NeverCancelled,
    REJECTED_CLAIM, ValidationPreview,
};
pub use leftovers::{Leftovers, Survivor, survivors_complaint};
pub use review::{ReviewMaterial, Reviewer};
pub use usage::{Tokens, Usage};
pub use usd::Usd;
pub use validator::{
    Change, ChangeKind, CheckOutput, EvidenceAge, EvidenceValidator, GIT_END, HIDDEN_END,
    LayeredFolder, NEEDS_HIDDEN, PROTECTED_CHANGED, Setup, SetupProblem, ValidationContext,
    ValidatorDescription, describe_remedy,
};
pub use verdict::{EvidenceFile, Verdict};
