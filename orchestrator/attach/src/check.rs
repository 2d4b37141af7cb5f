//! The run that a session is attached to: it begins with the session, and each stop is one of its iterations.

use std::sync::{Arc, Mutex, PoisonError};

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::CommandError;
use ralph_orchestrator_assembly::git::GitRepositories;
use ralph_orchestrator_assembly::orphans::end_orphans;
use ralph_orchestrator_assembly::overrides::Overrides;
use ralph_orchestrator_assembly::plugins::Plugins;
use ralph_orchestrator_assembly::processes::SupervisedProcesses;
use ralph_orchestrator_assembly::receipts;
use ralph_orchestrator_assembly::{config_values, registry};
use ralph_orchestrator_config::{BaselineMode, CommitMode, Flag};
use ralph_orchestrator_contract::{ClaimKind, Verdict};
use ralph_orchestrator_engine::{
    Finished, OpenOutcome, Request, RunEvent, RunObserver, Session, open,
};
use ralph_orchestrator_machine::{StopKind, StopReason};
use ralph_orchestrator_store::Disk;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::signals::Signals;
use ralph_orchestrator_terminal::trust;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

use super::agent::{AttachedAgent, NAME, SessionWork};
use super::record::SessionRecord;

/// What is asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CheckRequest {
    pub(crate) record: SessionRecord,
    /// What the session has done, if it wants to stop. Without it, only what its work will be compared with is
    /// recorded.
    pub(crate) work: Option<SessionWork>,
    /// The person has asked a question.
    pub(crate) is_question: bool,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub(crate) enum CheckOutcome {
    /// The run has begun, or had before.
    Begun {
        /// The required validators.
        validators: Vec<String>,
        /// The validators accept before any work.
        accepts_already: bool,
        /// What people should know.
        warnings: Vec<String>,
    },
    /// Nothing is claimed.
    NoClaim,
    /// The person's question was answered, and nothing was changed.
    Answered,
    /// Every required validator accepts.
    Proved { run: String },
    /// The agent needs a human.
    Asks { question: String },
    /// Not accepted.
    Rejected { feedback: String },
    /// A limit of the run was reached.
    Stopped { message: String },
    /// The check was broken off.
    Interrupted,
}

impl CheckOutcome {
    /// Whether the run has an iteration for it, to which is charged what was used.
    pub(crate) const fn is_recorded(&self) -> bool {
        matches!(
            self,
            Self::Proved { .. } | Self::Asks { .. } | Self::Rejected { .. } | Self::Stopped { .. }
        )
    }
}

/// Loads the configuration of a session's run.
///
/// # Errors
/// It is wrong, or works in another folder.
pub(crate) fn load(record: &SessionRecord) -> Result<Context, CommandError> {
    let file = ConfigFile::named(record.config.clone());
    let adapter = toml::Table::from_iter([("adapter".to_owned(), NAME.into())]);
    let mut flags = vec![config_values::flag("hook", "agent", toml::Value::Table(adapter))];
    if let Some(goal) = &record.goal {
        let text = format!("{}\n", goal.trim_end());
        flags.push(config_values::flag("hook arm", "run.prompt_text", text.into()));
    }
    if let Some(state) = &record.state {
        let text = state.display().to_string();
        flags.push(config_values::flag("hook", "state.dir", text.into()));
    }
    let mut context = Context::load_accepted(&file, overrides(flags))?;
    context = trust::settle(context, &[])?;
    trust::accept_silently(&context)?;
    let config = &mut context.loaded.config;
    // The person works in this repository, and prepares it.
    config.backlog = None;
    config.initializer = None;
    config.run.setup = Vec::new();
    config.git.commit = CommitMode::Off;
    config.git.worktree = false;
    // What it costs is counted as soon as its transcript names a model whose price is known.
    config.agent.unmetered = true;
    // It is the person's own agent.
    config.agent.escalate = Vec::new();
    // How often a session is blocked has a limit of its own: one that repeats itself is not let go for that.
    config.limits.max_iterations = None;
    config.limits.max_rejections = None;
    config.limits.max_stagnant = None;
    if !record.is_armed {
        // It is not known yet whether there is a claim.
        config.completion.baseline = BaselineMode::Off;
    }
    let workspace = ralph_orchestrator_safe_fs::real_path(&config.run.workspace);
    if workspace != record.workspace {
        return Err(CommandError::config(format!(
            "run.workspace of {} is {} now, the session began in {}",
            record.config.display(),
            workspace.display(),
            record.workspace.display()
        )));
    }
    Ok(context)
}

