//! A run with an agent and a validator that a test writes.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use ralph_orchestrator_config::{self as config, Sources};
use ralph_orchestrator_contract::{
    Agent, AgentError, CancelSignal, Capabilities, Claim, ClaimKind, ClaimSource,
    CompletionDetector, Description, DetectorInput, ErrorClass, Event, EventSink,
    EvidenceValidator, Findings, Iteration, Report, ReviewMaterial, Reviewer, Survivor,
    ValidationContext, ValidationPreview, ValidatorDescription, Verdict,
};
use ralph_orchestrator_engine::registry::Registry;
use ralph_orchestrator_engine::{
    Finished, NoProcesses, OpenOutcome, Processes, RunEvent, RunObserver, StopRequest,
};
use ralph_orchestrator_machine::Record;
use ralph_orchestrator_store::{Disk, Layout, read_current_run};
use tokio::sync::watch;

use crate::run_folder::{RunFolder, Start, open_run};

const CONFIG: &str = r#"
[run]
workspace = "w"
delay = "0s"
[agent]
adapter = "played"
[completion]
instructions = "never"
baseline = "off"
detectors = ["played"]
[[validator]]
kind = "played"
timeout = "10m"
[state]
dir = "@STATE@"
[env]
pass = ["MY_TOKEN"]
[limits]
"#;

/// Longer than anything takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What the agent and the validator do.
#[async_trait]
pub(crate) trait Play: Send + Sync {
    async fn work(&self, stage: &Stage, task: Iteration, events: &dyn EventSink);

    /// The processes of an iteration that could not be ended, by default none.
    fn survived(&self, _iteration: u64) -> Vec<Survivor> {
        Vec::new()
    }

    /// Who looks after them.
    fn processes(&self) -> Arc<dyn Processes> {
        Arc::new(NoProcesses)
    }

    /// By default the work is done when there is a file called done.
    async fn validate(
        &self,
        stage: &Stage,
        _context: ValidationContext<'_>,
        _cancel: &dyn CancelSignal,
    ) -> Verdict {
        stage.verdict()
    }
}

/// Where it is played.
#[derive(Clone)]
pub(crate) struct Stage {
    pub(crate) workspace: PathBuf,
    /// What was heard and done, in order.
    pub(crate) said: Arc<Mutex<Vec<String>>>,
}

impl Stage {
    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.workspace.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn say(&self, what: impl Into<String>) {
        self.said.lock().unwrap().push(what.into());
    }

    pub(crate) fn verdict(&self) -> Verdict {
        if self.workspace.join("done").exists() {
            Verdict::Accepted { summary: "it is there".into(), evidence: Vec::new() }
        } else {
            Verdict::rejected("there is no file called done")
        }
    }

    pub(crate) async fn judge(
        &self,
        events: &dyn EventSink,
        text: Option<&str>,
    ) -> ValidationPreview {
        let judgement = events.preview(text).await;
        self.say(match &judgement {
            ValidationPreview::NoClaim => "no claim".into(),
            ValidationPreview::Accepted => "accepted".into(),
            ValidationPreview::Rejected { reasons } => format!("rejected: {}", reasons.join("; ")),
            ValidationPreview::NotNow { why } => format!("not now: {why}"),
        });
        judgement
    }

    pub(crate) async fn claim(&self, events: &dyn EventSink) {
        events.emit(Event::Claim { kind: ClaimKind::Complete, text: "by tool".into() }).await;
    }
}

struct Player {
    play: Arc<dyn Play>,
    stage: Stage,
}

#[async_trait]
impl Agent for Player {
    fn describe(&self) -> Description {
        Description {
            name: "played".into(),
            capabilities: Capabilities {
                cost: true,
                in_session_validation: true,
                ..Capabilities::default()
            },
            ..Description::default()
        }
    }

    async fn check(&self, _env: &BTreeMap<String, String>) -> Result<String, AgentError> {
        Ok("here".into())
    }

    async fn run(&self, task: Iteration, events: &dyn EventSink) -> Result<Report, AgentError> {
        let report = Report { survived: self.play.survived(task.number), ..Report::default() };
        self.play.work(&self.stage, task, events).await;
        // Whoever was told to end ends badly.
        tokio::select! {
            biased;
            reason = events.cancelled() => {
                let error = AgentError::new(ErrorClass::Cancelled, format!("{reason:?}"));
                Err(error.with_report(report))
            }
            () = std::future::ready(()) => Ok(report),
        }
    }
}

#[async_trait]
impl CompletionDetector for Player {
    fn name(&self) -> &str {
        "played"
    }

    async fn inspect(&self, view: DetectorInput<'_>) -> Findings {
        let claimed = view.final_text.filter(|text| text.contains("DONE"));
        let claim = claimed.map(|text| Claim {
            kind: ClaimKind::Complete,
            detector: "played".into(),
            source: ClaimSource::Message,
            text: text.to_owned(),
        });
        Findings { claims: claim.into_iter().collect(), ..Findings::default() }
    }

    fn instructions(&self) -> String {
        "Say DONE.".into()
    }
}

#[async_trait]
impl EvidenceValidator for Player {
    fn describe(&self) -> ValidatorDescription {
        ValidatorDescription { kind: "played".into(), demands: "a file called done".into() }
    }

    fn runs_check(&self) -> bool {
        true
    }

