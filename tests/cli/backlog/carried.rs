//! What an agent changed while it worked on one item is not how it was when the next one begins.

use std::fs;

use serde_json::Value;

use super::{CLAIM, environment, feature, feature_list};
use crate::environment::TestEnvironment;
use crate::git::git;

/// Items a and b, each worked on at most twice, and a check of this program that protects `ci`. What agents have to do is done by none:
/// the checks can accept only what was changed.
fn items(program: &str, change: &str) -> TestEnvironment {
    let env = environment("json", "feature-list.json", "max_item_iterations = 2\n");
    env.write("feature-list.json", feature_list(&[feature("a", 2, &[]), feature("b", 1, &[])]));
    env.write("ci/test.sh", "test -e honest\n");
    env.write("ci/test_it.py", "import unittest, os\nclass T(unittest.TestCase):\n def test_it(self): self.assertTrue(os.path.exists('honest'))\n");
    env.write("app/x", "");
    let text = env.read("ralph.toml");
    let text = text.replace("program = [\"sh\", \"-c\", \"ls made-*\"]", program);
    env.write("ralph.toml", format!("{text}protect = [\"ci/**\"]\n"));
    env.agent.default_call().script(&format!("id=$(sed -n 's/^Id: //p' \"$call.stdin\" | head -1)\n: > \"made-$id\"\n[ $id = a ] && {{ {change}; }}\ntrue\n"));
    env.agent.default_call().out(CLAIM);
    env
}

fn completed(env: &TestEnvironment) -> Vec<String> {
    let list: Value = serde_json::from_str(&env.read("feature-list.json")).unwrap();
    let all = list["features"].as_array().unwrap().iter();
    let done = all.filter(|item| item["status"] == "completed");
    done.map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn no_item_is_complete_by_what_the_agent_of_another_changed() {
    let sh = "program = [\"sh\", \"ci/test.sh\"]";
    let python = "program = [\"python3\", \"-m\", \"unittest\", \"ci/test_it.py\"]";
    let link = "program = [\"sh\", \"app/../ci/test.sh\"]";
    let cases = [
        (sh, "echo true > ci/test.sh", "`ci/test.sh` (modified)"),
        (
            sh,
            "rm ci/test.sh; ln -s ../good ci/test.sh; echo true > good",
            "`ci/test.sh` (modified)",
        ),
        (python, "echo 'raise SystemExit(0)' > unittest.py", "`unittest.py` (added)"),
        (
            link,
            "mkdir -p evil/app evil/ci; echo true > evil/ci/test.sh; rm -rf app; ln -s evil/app app",
            "app/../ci/test.sh",
        ),
    ];
    for (program, change, named) in cases {
        let env = items(program, change);
        let ended = env.run().expect(2);
        ended.says("the agent of the run before changed protected paths").says(named);
        assert_eq!(completed(&env), Vec::<String>::new(), "{change}");
        // Neither in a later start, in which the items are open again.
        for item in ["a", "b"] {
            env.ralph(&["retry", item]).expect(0);
        }
        env.run().expect(2);
        assert_eq!(completed(&env), Vec::<String>::new(), "{change}, later");
    }
}

#[test]
fn what_a_person_changes_between_two_starts_is_how_it_is() {
    let env = items("program = [\"sh\", \"ci/test.sh\"]", "echo true > ci/test.sh");
    env.run().expect(2);
    // The person wants another test, and wants it passed.
    env.write("ci/test.sh", "ls made-b\n");
    env.ralph(&["retry", "b"]).expect(0);
    env.run().expect(2);
    assert_eq!(completed(&env), ["b"]);
}

#[test]
fn an_agent_restores_what_another_changed_and_its_item_is_complete() {
    let env = items("program = [\"sh\", \"ci/test.sh\"]", "echo true > ci/test.sh");
    let script = "id=$(sed -n 's/^Id: //p' \"$call.stdin\" | head -1)\n\
        if [ $id = a ]; then echo true > ci/test.sh; exit; fi\n\
        : > honest\n\
        if grep -q 'restore what was changed' \"$call.stdin\"; then echo 'test -e honest' > ci/test.sh; fi\n";
    env.agent.default_call().script(script);
    env.run().expect(2);
    assert_eq!(completed(&env), ["b"]);
}

#[test]
fn the_initializer_weakens_no_test() {
    let env = items("program = [\"sh\", \"ci/test.sh\"]", "true");
    fs::remove_file(env.workspace().join("feature-list.json")).unwrap();
    let text = env.read("ralph.toml");
    env.write("ralph.toml", format!("{text}[initializer]\n[prompts]\n"));
    let list = feature_list(&[feature("a", 1, &[])]);
    let script = format!(
        "[ -e feature-list.json ] || {{ cat > feature-list.json <<'END'\n{list}END\necho true > ci/test.sh; }}\n"
    );
    env.agent.default_call().script(&script);
    env.run().expect(2).says("`ci/test.sh` (modified)");
    assert_eq!(completed(&env), Vec::<String>::new());
}

#[test]
fn git_runs_nothing_that_the_agent_of_another_item_planted() {
    let plants = [
        "printf '#!/bin/sh\\necho hook >> ../ran\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
        "printf '#!/bin/sh\\necho filter >> ../ran; cat\\n' > f; chmod +x f; git config filter.x.clean ./f; echo '* filter=x' > .git/info/attributes",
    ];
    for plant in plants {
        let env = items("program = [\"sh\", \"-c\", \"ls made-*\", \"ci\"]", plant);
        let text = env.read("ralph.toml");
        env.write("ralph.toml", format!("{text}[git]\ncommit = \"iteration\"\n"));
        git(&env, &["init", "-qb", "main"]);
        git(&env, &["config", "user.name", "Ada User"]);
        git(&env, &["config", "user.email", "ada@example.org"]);
        git(&env, &["add", "."]);
        git(&env, &["commit", "-qm", "first"]);
        let ended = env.run().expect(0);
        ended.says("backlog 2/2").says("git's configuration changed since agents began to work");
        assert!(!env.root().join("ran").exists(), "{plant}");
    }
}
