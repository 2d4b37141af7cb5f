//! Every way a plugin can go wrong, chosen by the prompt, and some in which it goes right.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ralph_orchestrator_plugin_sdk::{
    Agent, AgentError, BacklogEdit, BacklogFormat, BacklogItem, BuildContext, BuildError,
    CancelSignal, Claim, CompletionDetector, Description, DetectorInput, ErrorClass, Event,
    EventSink, EvidenceValidator, Findings, FormatDefect, FormatDescription, FormatError,
    ItemStatus, Iteration, Report, ValidationContext, ValidatorDescription, Verdict, async_trait,
    export_plugin,
};
use serde::Deserialize;

mod bad;
mod good;

/// What the tests say in the table.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// What building it does: `panic`, `refuse`, `panic-in-describe`.
    #[serde(default)]
    create: String,
    /// What dropping it does: `panic` or `print`.
    #[serde(default)]
    drop: String,
}

struct Bad {
    config: Config,
    config_dir: PathBuf,
}

impl Drop for Bad {
    fn drop(&mut self) {
        if self.config.drop == "panic" {
            panic!("deliberate panic in drop of the agent");
        }
        if self.config.drop == "print" {
            println!("printed at the end");
        }
    }
}

fn build(config: Config, context: &BuildContext) -> Result<Bad, BuildError> {
    match config.create.as_str() {
        "panic" => panic!("deliberate panic in create"),
        "refuse" => Err(BuildError::at("create", "refused on purpose")),
        _ => Ok(Bad { config, config_dir: context.config_dir.clone() }),
    }
}

#[async_trait]
impl Agent for Bad {
    fn describe(&self) -> Description {
        assert!(self.config.create != "panic-in-describe", "deliberate panic in describe");
        Description {
            name: "bad".to_owned(),
            summary: format!("configured in {}", self.config_dir.display()),
            ..Description::default()
        }
    }

    async fn check(&self, env: &BTreeMap<String, String>) -> Result<String, AgentError> {
        match env.get("CHECK").map(String::as_str) {
            Some("panic") => panic!("deliberate panic in check"),
            Some(why) => Err(AgentError::new(ErrorClass::Unavailable, why)),
            None => Ok("it would start".to_owned()),
        }
    }

    async fn run(&self, task: Iteration, events: &dyn EventSink) -> Result<Report, AgentError> {
        let prompt = String::from_utf8_lossy(&task.prompt).into_owned();
        let (what, more) = prompt.split_once(' ').unwrap_or((prompt.as_str(), ""));
        if let Some(report) = good::run(what, more, &task, events).await? {
            return Ok(report);
        }
        bad::run(what, more, events).await
    }
}

struct BadDetector;

#[async_trait]
impl CompletionDetector for BadDetector {
    fn name(&self) -> &str {
        "bad"
    }

    fn observes(&self) -> bool {
        true
    }

    async fn observe(&self, event: &Event) -> Vec<Claim> {
        if let Event::Text { text } = event {
            assert!(text != "panic", "deliberate panic in observe");
        }
        Vec::new()
    }

    async fn inspect(&self, input: DetectorInput<'_>) -> Findings {
        assert!(input.prompt != Some("panic"), "deliberate panic in inspect");
        Findings::default()
    }

    fn instructions(&self) -> String {
        "There is no way.".to_owned()
    }
}

struct BadValidator;

#[async_trait]
impl EvidenceValidator for BadValidator {
    fn describe(&self) -> ValidatorDescription {
        ValidatorDescription { kind: "bad".to_owned(), demands: "nothing".to_owned() }
    }

    fn runs_check(&self) -> bool {
        true
    }

    async fn check(&self, env: &BTreeMap<String, String>) -> Result<(), String> {
        env.get("CHECK").map_or(Ok(()), |why| Err(why.clone()))
    }

    async fn validate(&self, context: ValidationContext<'_>, cancel: &dyn CancelSignal) -> Verdict {
        match context.claim.text.as_str() {
            "panic" => panic!("deliberate panic in validate"),
            "wait" => Verdict::rejected(format!("cancelled: {:?}", cancel.cancelled().await)),
            text => Verdict::Accepted { summary: text.to_owned(), evidence: Vec::new() },
        }
    }
}

struct BadFormat;

impl BacklogFormat for BadFormat {
    fn describe(&self) -> FormatDescription {
        FormatDescription { example: "one\n".to_owned(), ..FormatDescription::default() }
    }

    /// Each line is an item.
    fn read(&self, text: &str) -> Result<Vec<BacklogItem>, FormatError> {
        match text {
            "panic" => panic!("deliberate panic in read"),
            "defect" => {
                let defect = FormatDefect { message: "it is wrong".into(), ..Default::default() };
                return Err(FormatError::Defects(vec![defect]));
            }
            "no defect" => return Err(FormatError::Defects(Vec::new())),
            _ => {}
        }
        let item = |line: &str| BacklogItem {
            id: line.to_owned(),
            title: line.to_owned(),
            description: String::new(),
            status: ItemStatus::Pending,
            priority: 0,
            criteria: Vec::new(),
            dependencies: Vec::new(),
            notes: Vec::new(),
            verify: None,
            location: None,
        };
        Ok(text.lines().map(item).collect())
    }

    fn edit(&self, text: &str, edits: &[BacklogEdit]) -> Result<String, FormatError> {
        match edits {
            [BacklogEdit::Add { item }] => Ok(format!("{text}{}\n", item.title)),
            [BacklogEdit::SetNotes { .. }] => Err(FormatError::NotStorable("notes".to_owned())),
            _ => Err(FormatError::Failed("it can only add".to_owned())),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

export_plugin! {
    /// Does what its prompt says.
    agent "bad", |config: Config, context| build(config, context);
    /// Finds nothing.
    detector "bad", |_config: Nothing| Ok(BadDetector);
    /// Accepts every claim.
    validator "bad", |_config: Nothing| Ok(BadValidator);
    /// Has an item in each line.
    backlog "bad", |_config: Nothing| Ok(BadFormat);
}
