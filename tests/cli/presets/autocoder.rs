//! `preset = "autocoder"`, from an empty folder to completion, as its document has it.

use serde_json::{Value, json};

use super::{given, preset};
use crate::backlog::formats::FEATURES_DB;
use crate::environment::TestEnvironment;
use crate::notices::receiver::{Answer, Receiver, Request, closed_port};

/// Does the work of a feature, and marks it as passing as AutoCoder's tool does it.
const MARK: &str = "id=$(sed -n 's/^Id: //p' \"$call.stdin\" | head -1)
: > made-$id; echo \"I was here\" >> claude-progress.txt
python3 -c \"import sqlite3; db = sqlite3.connect('features.db'); db.execute('UPDATE features SET passes = 1 WHERE id = $id'); db.commit()\"
";

/// Makes the database.
fn database() -> String {
    format!("python3 - <<'P'\n{FEATURES_DB}P\n")
}

/// A project with prompts of its own, none of which says how to claim.
fn project() -> TestEnvironment {
    let env = preset(
        "autocoder",
        "[[validator]]\nkind = \"command\"\nname = \"tests\"\nprogram = [\"sh\", \"-c\", \"test -e made-2\"]\n",
    );
    std::fs::remove_file(env.path("PROMPT.md")).unwrap();
    env.write("prompts/initializer_prompt.md", "Fill features.db. {x} $HOME {{y}}\r\n");
    env.write(".claude/templates/coding_prompt.template.md", "Work. {x} $HOME {{y}}\r\n");
    env.write("prompts/coding_prompt_yolo.md", "Work without a browser.\n");
    env
}

#[test]
fn the_initializer_fills_the_database_and_features_are_worked_by_priority_then_id() {
    let env = project();
    env.agent.call(1).script(&database()).out("There are three features.\n");
    env.agent.default_call().script(MARK).out("It passes.\n");
    env.run().expect(0).says("3/3 (100.0%)");
    assert_eq!(env.agent.calls(), 4);
    assert_eq!(given(&env, 1), "Fill features.db. {x} $HOME {{y}}\r\n", "byte for byte");
    let ids = [2, 3, 1];
    for (call, id) in (2..).zip(ids) {
        let text = given(&env, call);
        assert!(text.starts_with("Work. {x} $HOME {{y}}\r\n"), "{text}");
        assert!(text.contains(&format!("Id: {id}\n")), "{text}");
        assert!(!text.contains("<promise>") && !text.contains("I was here"), "{text}");
    }
    assert!(!env.path("claude-progress.txt").exists(), "it is kept where no agent finds it");
    let kept = std::fs::read_to_string(env.state().join("memory/claude-progress.txt")).unwrap();
    assert_eq!(kept.matches("I was here").count(), 3, "{kept}");
}

#[test]
fn sessions_on_the_same_features_begin_alike() {
    let env = project();
    env.agent.call(1).script(&database()).out("There are three features.\n");
    env.agent.default_call().out("I only looked.\n");
    env.ralph(&["run", "--max-iterations", "4"]).expect(1);
    assert_eq!(env.agent.calls(), 4);
    assert_eq!(env.agent.stdin(2), env.agent.stdin(3));
    assert_eq!(env.agent.stdin(3), env.agent.stdin(4));
}

#[test]
fn yolo_has_a_prompt_of_its_own() {
    let env = project();
    env.agent.call(1).script(&database()).out("There are three features.\n");
    env.agent.default_call().script(MARK).out("It passes.\n");
    env.ralph(&["run", "--yolo"]).expect(0).says("as yolo");
    assert!(given(&env, 2).starts_with("Work without a browser.\n"), "{}", given(&env, 2));
}

#[test]
fn a_feature_is_not_passing_because_the_agent_says_so() {
    let env = project();
    env.agent.call(1).script(&database()).out("There are three features.\n");
    let only_marked = MARK.replace(": > made-$id; ", "");
    env.agent.call(2).script(&only_marked).out("It passes.\n");
    env.agent.default_call().script(MARK).out("Now it passes.\n");
    env.run().expect(0).says("item `2` was set to completed; its status was restored");
    assert_eq!(env.agent.calls(), 5, "one more for the feature that was only marked");
}

