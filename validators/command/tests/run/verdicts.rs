//! What the validator says.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::sync::Mutex;

use ralph_orchestrator_contract::{
    CancelSignal, Change, ChangeKind, CheckOutput, NeverCancelled, Verdict,
};
use ralph_orchestrator_testkit::flood::assert_gives_way;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::support::{Alarm, Place, error, reason, summary};

#[tokio::test]
async fn the_expected_exit_status_is_accepted() {
    let place = Place::new();
    let said = summary(place.shell("exit 0", json!({})).await);
    assert_eq!(said, "`sh -c 'exit 0'` exits 0");
    summary(place.shell("exit 3", json!({"expect_exit": 3})).await);
    reason(place.shell("exit 0", json!({"expect_exit": 3})).await);
}

#[tokio::test]
async fn a_rejection_tells_command_status_and_output() {
    let place = Place::new();
    let script = "echo one; printf 'two\\033[31m\\a' >&2; exit 7";
    let said = reason(place.shell(script, json!({})).await);
    assert!(said.starts_with("`sh -c '"), "{said}");
    assert!(said.contains("failed: ended with exit 7, expected exit 0.\nIts output:\n"), "{said}");
    assert!(said.contains("    one") && said.contains("    two\\u{7}"), "{said}");
    assert!(reason(place.shell("kill -9 $$", json!({})).await).contains("signal 9"));
    assert!(reason(place.shell("exit 1", json!({})).await).ends_with("It printed nothing."));
}

/// As by the kernel where memory runs out.
#[tokio::test]
async fn that_whoever_supervises_a_check_was_killed_says_nothing_of_the_work() {
    let place = Place::new();
    let said = error(place.shell("echo so far; kill -9 $PPID; exec sleep 1000", json!({})).await);
    let is_lost = said.contains("it is not known how") && said.contains("was killed");
    // On a busy machine it is killed before it could report the start.
    assert!(is_lost || said.contains("it exited before reporting"), "{said}");
}

#[tokio::test]
async fn the_quoted_output_is_bounded() {
    let place = Place::new();
    let script = "head -c 9000000 /dev/zero; i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done; exit 1";
    let said = reason(place.shell(script, json!({})).await);
    assert!(said.len() < 6000, "{}", said.len());
    assert!(said.ends_with("    line 2999"), "{said}");
}

#[tokio::test]
async fn expressions_see_the_whole_output_of_both_streams() {
    let place = Place::new();
    let noise = "head -c 1000000 /dev/zero | tr '\\0' '\\n'";
    let script = format!("echo 3 passed >&2; {noise}; echo end");
    let keys = json!({"must_match": ["^[1-9]\\d* passed$", "^end$"], "must_not_match": "failed"});
    summary(place.shell(&script, keys.clone()).await);
    let script = format!("echo 3 passed; echo 1 failed >&2; {noise}; printf end");
    let said = reason(place.shell(&script, keys.clone()).await);
    assert!(said.contains("its output must not match /failed/ but says: 1 failed"), "{said}");
    let said = reason(place.shell("echo 0 passed, 0 failed", keys).await);
    assert_eq!(said.matches("no line of its output matches").count(), 2, "{said}");
}

#[tokio::test]
async fn says_how_often_in_a_row_it_has_to_pass_and_runs_once_at_a_time() {
    let place = Place::new();
    let keys = json!({"passes_required": 3});
    summary(place.shell("echo x >> ../count", keys.clone()).await);
    assert_eq!(fs::read_to_string(place.root.path().join("count")).unwrap(), "x\n");
    assert_eq!(
        place.build(json!({"program": ["true"], "passes_required": 3})).passes_required(),
        3
    );
    assert_eq!(place.build(json!({"program": ["true"]})).passes_required(), 1);
}

#[tokio::test]
async fn a_program_that_is_missing_inside_says_nothing_of_the_work() {
    let place = Place::new();
    for (script, why) in [
        ("no-such-program-anywhere", "was not found"),
        ("printf '#!/none\n' > p; ./p", "cannot be executed"),
        ("exit 126", "cannot be executed"),
        ("exit 127", "was not found"),
    ] {
        let verdict = place.shell(script, json!({})).await;
        let Verdict::Error { message } = verdict else { panic!("{script}: {verdict:?}") };
        assert!(message.contains(why), "{message}");
    }
    summary(place.shell("exit 127", json!({"expect_exit": 127})).await);
}

#[tokio::test]
async fn changed_protected_paths_are_rejected_before_anything_runs() {
    let place = Place::new();
    let changes: Vec<Change> = (0..30)
        .map(|n| Change { path: format!("tests/{n}\n.rs").into(), kind: ChangeKind::Modified })
        .collect();
    let config = json!({"program": ["touch", "ran"], "protect": ["tests/**"]});
    assert_eq!(place.build(config.clone()).protects(), ["tests/**"]);
    let said = reason(place.validate_with(config, &changes, &NeverCancelled).await);
    assert!(
        said.contains("tests/0\\n.rs (modified)")
            && said.ends_with(" and 10 more; restore what was changed"),
        "{said}"
    );
    assert!(!place.workspace.join("ran").exists());
}

