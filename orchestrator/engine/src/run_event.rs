//! What observers see of a run.

use std::path::PathBuf;

use jiff::Timestamp;
use ralph_orchestrator_contract::{Claim, Event, NearMiss, Tokens, Usage, Usd};
use ralph_orchestrator_machine::{
    AgentChange, Changes, Control, ControlOrigin, IterationOutcome, Record, StopReason, Trigger,
    ValidatorVerdict,
};
use serde::Serialize;

/// Something that happened in a run. `iteration` is 0 before the first.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum RunEvent {
    /// A new run began.
    RunStarted {
        agent: String,
        workspace: PathBuf,
        state_dir: PathBuf,
        validators: Vec<String>,
        validation_required: bool,
        evidence_only: bool,
        max_runtime_ms: Option<u64>,
        max_cost_usd: Option<Usd>,
    },
    /// An earlier run is resumed.
    RunResumed {
        agent: String,
        workspace: PathBuf,
        state_dir: PathBuf,
        iterations: u64,
        cost_usd: Usd,
        /// Any agent of the run has reported a cost.
        cost_reported: bool,
        tokens: Tokens,
        runtime_ms: u64,
        max_runtime_ms: Option<u64>,
        max_cost_usd: Option<Usd>,
    },
    /// An iteration began.
    IterationStarted {
        iteration: u64,
        attempt: u32,
        trigger: Trigger,
        max_iterations: Option<u64>,
        /// The role whose prompt the agent is given, if roles have prompts.
        #[serde(skip_serializing_if = "Option::is_none")]
        role: Option<String>,
        /// The file of that prompt, or "built-in".
        #[serde(skip_serializing_if = "Option::is_none")]
        prompt_file: Option<String>,
        /// Runtime of the run so far.
        runtime_ms: u64,
    },
    /// The agent's own text.
    AgentText { iteration: u64, text: String },
    /// The agent called a tool.
    AgentTool { iteration: u64, name: String, input: serde_json::Value },
    /// Anything else from the agent.
    AgentEvent { iteration: u64, detail: Event },
    /// What the running iteration has used so far.
    Usage { iteration: u64, usage: Usage },
    /// How full the context of the running iteration is, in tokens.
    Context { iteration: u64, used: u64, window: Option<u64> },
    /// The agent left a note for the iterations after it.
    Note { iteration: u64, text: String },
    /// The work was validated within the session, for the agent. Decides nothing.
    Previewed { iteration: u64, accepted: bool, reasons: Vec<String> },
    /// Another agent takes over from one that is not available.
    AgentChanged { iteration: u64, from: String, to: String, reason: String },
    /// A claim was seen.
    Claim { iteration: u64, claim: Claim },
    /// A near miss, which is not a valid claim.
    NearMiss { iteration: u64, near_miss: NearMiss },
    /// The setup of the workspace begins, before this iteration.
    SetupStarted { iteration: u64, command: String },
    /// The validators begin.
    Validating { iteration: u64, validators: Vec<String> },
    /// The checks were run before any work was done. Decides nothing.
    Baseline { accepted: bool, verdicts: Vec<ValidatorVerdict> },
    /// Validators left files that were not there before; they are no part of the work.
    Artefacts { iteration: u64, validator: Option<String>, paths: Vec<String> },
    /// The validators gave their verdicts.
    Verdict {
        iteration: u64,
        accepted: bool,
        verdicts: Vec<ValidatorVerdict>,
        reasons: Vec<String>,
        /// Iterations in a row without progress, as `limits.max_stagnant` counts them.
        stagnant: u32,
        max_stagnant: Option<u32>,
    },
    /// The work is accepted, and for at most so long is looked for what made the checks green.
    Explaining { iteration: u64, budget_ms: u64 },
    /// What made the checks of the accepted work green, as far as it was tried out. Decides nothing.
    Explained { iteration: u64, summary: String, explanation: serde_json::Value },
    /// An iteration is over.
    IterationFinished {
        iteration: u64,
        outcome: IterationOutcome,
        usage: Usage,
        cost_usd: Usd,
        total_cost_usd: Usd,
        max_cost_usd: Option<Usd>,
        duration_ms: u64,
        /// The adapter's name, or the name of the agent that took over.
        agent: String,
    },
    /// What an iteration changed, once that is known.
    Changes {
        iteration: u64,
        #[serde(flatten)]
        changes: Changes,
        /// Iterations in a row without progress, as `limits.max_stagnant` counts them.
        stagnant: u32,
        max_stagnant: Option<u32>,
        /// A claim is validated next: only then it is known whether there was progress.
        claim_pending: bool,
        /// The first reason why the work is rejected, if nothing was changed since and it is not validated again.
        #[serde(skip_serializing_if = "Option::is_none")]
        rejected: Option<String>,
    },
    /// What an iteration left was stored in git; iteration 0 is the start of the run.
    Saved {
        iteration: u64,
        /// Under `refs/ralph/<run>/<iteration>`.
        #[serde(skip_serializing_if = "Option::is_none")]
        checkpoint: Option<String>,
        /// On the current branch.
        #[serde(skip_serializing_if = "Option::is_none")]
        commit: Option<String>,
        /// Files that were not stored, and why.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        skipped: Vec<String>,
        /// Why there is no checkpoint or no commit.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        problems: Vec<String>,
    },
    /// A person asked something of the run.
    ControlReceived {
        iteration: u64,
        origin: ControlOrigin,
        control: Control,
        /// Why it cannot take effect.
        #[serde(skip_serializing_if = "Option::is_none")]
        refused: Option<String>,
    },
    /// The running agent was given guidance, with the ids of the controls that sent it.
    GuidanceDelivered { iteration: u64, ids: Vec<String> },
    /// The pause that a person asked for is in effect: nothing goes on until it ends.
    PauseBegan { iteration: u64, origin: ControlOrigin },
    /// A pause between iterations.
    Paused { iteration: u64, ms: u64 },
    /// A wait for the provider, or for processes that survive.
    Waiting { iteration: u64, ms: u64, reason: String },
    /// Something the user should know.
    Warning { iteration: u64, message: String },
    /// The run ended, or ended for now.
    RunFinished {
        iteration: u64,
        stop_reason: StopReason,
        message: String,
        ended_well: bool,
        /// The adapter's name, or the name of the agent that took over.
        agent: String,
        agent_changed: Option<AgentChange>,
        validated: bool,
        evidence_only: bool,
        iterations: u64,
        /// None was reported, and nothing was charged, if it is `None`.
        cost_usd: Option<Usd>,
        cost_estimated: bool,
        cost_reported: bool,
        tokens: Tokens,
        runtime_ms: u64,
    },
}

/// Observes a run. Must not block for long: the event loop waits for it.
pub trait RunObserver: Send + Sync {
    /// Something happened in `run`.
    fn on_event(&self, run: &str, notice: &RunEvent);

    /// A record of `run` was written, with this number, at this time.
    fn on_record(&self, _run: &str, _seq: u64, _time: Timestamp, _record: &Record) {}
}
