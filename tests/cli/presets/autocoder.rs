//! `preset = "autocoder"`, from an empty folder to completion, as its document has it.

use super::{given, preset};
use crate::backlog::formats::FEATURES_DB;
use crate::environment::TestEnvironment;

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