fn overrides(flags: Vec<Flag>) -> Overrides {
    Overrides { flags, replaced: Some("agent"), ..Overrides::default() }
}

/// Performs a check.
///
/// # Errors
/// The configuration is wrong, or the run cannot be opened or recorded.
pub(crate) async fn check(
    request: &CheckRequest,
    signals: &Signals,
) -> Result<CheckOutcome, CommandError> {
    let context = load(&request.record)?;
    let agent = AttachedAgent::new(request.work.clone().unwrap_or_default());
    let run = AttachedRun { context: &context, request, signals, agent, warnings: Arc::default() };
    let mut opened = run.open(false).await?;
    if opened.is_err() && request.work.is_none() {
        // What was reached once is to be reached anew.
        opened = run.open(true).await?;
    }
    let mut session = match opened {
        Ok(session) => session,
        Err(proved) => return Ok(proved),
    };
    if session.state().started.is_none() {
        let begun = run.begin(session).await?;
        if request.work.is_none() || !matches!(begun, CheckOutcome::Begun { .. }) {
            return Ok(begun);
        }
        // It was not there when the session began, so what it is compared with is what is there now.
        session = match run.open(false).await? {
            Ok(session) => session,
            Err(proved) => return Ok(proved),
        };
    }
    match &request.work {
        None => Ok(begun(&session, session.state().validation.baseline_accepted == Some(true))),
        Some(work) => run.judge(session, work).await,
    }
}

/// The run of one check.
struct AttachedRun<'a> {
    context: &'a Context,
    request: &'a CheckRequest,
    signals: &'a Signals,
    agent: AttachedAgent,
    warnings: Arc<Warnings>,
}

