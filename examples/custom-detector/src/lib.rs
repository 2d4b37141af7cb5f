//! A completion detector: the agent keeps a plan with boxes, `- [ ]` and `- [x]`, and the task is
//! claimed to be complete when all of them are checked.
//!
//! ```toml
//! [plugins.plan]
//! library = "target/release/libplan_detector.so"
//!
//! [completion]
//! detectors = ["plan"]
//! ```

use std::path::PathBuf;

use ralph_orchestrator_plugin_sdk::{
    BuildError, Claim, ClaimKind, ClaimSource, CompletionDetector, DetectorInput, Findings,
    NearMiss, async_trait, export_plugin,
};
use serde::Deserialize;

const NAME: &str = "plan";

/// Its table in `ralph.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The plan, relative to the workspace.
    #[serde(default = "plan")]
    file: PathBuf,
}

fn plan() -> PathBuf {
    "PLAN.md".into()
}

struct Plan {
    file: PathBuf,
}

/// The boxes of a plan.
#[derive(Debug, Default, PartialEq)]
struct Boxes {
    checked: u64,
    open: u64,
    /// Lines that are neither: their numbers and texts.
    odd: Vec<(u64, String)>,
}

fn boxes(plan: &str) -> Boxes {
    let mut boxes = Boxes::default();
    for (number, line) in (1..).zip(plan.lines()) {
        let item = line.trim_start();
        let Some(item) = item.strip_prefix("- [").or_else(|| item.strip_prefix("* [")) else {
            continue;
        };
        match item.split_once(']').map(|(mark, _)| mark) {
            Some("x" | "X") => boxes.checked += 1,
            Some(" ") => boxes.open += 1,
            // A link, for instance, is no box.
            Some(mark) if mark.trim().len() > 1 => {}
            _ => boxes.odd.push((number, line.trim().to_owned())),
        }
    }
    boxes
}

#[async_trait]
impl CompletionDetector for Plan {
    fn name(&self) -> &str {
        NAME
    }

    async fn inspect(&self, input: DetectorInput<'_>) -> Findings {
        let path = input.workspace.join(&self.file);
        let plan = match tokio::fs::read_to_string(&path).await {
            Ok(plan) => plan,
            Err(error) => {
                tracing::debug!(path = %path.display(), %error, "there is no plan to look at");
                return Findings::default();
            }
        };
        let Boxes { checked, open, odd } = boxes(&plan);
        tracing::info!(checked, open, "looked at the plan");
        let file = self.file.display();
        let mut findings = Findings::default();
        for (line, text) in odd {
            let hint = format!("line {line} of {file} is no box; write `- [x]` when it is done");
            findings.near_misses.push(NearMiss { detector: NAME.to_owned(), text, line, hint });
        }
        if checked > 0 && open == 0 && findings.near_misses.is_empty() {
            findings.claims.push(Claim {
                kind: ClaimKind::Complete,
                detector: NAME.to_owned(),
                source: ClaimSource::State,
                text: format!("all {checked} boxes in {file} are checked"),
            });
        }
        findings
    }

    fn instructions(&self) -> String {
        let file = self.file.display();
        format!(
            "Keep your plan in {file} as a list of `- [ ]` items and check each (`- [x]`) when it is \
             done and verified. When all are checked, the task counts as claimed complete."
        )
    }
}

export_plugin! {
    /// Claims completion when every box in a plan file is checked.
    detector "plan", |config: Config| {
        if config.file.is_absolute() {
            return Err(BuildError::at("file", "has to be relative to the workspace"));
        }
        Ok(Plan { file: config.file })
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    async fn look(workspace: &Path) -> Findings {
        let input = DetectorInput {
            workspace,
            prompt_path: None,
            prompt: None,
            final_text: None,
            given: None,
        };
        Plan { file: plan() }.inspect(input).await
    }

    #[tokio::test]
    async fn only_a_plan_whose_boxes_are_all_checked_is_a_claim() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(look(folder.path()).await, Findings::default());
        for (plan, claims, near_misses) in [
            ("", 0, 0),
            ("no boxes at all", 0, 0),
            ("- [ ] one\n- [x] two\n", 0, 0),
            ("- [x] one\n  * [X] two\n", 1, 0),
            ("- [x] one\n- [v] two\n", 0, 1),
            ("- [x] one\n- [a link](https://example.org)\n", 1, 0),
        ] {
            std::fs::write(folder.path().join("PLAN.md"), plan).unwrap();
            let found = look(folder.path()).await;
            assert_eq!(
                (found.claims.len(), found.near_misses.len()),
                (claims, near_misses),
                "{plan}"
            );
        }
    }

    #[test]
    fn an_odd_box_is_named_by_its_line() {
        assert_eq!(boxes("# Plan\n\n- [v] two").odd, [(3, "- [v] two".to_owned())]);
    }
}
