//! An agent, a detector and a validator without processes. Every step can be done again.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;

use async_trait::async_trait;
use ralph_orchestrator_contract::{
    Agent, AgentError, CancelSignal, Capabilities, Claim, ClaimKind, ClaimSource,
    CompletionDetector, Description, DetectorInput, Event, EventSink, EvidenceFile,
    EvidenceValidator, Findings, Iteration, Report, Usage, Usd, ValidationContext,
    ValidationPreview, ValidatorDescription, Verdict,
};
use ralph_orchestrator_engine::registry::Registry;
use ralph_orchestrator_machine::Record;
use ralph_orchestrator_store::{Layout, read_current_run};

pub(crate) const CLAIM: &str = "all done";

/// What really happened, as opposed to what was recorded.
#[derive(Default)]
pub(crate) struct Happened {
    /// The number of each iteration in which an agent ran.
    pub(crate) ran: Vec<u64>,
    /// How often the validator accepted.
    pub(crate) accepted: usize,
}

#[derive(Clone)]
pub(crate) struct Script {
    pub(crate) workspace: PathBuf,
    pub(crate) state: PathBuf,
    pub(crate) happened: Arc<Mutex<Happened>>,
}

impl Script {
    pub(crate) fn registry(&self) -> Registry {
        let mut registry = Registry::default();
        let this = self.clone();
        registry.agents.add("scripted", move |_, _| Ok(Box::new(this.clone()) as Box<dyn Agent>));
        let this = self.clone();
        registry
            .detectors
            .add("scripted", move |_, _| Ok(Box::new(this.clone()) as Box<dyn CompletionDetector>));
        let this = self.clone();
        registry
            .validators
            .add("scripted", move |_, _| Ok(Box::new(this.clone()) as Box<dyn EvidenceValidator>));
        registry
    }

    /// The last record on disk, and the records of a kind.
    fn recorded(&self) -> Vec<Record> {
        let mut records = Vec::new();
        read_current_run(&Layout::new(self.state.clone()), |entry| {
            records.push(entry.record.clone());
        })
        .unwrap();
        records
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.workspace.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

impl Script {
    /// Writes the report, at a time that its file shows: the clock of a file system stands still for some
    /// milliseconds, in which an agent in this process is done.
    fn report(&self) {
        let path = self.workspace.join("evidence/t.txt");
        let before = fs::metadata(&path).and_then(|meta| meta.modified()).ok();
        loop {
            self.write("evidence/t.txt", "passed\n");
            if fs::metadata(&path).unwrap().modified().ok() != before {
                break;
            }
        }
    }
}

#[async_trait]
impl Agent for Script {
    fn describe(&self) -> Description {
        Description {
            name: "scripted".into(),
            capabilities: Capabilities { cost: true, ..Capabilities::default() },
            ..Description::default()
        }
    }

    async fn check(&self, _env: &BTreeMap<String, String>) -> Result<String, AgentError> {
        Ok("here".into())
    }

    /// Half of the work at a time; claims that it is all.
    async fn run(&self, task: Iteration, events: &dyn EventSink) -> Result<Report, AgentError> {
        let started = self.recorded().into_iter().any(
            |record| matches!(record, Record::IterationStarted { iteration, .. } if iteration == task.number),
        );
        assert!(started, "iteration {} runs without being recorded", task.number);
        self.happened.lock().unwrap().ran.push(task.number);
        let cost = Usd::from_dollars(0.25);
        let usage = Usage { cost, ..Usage::default() };
        events.emit(Event::Text { text: "working".into() }).await;
        // The same report each time, before the work is whole.
        self.report();
        if self.workspace.join("half").exists() {
            self.write("done", "2\n");
        } else {
            self.write("half", "1\n");
            events.emit(Event::Note { text: "the other half".into() }).await;
            // Whatever becomes of the state, there is an answer.
            let judgement = events.preview(Some(CLAIM)).await;
            assert!(!matches!(judgement, ValidationPreview::Accepted | ValidationPreview::NoClaim));
        }
        events.emit(Event::Usage { usage }).await;
        Ok(Report { final_text: Some(CLAIM.into()), usage, ..Report::default() })
    }
}

#[async_trait]
impl CompletionDetector for Script {
    fn name(&self) -> &str {
        "scripted"
    }

    async fn inspect(&self, view: DetectorInput<'_>) -> Findings {
        let claimed = view.final_text.is_some_and(|text| text == CLAIM);
        let claim = Claim {
            kind: ClaimKind::Complete,
            detector: "scripted".into(),
            source: ClaimSource::Message,
            text: CLAIM.into(),
        };
        Findings { claims: claimed.then_some(claim).into_iter().collect(), ..Findings::default() }
    }

    fn instructions(&self) -> String {
        format!("Say {CLAIM}.")
    }
}

#[async_trait]
impl EvidenceValidator for Script {
    fn describe(&self) -> ValidatorDescription {
        ValidatorDescription { kind: "scripted".into(), demands: "a file called done".into() }
    }

    fn runs_check(&self) -> bool {
        true
    }

    fn evidence_dirs(&self) -> Vec<PathBuf> {
        vec![self.workspace.join("evidence")]
    }

    async fn validate(&self, context: ValidationContext<'_>, _: &dyn CancelSignal) -> Verdict {
        if context.claim.detector == "baseline" {
            return Verdict::rejected("nothing is done yet");
        }
        let claimed = self.recorded().iter().any(|record| matches!(record, Record::Claimed { .. }));
        assert!(claimed, "validated without a claim on disk");
        if !self.workspace.join("done").exists() {
            return Verdict::rejected("there is no file called done");
        }
        self.happened.lock().unwrap().accepted += 1;
        Verdict::Accepted {
            summary: "it is there".into(),
            evidence: vec![evidence(&self.workspace.join("evidence/t.txt"))],
        }
    }
}

fn evidence(path: &Path) -> EvidenceFile {
    let content = fs::read(path).unwrap();
    EvidenceFile {
        path: path.to_owned(),
        digest: blake3::hash(&content).to_hex().to_string(),
        bytes: content.len() as u64,
    }
}
