//! What is passed to the agent by name is written down and shown nowhere.

use std::fs;
use std::path::Path;

use crate::environment::{Ended, TestEnvironment};

const SECRET: &str = "hunter2-\"quoted\"-value";

/// Every file beneath that holds the secret, in any form that it takes.
fn leaks(folder: &Path) -> Vec<String> {
    let json = serde_json::to_string(SECRET).unwrap();
    let forms = [SECRET, json.trim_matches('"')];
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(leaks(&path));
            continue;
        }
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        if forms.iter().any(|form| text.contains(form)) {
            found.push(path.display().to_string());
        }
    }
    found
}

fn environment(validator: &str) -> TestEnvironment {
    let mut env = TestEnvironment::new();
    env.config(&format!(
        "\n[[validator]]\nkind = \"command\"\nname = \"talks\"\nprogram = [\"sh\", \"-c\", '''{validator}''']\n\
         [env]\npass = [\"MINE\"]\n[limits]\nmax_failures = 1\nmax_iterations = 2\n"
    ));
    env.var("MINE", SECRET);
    env
}

#[track_caller]
fn kept(env: &TestEnvironment, ended: &Ended) {
    assert!(!ended.stdout.contains("hunter2"), "{}", ended.stdout);
    assert!(!ended.stderr.contains("hunter2"), "{}", ended.stderr);
    assert_eq!(leaks(&env.state()), <[&str; 0]>::default());
}

#[test]
pub(super) fn a_secret_in_text_claim_stderr_and_a_validators_output_is_starred() {
    for json in [false, true] {
        let env = environment("echo \"it is $MINE\"; exit 1");
        env.write("done", "");
        let script = "test \"${#MINE}\" = 22 || exit 9; echo \"err $MINE\" >&2; echo \"out $MINE\"; \
                      echo \"<promise>COMPLETE: with $MINE</promise>\"\n";
        env.agent.default_call().script(script);
        let ended = env.ralph(if json { &["run", "--json"] } else { &["run", "-v"] }).expect(1);
        kept(&env, &ended);
        let journal = fs::read_to_string(env.journal_path()).unwrap();
        assert!(journal.contains("with ***") && journal.contains("it is ***"), "{journal}");
        let first = env.journal_path().with_file_name("iterations/0001");
        let transcript = fs::read_to_string(first.join("transcript.jsonl")).unwrap();
        assert!(transcript.contains("out ***"), "{transcript}");
        assert_eq!(fs::read_to_string(first.join("stderr.log")).unwrap(), "err ***\n");
        let second = String::from_utf8(env.agent.stdin(2)).unwrap();
        assert!(second.contains("it is ***"), "{second}");
    }
}

#[test]
pub(super) fn a_secret_in_an_error_is_starred() {
    let env = environment("exit 0");
    env.agent.default_call().script("echo \"no access with $MINE\" >&2; exit 3\n");
    let ended = env.run().expect(1);
    kept(&env, &ended);
    let ends = env.records("iteration_ended");
    assert!(ends[0].to_string().contains("no access with ***"), "{ends:?}");
}
