//! Programs that print without an end: limits and signals are looked at all the same.

use ralph_orchestrator_testkit::flood::assert_gives_way;
use serde_json::json;

use crate::support::{Place, Sink, Then};

#[test]
fn every_flood_gives_way_in_every_form_of_output() {
    let assistant = r#"{"type":"assistant","message":{"content":[{"type":"text","text":"x"}]}}"#;
    let item = r#"{"type":"item.completed","item":{"type":"agent_message","text":"x"}}"#;
    let step = r#"{"type":"text","part":{"type":"text","text":"x"}}"#;
    for output in ["text", "claude-json", "codex-json", "opencode-json"] {
        for script in [
            "yes".to_owned(),
            "yes >&2".to_owned(),
            "yes >&2 & yes".to_owned(),
            "yes ''".to_owned(),
            "tr '\\0' x < /dev/zero".to_owned(),
            format!("yes '{assistant}'"),
            format!("yes '{item}'"),
            format!("yes '{step}'"),
        ] {
            let config = json!({"program": ["sh", "-c", script], "output": output});
            assert_gives_way(&format!("{output}: {script}"), move || async move {
                let place = Place::new();
                // Forgets, so that only the adapter is looked at.
                let sink = Sink::with(|_| Then::GoOn).forgetting();
                drop(place.agent(config).run(place.task(b""), &sink).await);
            });
        }
    }
}