impl AttachedRun<'_> {
    /// Opens the run, or begins another one. One that is complete is the outcome already.
    async fn open(
        &self,
        restart: bool,
    ) -> Result<Result<Box<Session>, CheckOutcome>, CommandError> {
        let Context { file, loaded, vars, .. } = self.context;
        let plugins = Plugins::from_context(self.context)?;
        let supervisor = registry::supervisor_of_one(self.signals.switch.clone());
        let mut registry = registry::build(&plugins, None, supervisor.clone());
        let agent = self.agent.clone();
        registry.agents.add(NAME, move |_, _| Ok(Box::new(agent.clone())));
        // A person's session is in no sandbox.
        let repositories = GitRepositories {
            supervisor,
            vars: vars.clone(),
            places: self.context.agent_places(),
            runtime: Handle::current(),
            confinement: None,
        };
        // It is large, and awaited by others that are.
        let opened = Box::pin(open(Request {
            loaded: loaded.clone(),
            config_file: file.clone(),
            vars: vars.clone(),
            disk: Disk::default(),
            state_home: self.context.state_home(),
            is_listed: self.request.record.state.is_none(),
            is_workspace_fresh: false,
            registry: &registry,
            end_orphans: &end_orphans,
            processes: Arc::new(SupervisedProcesses),
            version_control: Arc::new(repositories),
            agent: None,
            once: true,
            attached: true,
            restart,
            renew: false,
            new_run: None,
            dry_run: false,
            part: None,
            protect: Vec::new(),
            say: &output::info,
        }));
        Ok(match opened.await? {
            OpenOutcome::Complete { found, .. } => Err(CheckOutcome::Proved { run: found.run }),
            OpenOutcome::Ready(session) => Ok(session),
        })
    }

    /// Records what the work of the session is compared with.
    async fn begin(&self, session: Box<Session>) -> Result<CheckOutcome, CommandError> {
        let mut begun = begun(&session, false);
        let finished = self.drive(session).await?;
        if let CheckOutcome::Begun { accepts_already, warnings, .. } = &mut begun {
            *accepts_already = finished.state.validation.baseline_accepted == Some(true);
            *warnings = self.warnings.take();
        }
        Ok(match finished.reason.kind() {
            StopKind::Once => begun,
            StopKind::Interrupted => CheckOutcome::Interrupted,
            StopKind::Done
            | StopKind::Limit
            | StopKind::Stuck
            | StopKind::Human
            | StopKind::Refused
            | StopKind::Unavailable => CheckOutcome::Stopped { message: finished.message },
        })
    }

    /// Has the validators decide about the work of the session.
    async fn judge(
        &self,
        mut session: Box<Session>,
        work: &SessionWork,
    ) -> Result<CheckOutcome, CommandError> {
        let claim = session.claim_in(&work.message).await;
        if !self.request.record.is_armed && claim.is_none() {
            return Ok(CheckOutcome::NoClaim);
        }
        if self.request.is_question && claim.is_none() && session.is_workspace_unchanged().await? {
            return Ok(CheckOutcome::Answered);
        }
        let guidance: Vec<String> =
            session.state().open_answers().map(|answer| answer.text.clone()).collect();
        if session.state().question().is_some() {
            // The agent has read it already.
            session.answer(&self.request.record.prompt)?;
        }
        if claim != Some(ClaimKind::NeedsHuman) {
            self.agent.claim();
        }
        let layout = session.layout().clone();
        let finished = self.drive(session).await?;
        // The work is proved whether this succeeds or not.
        drop(receipts::write_after(self.context, &layout, &finished));
        Ok(match finished.reason.kind() {
            StopKind::Done if finished.reason == StopReason::Completed => {
                CheckOutcome::Proved { run: finished.run }
            }
            StopKind::Once => CheckOutcome::Rejected { feedback: feedback(&finished, &guidance) },
            StopKind::Human => CheckOutcome::Asks { question: finished.message },
            StopKind::Interrupted => CheckOutcome::Interrupted,
            StopKind::Done
            | StopKind::Limit
            | StopKind::Stuck
            | StopKind::Refused
            | StopKind::Unavailable => CheckOutcome::Stopped { message: finished.message },
        })
    }

    async fn drive(&self, session: Box<Session>) -> Result<Finished, CommandError> {
        let driven = session.drive(Arc::clone(&self.warnings) as _, self.signals.stop_requests());
        Ok(Box::pin(driven).await?)
    }
}

/// Keeps warnings. The rest is for the agent's program to show.
#[derive(Default)]
struct Warnings(Mutex<Vec<String>>);

impl Warnings {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl RunObserver for Warnings {
    fn on_event(&self, _run: &str, event: &RunEvent) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            RunEvent::Warning { message, .. } => kept.push(message.clone()),
            RunEvent::Baseline { verdicts, .. } => {
                for named in verdicts {
                    if let Verdict::Error { message } = &named.verdict {
                        kept.push(format!("no verdict by {}: {message}", named.validator));
                    }
                }
            }
            _ => {}
        }
    }
}

fn begun(session: &Session, accepts_already: bool) -> CheckOutcome {
    CheckOutcome::Begun {
        validators: session.plan().validators,
        accepts_already,
        warnings: Vec::new(),
    }
}

/// Returns what the agent has to know, and what people have sent for it.
fn feedback(finished: &Finished, guidance: &[String]) -> String {
    let mut text = finished.feedback();
    if !guidance.is_empty() {
        text.push_str("\n\nGuidance from a human:\n");
        text.extend(guidance.iter().map(|text| format!("- {text}\n")));
    }
    text.trim_end().to_owned()
}
