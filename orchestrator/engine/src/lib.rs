//! Drives a run: performs what the state machine decides, and feeds what comes of it.
//!
//! [`open`] checks a configuration, takes the lock and decides whether a run begins or is resumed; [`Session::drive`]
//! performs the effects of the [machine](ralph_orchestrator_machine) until the run ends. Knows no adapter, no detector, no
//! validator and no terminal: those come in through the traits of `ralph-orchestrator-contract` and through [`registry`].

mod agent_inputs;
mod agent_message;
mod agent_setup;
mod agent_slot;
mod agents;
mod allowance;
mod blocking;
mod budget_use;
mod bytecode;
mod cancel;
mod check_outputs;
mod check_tests;
mod checkout_policy;
mod checkout_setup;
mod clean_checkout;
mod clock;
mod clone_warnings;
mod completion_phrases;
mod construction;
mod controls;
mod cut;
mod earlier_changes;
mod environment;
mod error;
mod event_observers;
mod evidence_check;
mod execution;
mod existing_run;
mod explanation;
mod feedback;
mod fingerprint;
mod followed_up;
mod guidance;
mod held_state;
mod hidden_files;
pub mod hooks;
mod idle;
mod in_session_validation;
mod initializer;
mod inspect;
mod iteration;
mod iteration_files;
mod iteration_watch;
mod kept_prompts;
mod location;
mod memory;
mod observation;
mod observe;
mod open;
mod paths;
mod pending_records;
mod phase_guard;
mod pinned_paths;
mod prices;
mod processes;
mod prompt;
mod prompt_place;
mod proof;
mod protected_globs;
mod protection;
mod provider_limits;
mod read_only_agents;
mod record_control;
mod redact;
pub mod registry;
mod rehearsal;
mod relocated;
mod renew;
mod replaced_workspace;
mod request;
mod resumed_run;
mod review;
mod review_agents;
mod role_prompts;
mod run_checkout;
mod run_context;
mod run_event;
mod run_journal;
mod saving;
mod scratch;
mod secret_files;
mod session;
mod session_builder;
mod setup;
mod setup_builder;
mod sink;
mod steering_files;
mod stop;
mod stored_object;
mod stored_runs;
mod stored_steering_files;
mod stored_test_floor;
mod test_floor;
mod token_bucket;
mod trace;
mod transcript;
mod tried_layers;
mod uncommitted_work;
mod user_budget;
mod validate;
mod validation_policy;
mod validation_task;
mod validator_changes;
mod version_control;
mod wait;
mod warning_limit;
mod work_places;
pub mod workspace_setup;

pub use agent_setup::ConfiguredAgent;
pub use budget_use::{BudgetPeriod, BudgetUsage, budget_usage};
pub use construction::{build_context, plain_environment};
pub use error::EngineError;
pub use held_state::HeldState;
pub use location::follow_to_folder;
pub use observation::DigestedWork;
pub use open::{OpenOutcome, open};
pub use paths::{
    is_of_other_folder, layout_of_new_run, record_move, state_layout, states_dir, verify_owner,
};
pub use phase_guard::{GuardedPhase, HeldFiles, PhaseGuard};
pub use processes::{NoProcesses, Processes};
pub use provider_limits::ProviderLimits;
pub use read_only_agents::ReadOnlyAgents;
pub use record_control::{RecordedControl, record_control};
pub use redact::Redactor;
pub use rehearsal::{Rehearsal, RehearsedOutcome};
pub use replaced_workspace::ReplacedWorkspace;
pub use request::{MissingProducts, PartText, Request, RunPart};
pub use role_prompts::{
    FoundPrompt, RolePromptError, built_in_prompt, check_role_prompts, find_role_prompt,
};
pub use run_event::{RunEvent, RunObserver};
pub use scratch::{ScratchDir, remove_scratch_dirs};
pub use session::{DryRun, Finished, Session, SetupPlan};
pub use setup::{BaselineReport, CheckSite, SetupFinding, SetupReport};
pub use setup_builder::build_workspace_setup;
pub use stop::{StopRequest, StopRequests};
pub use stored_runs::{
    find_completed, find_protected_changes, has_other_task, is_as_recorded, is_run_folder,
    new_run_id, redactor_of_run,
};
pub use validation_policy::{CompletionPolicy, bookkeeping_paths};
pub use version_control::{
    NoVersionControl, RepositoryLocation, RunRepository, StoredWork, VersionControl,
};
pub use work_places::find_work_folders;