#[tokio::test]
async fn it_runs_in_the_workspace_or_a_folder_of_it() {
    let place = Place::new();
    let pwd = |keys| async { place.shell("pwd", keys).await };
    let keys = json!({"must_match": "/workspace$"});
    summary(pwd(keys).await);
    let keys = json!({"must_match": "/workspace/sub$", "cwd": "sub"});
    assert!(
        reason(pwd(keys.clone()).await).contains("folder sub of the workspace, which is not there")
    );
    fs::create_dir(place.workspace.join("sub")).unwrap();
    summary(pwd(keys).await);
    symlink("/", place.workspace.join("out")).unwrap();
    assert!(reason(pwd(json!({"cwd": "out"})).await).contains("leads out of the workspace"));
}

#[tokio::test]
async fn a_bare_name_has_to_be_there_at_the_start_and_a_path_later() {
    let place = Place::new();
    let env = std::collections::BTreeMap::new();
    let config = json!({"program": ["no-such-program-anywhere"]});
    let missing = place.build(config.clone()).check(&env).await.unwrap_err();
    assert!(missing.contains("no-such-program-anywhere"), "{missing}");
    assert!(error(place.validate(config).await).contains("no-such-program-anywhere"));

    let config = json!({"program": ["./judge.sh"]});
    assert_eq!(place.build(config.clone()).check(&env).await, Ok(()));
    let said = error(place.validate(config.clone()).await);
    assert!(said.contains("relative to the folder of the configuration file"), "{said}");
    let judge = place.root.path().join("judge.sh");
    fs::write(&judge, "#!/bin/sh\nexit 0\n").unwrap();
    assert!(error(place.validate(config.clone()).await).contains("chmod +x"));
    fs::set_permissions(&judge, fs::Permissions::from_mode(0o755)).unwrap();
    summary(place.validate(config).await);
}

#[tokio::test]
async fn time_that_is_up_is_an_error_and_ends_everything() {
    let place = Place::new();
    let alarm = Alarm(watch::Sender::new(false));
    let started = place.workspace.join("started");
    let config =
        json!({"program": ["sh", "-c", "echo hello; sleep 1000 & touch started; sleep 1000"]});
    let up = async {
        while !started.exists() {
            tokio::task::yield_now().await;
        }
        alarm.0.send_replace(true);
    };
    let (verdict, ()) = tokio::join!(place.validate_with(config, &[], &alarm), up);
    let said = error(verdict);
    assert!(said.contains("timed out after ") && said.contains("    hello"), "{said}");
}

#[tokio::test]
async fn what_is_left_behind_is_ended_and_mentioned() {
    let place = Place::new();
    let script = "sleep 1000 & until grep -qx sleep /proc/$!/comm; do :; done; exit $0";
    let run = |status: &str| place.validate(json!({"program": ["sh", "-c", script, status]}));
    let said = summary(run("0").await);
    assert!(said.ends_with("; left the process sleep 1000 behind, which was ended"), "{said}");
    let said = reason(run("1").await);
    assert!(said.contains("; left the process sleep 1000 behind, which was ended."), "{said}");
}

#[tokio::test]
async fn a_command_gets_the_given_environment_and_no_input() {
    let place = Place::new();
    let script =
        "cat; test \"$RALPH_ITERATION\" = 3 && test -n \"$RALPH_RUN_ID\" && test -z \"$HOME\"";
    summary(place.shell(script, json!({})).await);
}

#[test]
fn it_says_what_it_demands() {
    let place = Place::new();
    let config = json!({"program": ["cargo", "test"], "passes_required": 2, "must_match": "ok", "must_not_match": ["a", "b"],
        "read_only": true});
    let validator = place.build(config);
    let description = validator.describe();
    assert_eq!(description.kind, "command");
    assert_eq!(
        description.demands,
        "`cargo test` exits 0, a line of its output matches /ok/, no line of its output matches /a/, \
         no line of its output matches /b/, 2 times in a row"
    );
    assert!(validator.is_read_only());
}

#[test]
fn a_command_that_prints_without_an_end_gives_way() {
    for script in ["yes", "yes >&2", "yes '' & yes >&2", "tr '\\0' x < /dev/zero"] {
        let config = json!({"program": ["sh", "-c", script], "must_match": "done"});
        assert_gives_way(script, move || async move { Place::new().validate(config).await });
    }
}

/// Keeps what a check prints.
#[derive(Debug, Default)]
struct Received(Mutex<[Vec<u8>; 2]>);

impl CheckOutput for Received {
    fn read_stdout(&self, bytes: &[u8]) {
        self.0.lock().unwrap()[0].extend(bytes);
    }

    fn read_stderr(&self, bytes: &[u8]) {
        self.0.lock().unwrap()[1].extend(bytes);
    }
}

/// Whatever a reason shows of it.
#[tokio::test]
async fn the_whole_output_is_received_where_its_tests_are_counted() {
    let script = "seq 100000; echo problem >&2";
    let command = |script: &str| json!({"program": ["sh", "-c", script]});
    let with = |mut config: Value, key: &str, value: Value| {
        config[key] = value;
        config
    };
    for (config, is_received) in [
        (command(script), true),
        (with(command(script), "count_tests", json!(false)), false),
        (with(command(&format!("{script}; exit 1")), "expect_exit", json!(1)), false),
    ] {
        let received = Received::default();
        let to: (&dyn CancelSignal, Option<&dyn CheckOutput>) = (&NeverCancelled, Some(&received));
        let verdict = Place::new().validate_to(config, &[], to).await;
        assert!(verdict.is_accepted(), "{verdict:?}");
        let [stdout, stderr] = received.0.into_inner().unwrap();
        let expected: (usize, &[u8]) = if is_received { (588_895, b"problem\n") } else { (0, b"") };
        assert_eq!((stdout.len(), stderr.as_slice()), expected);
    }
}