#[test]
fn without_a_prompt_both_paths_are_named_and_nothing_is_started() {
    let env = project();
    std::fs::remove_dir_all(env.path(".claude")).unwrap();
    let refused = env.run().expect(78);
    refused.says("prompts/coding_prompt.md").says(".claude/templates/coding_prompt.template.md");
    assert_eq!(env.agent.calls(), 0);
}

const OK: Answer = Answer::Status("200 OK");

/// What was posted: the objects of all requests.
fn posted(receiver: &Receiver) -> Vec<Value> {
    let requests = receiver.left();
    let bodies = requests.iter().map(Request::json);
    bodies.flat_map(|body| body.as_array().unwrap().clone()).collect()
}

/// A project with three features, and the address that its progress is posted to.
fn posting(url: &str) -> TestEnvironment {
    let mut env = project();
    env.var("PROGRESS_N8N_WEBHOOK_URL", url);
    env.agent.call(1).script(&database()).out("There are three features.\n");
    env.agent.default_call().script(MARK).out("It passes.\n");
    env
}

#[test]
fn progress_is_posted_once_for_each_feature_that_passes() {
    let receiver = Receiver::new(&[OK]);
    let env = posting(&receiver.url);
    // The initializer and the first feature in a start of their own.
    env.ralph(&["run", "--max-iterations", "2"]).expect(1);
    let first = posted(&receiver);
    assert_eq!(first.len(), 1, "{first:?}");
    let cache: Value = serde_json::from_str(&env.read(".progress_cache")).unwrap();
    assert_eq!(cache, json!({"count": 1, "passing_ids": [2]}));
    // A restart without progress posts nothing.
    env.ralph(&["run", "--max-iterations", "2"]).expect(1);
    assert_eq!(posted(&receiver), Vec::<Value>::new());
    env.run().expect(0).says("3/3 (100.0%)");
    let rest = posted(&receiver);
    let all: Vec<&Value> = first.iter().chain(&rest).collect();
    let figures: Vec<Value> = all
        .iter()
        .map(|post| {
            json!([post["previous_passing"], post["passing"], post["total"], post["percentage"]])
        })
        .collect();
    assert_eq!(figures, [json!([0, 1, 3, 33.3]), json!([1, 2, 3, 66.7]), json!([2, 3, 3, 100.0])]);
    for post in all {
        assert_eq!(post["event"], "test_progress");
        assert_eq!(post["tests_completed_this_session"], 1);
        assert_eq!(post["completed_tests"].as_array().unwrap().len(), 1, "{post}");
        assert_eq!(post["project"], "w");
        assert!(post["timestamp"].as_str().unwrap().ends_with('Z'), "{post}");
    }
    env.run().expect(0);
    assert_eq!(posted(&receiver), Vec::<Value>::new());
}

#[test]
fn progress_that_nobody_took_is_posted_by_the_next_start() {
    let port = closed_port();
    let env = posting(&format!("http://127.0.0.1:{port}/hook"));
    env.ralph(&["run", "--max-iterations", "2"]).expect(1).says("notify autocoder: ");
    let receiver = Receiver::at(port, &[OK]);
    env.run().expect(0);
    let posts = posted(&receiver);
    assert_eq!(posts[0]["previous_passing"], 0);
    let cache: Value = serde_json::from_str(&env.read(".progress_cache")).unwrap();
    assert_eq!(cache["count"], 3);
    assert_eq!(posts.last().unwrap()["passing"], 3);
}

#[test]
fn without_a_listener_or_an_address_the_run_is_as_always() {
    let env = posting(&format!("http://127.0.0.1:{}/hook", closed_port()));
    env.run().expect(0).says("3/3 (100.0%)");
    let env = posting("");
    let ended = env.run().expect(0);
    assert!(!ended.stderr.contains("autocoder:"), "{}", ended.stderr);
    assert!(!env.path(".progress_cache").exists());
}

#[test]
fn a_link_in_the_place_of_what_was_posted_is_not_followed() {
    let receiver = Receiver::new(&[OK]);
    let env = posting(&receiver.url);
    let outside = env.root().join("outside");
    std::fs::write(&outside, "mine").unwrap();
    std::os::unix::fs::symlink(&outside, env.path(".progress_cache")).unwrap();
    env.run().expect(0);
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "mine");
    let cache: Value = serde_json::from_str(&env.read(".progress_cache")).unwrap();
    assert_eq!(cache["count"], 3);
}
