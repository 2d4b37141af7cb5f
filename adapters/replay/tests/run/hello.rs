//! The example that the shipped configuration runs.

use std::fs;
use std::path::{Path, PathBuf};

use ralph_orchestrator_contract::Event;
use ralph_orchestrator_testkit::RecordingSink;
use serde_json::{Value, json};

use crate::support::{Place, warnings};

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/hello")
}

fn prepared() -> Place {
    let place = Place::new();
    for entry in fs::read_dir(example().join("template")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), place.workspace.join(entry.file_name())).unwrap();
    }
    place
}

async fn iterate(place: &Place, number: u64) -> (String, RecordingSink) {
    let sink = RecordingSink::new();
    let config = json!({"session": example().join("session")});
    let report = place.run(config, number, &sink).await.unwrap();
    assert_eq!(report.left_behind, [""; 0]);
    (report.final_text.unwrap(), sink)
}

/// Exit status and output of the project's real tests.
#[allow(clippy::disallowed_methods)]
fn test_it(place: &Place) -> (i32, String) {
    let output = std::process::Command::new("sh")
        .arg("test.sh")
        .current_dir(&place.workspace)
        .output()
        .unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

fn claims(text: &str) -> bool {
    let last = text.lines().last().unwrap();
    last.starts_with("<promise>COMPLETE: ") && last.ends_with("</promise>")
}

#[tokio::test]
async fn the_first_claim_is_wrong_and_the_second_is_right() {
    let place = prepared();
    let (text, _) = iterate(&place, 1).await;
    assert!(claims(&text), "{text}");
    let (status, output) = test_it(&place);
    assert_eq!((status, output.lines().last()), (1, Some("2 passed, 2 failed")));
    assert!(!place.workspace.join("validation-evidence").exists());

    let (text, sink) = iterate(&place, 2).await;
    assert!(claims(&text), "{text}");
    let (status, output) = test_it(&place);
    assert_eq!((status, output.lines().last()), (0, Some("4 passed, 0 failed")));
    assert_eq!(place.read("validation-evidence/tests.txt"), output);
    let summary: Value =
        serde_json::from_str(&place.read("validation-evidence/summary.json")).unwrap();
    assert_eq!(
        summary,
        json!({"command": "sh test.sh", "exit_status": 0, "passed": 4, "failed": 0})
    );
    assert!(place.read("validation-evidence/greetings.txt").contains("Hello, Grace Hopper!"));
    assert_eq!(warnings(&sink), [""; 0], "all went as recorded");
}

#[tokio::test]
async fn a_third_iteration_repeats_the_last_and_does_no_harm() {
    let place = prepared();
    for number in 1..=3 {
        iterate(&place, number).await;
    }
    assert_eq!(test_it(&place).0, 0);
}

#[tokio::test]
async fn the_recording_fits_the_template() {
    let place = prepared();
    let (_, sink) = iterate(&place, 1).await;
    let prompt = fs::read_to_string(example().join("template/PROMPT.md")).unwrap();
    let read = sink.events().clone().into_iter().find_map(|event| match event {
        Event::ToolResult { text, .. } if text.starts_with("1\t# A program") => Some(text),
        _ => None,
    });
    let read = read.unwrap();
    let lines = read.lines().map(|line| line.split_once('\t').map_or("", |(_, text)| text));
    let recorded = lines.collect::<Vec<_>>().join("\n");
    assert_eq!(recorded.trim_end(), prompt.trim_end());
}