    fn evidence_dirs(&self) -> Vec<PathBuf> {
        vec![self.stage.workspace.join("evidence")]
    }

    async fn validate(&self, context: ValidationContext<'_>, cancel: &dyn CancelSignal) -> Verdict {
        self.play.validate(&self.stage, context, cancel).await
    }
}

/// Wants the work reviewed by the agent `judge`.
struct Reviewed;

#[async_trait]
impl EvidenceValidator for Reviewed {
    fn describe(&self) -> ValidatorDescription {
        ValidatorDescription { kind: "reviewed".into(), demands: "a review".into() }
    }

    fn runs_check(&self) -> bool {
        false
    }

    fn reviewer(&self) -> Option<&dyn Reviewer> {
        Some(self)
    }

    async fn validate(&self, _: ValidationContext<'_>, _: &dyn CancelSignal) -> Verdict {
        Verdict::Accepted { summary: "never asked".into(), evidence: Vec::new() }
    }
}

impl Reviewer for Reviewed {
    fn agent(&self) -> &'static str {
        "judge"
    }

    fn prompt(&self, _: &ReviewMaterial<'_>) -> String {
        "review it".into()
    }

    fn read_verdict(&self, _: &str) -> Verdict {
        Verdict::Accepted { summary: "reviewed".into(), evidence: Vec::new() }
    }
}

#[derive(Default)]
struct Watcher(Mutex<Vec<String>>);

impl RunObserver for Watcher {
    fn on_event(&self, _run: &str, notice: &RunEvent) {
        let mut shown = self.0.lock().unwrap();
        match notice {
            RunEvent::Warning { message, .. } => shown.push(message.clone()),
            RunEvent::Waiting { reason, .. } => shown.push(reason.clone()),
            _ => {}
        }
    }
}

/// What a run left.
pub(crate) struct After {
    pub(crate) finished: Finished,
    pub(crate) records: Vec<Record>,
    pub(crate) said: Vec<String>,
    /// What was shown to people.
    pub(crate) shown: Vec<String>,
    _folder: RunFolder,
}

impl After {
    /// The kinds of the records that tell of claims, judgements and verdicts.
    pub(crate) fn story(&self) -> Vec<&'static str> {
        let word = |record: &Record| match record {
            Record::Claimed { .. } => Some("claimed"),
            Record::Previewed { accepted: true, .. } => Some("preview accepted"),
            Record::Previewed { .. } => Some("preview rejected"),
            Record::Validated { accepted: true, .. } => Some("accepted"),
            Record::Validated { .. } => Some("rejected"),
            Record::IterationEnded { .. } => Some("ended"),
            _ => None,
        };
        self.records.iter().filter_map(word).collect()
    }
}

/// Runs the loop with this agent and validator; `ask` asks it to stop.
pub(crate) async fn run_with(
    play: impl Play + 'static,
    limits: &str,
    ask: watch::Receiver<StopRequest>,
) -> After {
    let folder = RunFolder::new(&format!("{CONFIG}{limits}"));
    let stage = Stage { workspace: folder.workspace(), said: Arc::default() };
    let play: Arc<dyn Play> = Arc::new(play);
    let player = || Player { play: Arc::clone(&play), stage: stage.clone() };
    let registry = {
        let mut registry = Registry::default();
        let (a, d, v) = (player(), player(), player());
        let again = |p: &Player| Player { play: Arc::clone(&p.play), stage: p.stage.clone() };
        registry.agents.add("played", move |_, _| Ok(Box::new(again(&a)) as Box<dyn Agent>));
        registry
            .detectors
            .add("played", move |_, _| Ok(Box::new(again(&d)) as Box<dyn CompletionDetector>));
        registry
            .validators
            .add("played", move |_, _| Ok(Box::new(again(&v)) as Box<dyn EvidenceValidator>));
        registry
            .validators
            .add("reviewed", |_, _| Ok(Box::new(Reviewed) as Box<dyn EvidenceValidator>));
        registry
    };
    let root = folder.root();
    let file = folder.config_file();
    let loaded = config::load(&Sources { file, ..Sources::default() }).unwrap();
    let opened = open_run(Start {
        root: &root,
        loaded,
        vars: BTreeMap::from([("MY_TOKEN".to_owned(), "s3cret-value".to_owned())]),
        disk: Disk::default(),
        processes: play.processes(),
        registry: &registry,
    });
    let OpenOutcome::Ready(session) = opened.await.unwrap() else { panic!("complete already") };
    let watcher = Arc::new(Watcher::default());
    let observer: Arc<dyn RunObserver> = Arc::<Watcher>::clone(&watcher);
    let finished = tokio::time::timeout(PATIENCE, Box::pin(session.drive(observer, ask)));
    let finished = finished.await.expect("the run never ended").unwrap();
    let mut records = Vec::new();
    read_current_run(&Layout::new(folder.state()), |entry| records.push(entry.record.clone()))
        .unwrap();
    let said = stage.said.lock().unwrap().clone();
    let shown = watcher.0.lock().unwrap().clone();
    After { finished, records, said, shown, _folder: folder }
}

pub(crate) async fn run(play: impl Play + 'static, limits: &str) -> After {
    let (_ask, asked) = watch::channel(StopRequest::default());
    run_with(play, limits, asked).await
}
