//! One item of each kind, which use what the interface has. The library that was built of this when the
//! interface was new is kept in `tests/compatibility`, and has to load for ever after.

use std::collections::BTreeMap;
use std::time::Duration;

use ralph_orchestrator_plugin_sdk::{
    Agent, AgentError, BuildContext, BuildError, CancelSignal, Claim, ClaimKind, ClaimSource,
    CompletionDetector, Description, DetectorInput, ErrorClass, Event, EventSink,
    EvidenceValidator, Findings, Iteration, Report, ValidationContext, ValidatorDescription,
    Verdict, async_trait, export_plugin,
};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(default)]
    word: String,
}

fn build(config: Config, context: &BuildContext) -> Result<Echo, BuildError> {
    if config.word == "refused" {
        return Err(BuildError::at("word", format!("refused in {}", context.config_dir.display())));
    }
    Ok(Echo(config.word))
}

struct Echo(String);

#[async_trait]
impl Agent for Echo {
    fn describe(&self) -> Description {
        Description { name: "echo".to_owned(), ..Description::default() }
    }

    async fn check(&self, _env: &BTreeMap<String, String>) -> Result<String, AgentError> {
        Ok(format!("says {}", self.0))
    }

    async fn run(&self, task: Iteration, events: &dyn EventSink) -> Result<Report, AgentError> {
        tracing::warn!(word = self.0, "works");
        let prompt = String::from_utf8_lossy(&task.prompt).into_owned();
        if prompt == "wait" {
            let reason = events.cancelled().await;
            return Err(AgentError::new(ErrorClass::Cancelled, reason.because()));
        }
        assert!(prompt != "panic", "a panic on purpose");
        for number in 0..200_u8 {
            events.emit(Event::Text { text: format!("{number}") }).await;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        let judgement = events.preview(Some(&prompt)).await;
        let text = format!("{} {prompt} {judgement:?}", self.0);
        Ok(Report { final_text: Some(text), ..Report::default() })
    }
}

#[async_trait]
impl CompletionDetector for Echo {
    fn name(&self) -> &str {
        "echo"
    }

    async fn inspect(&self, input: DetectorInput<'_>) -> Findings {
        let claim = |text: &str| Claim {
            kind: ClaimKind::Complete,
            detector: "echo".to_owned(),
            source: ClaimSource::Message,
            text: text.to_owned(),
        };
        Findings {
            claims: input.final_text.map(claim).into_iter().collect(),
            ..Findings::default()
        }
    }

    fn instructions(&self) -> String {
        "Say anything.".to_owned()
    }
}

#[async_trait]
impl EvidenceValidator for Echo {
    fn describe(&self) -> ValidatorDescription {
        ValidatorDescription { kind: "echo".to_owned(), demands: self.0.clone() }
    }

    fn runs_check(&self) -> bool {
        true
    }

    async fn validate(
        &self,
        context: ValidationContext<'_>,
        _cancel: &dyn CancelSignal,
    ) -> Verdict {
        if context.claim.text.contains(&self.0) {
            Verdict::Accepted { summary: "said".to_owned(), evidence: Vec::new() }
        } else {
            Verdict::rejected(format!("say {}", self.0))
        }
    }
}

export_plugin! {
    /// Says what it is told.
    agent "echo", |config: Config, context| build(config, context);
    /// Takes every message for a claim.
    detector "echo", |config: Config, context| build(config, context);
    /// Accepts one word.
    validator "echo", |config: Config, context| build(config, context);
}
