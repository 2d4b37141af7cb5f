//! What goes wrong blocks a session that is checked, and nobody else.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::events::session_record;
use super::{TestSession, environment};
use crate::environment::{TestEnvironment, of_run};

const GOAL: &str = "write done.txt";

fn armed() -> TestEnvironment {
    let env = environment();
    env.ralph(&["hook", "arm", GOAL]).expect(0);
    env
}

#[test]
fn a_broken_configuration_blocks_with_its_place() {
    let env = armed();
    env.write("done.txt", "");
    let session = TestSession::new(&env, "one");
    env.write("ralph.toml", "[agent]\nadapter = \"claude-cli\"\nunknown = 1\n");
    let reason = session.blocked("done");
    assert!(reason.contains("ralph.toml") && reason.contains("unknown"), "{reason}");
    // Where it is gone, what the session began with decides.
    std::fs::remove_file(env.path("ralph.toml")).unwrap();
    assert!(session.let_go("done").contains("proved"));
}

#[test]
fn validators_that_were_removed_from_the_configuration_still_decide() {
    let env = armed();
    let session = TestSession::new(&env, "one");
    session.blocked("done");
    env.write(
        "ralph.toml",
        "[agent]\nadapter = \"claude-cli\"\n[completion]\ntrust_agent = true\n",
    );
    assert!(session.blocked("done").contains("done.txt is missing"));
}

#[test]
fn a_damaged_record_blocks_until_it_is_disarmed() {
    let env = armed();
    let session = TestSession::new(&env, "one");
    let record = session_record(&env);
    std::fs::write(&record, "{").unwrap();
    let reason = session.blocked("done");
    assert!(reason.contains(record.to_str().unwrap()), "{reason}");
    env.ralph(&["hook", "disarm"]).expect(0).says("damaged");
    assert_eq!(session.stop("done"), Value::Null);
}

#[test]
fn a_check_that_hangs_is_ended_and_blocks() {
    let env = environment();
    env.write("check.sh", "test -f wait || exit 1\nsleep 600\n");
    env.ralph(&["hook", "arm", GOAL]).expect(0);
    env.write("wait", "");
    let session = TestSession { flags: &["--timeout", "1s"], ..TestSession::new(&env, "one") };
    let reason = session.blocked("done");
    assert!(reason.contains("have not ended within 1"), "{reason}");
    assert!(of_run(&env.root()).is_empty(), "nothing is left of the check");
}

#[test]
fn a_killed_check_blocks() {
    let env = environment();
    env.check_in_workspace();
    // The check's own process is the parent of the validator's supervisor.
    env.write(
        "check.sh",
        "test -f kill || exit 1\npid=$PPID\nwhile [ \"$pid\" -gt 1 ]; do\n  \
         if tr '\\0' ' ' < /proc/$pid/cmdline | grep -q 'hook check'; then kill -9 $pid; break; fi\n  \
         pid=$(sed 's/.*) . //; s/ .*//' /proc/$pid/stat)\ndone\nsleep 600\n",
    );
    env.ralph(&["hook", "arm", GOAL]).expect(0);
    env.write("kill", "");
    let session = TestSession::new(&env, "one");
    let reason = session.blocked("done");
    assert!(reason.contains("without an answer"), "{reason}");
    std::fs::remove_file(env.path("kill")).unwrap();
    assert!(session.blocked("done").contains("sh check.sh"), "the next check begins anew");
}

#[test]
fn what_is_no_message_is_refused_with_a_status_that_blocks() {
    let env = armed();
    let session = TestSession::new(&env, "one");
    for text in ["", "{", "[]", "\u{0}"] {
        let (status, _) = session.raw(text);
        assert_ne!(status, 0, "{text:?}: its settings turn this into a block");
    }
    // An event of another version.
    assert_eq!(session.ask("PreCompact", &json!({})), Value::Null);
}

#[test]
fn a_folder_of_records_that_cannot_be_written_blocks() {
    if rustix::process::geteuid().is_root() {
        // Root may write everything: a file in the place of the folder is the same fault.
        let env = armed();
        let record = session_record(&env);
        let folder = record.parent().unwrap().to_owned();
        std::fs::remove_file(&record).unwrap();
        std::fs::create_dir(&record).unwrap();
        assert!(TestSession::new(&env, "one").stop("done")["decision"] == "block");
        std::fs::remove_dir_all(folder).unwrap();
        return;
    }
    let env = armed();
    let folder = session_record(&env).parent().unwrap().to_owned();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o500)).unwrap();
    TestSession::new(&env, "one").blocked("done");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn faults_are_counted_so_that_a_session_ends_some_time() {
    let env = environment();
    env.ralph(&["hook", "arm", GOAL, "--max-blocks", "2"]).expect(0);
    env.write("ralph.toml", "broken");
    let session = TestSession::new(&env, "one");
    session.blocked("a");
    session.blocked("b");
    assert!(session.let_go("c").contains("NOT proved"));
}

#[test]
fn a_folder_without_a_configuration_is_none_of_its_business() {
    let env = TestEnvironment::new();
    std::fs::remove_file(env.path("ralph.toml")).unwrap();
    let session = TestSession::new(&env, "one");
    assert_eq!(session.start(), Value::Null);
    assert_eq!(session.stop("<promise>COMPLETE: x</promise>"), Value::Null);
}

#[test]
fn an_agent_of_a_run_is_checked_by_that_run() {
    let env = environment();
    let hook = crate::environment::tested_program().display().to_string();
    let agent = format!(
        "#!/bin/sh\nprintf '{{\"session_id\":\"x\",\"hook_event_name\":\"Stop\",\"cwd\":\"%s\"}}' \"$PWD\" | \
         {hook} hook claude > answer.txt\necho \"rc $?\" >> answer.txt\n"
    );
    env.write("agent.sh", agent).write_mode("agent.sh", 0o755);
    let program = env.path("agent.sh").display().to_string();
    env.write("PROMPT.md", "work\n").write(
        "ralph.toml",
        super::CONFIG.replace(
            "adapter = \"claude-cli\"",
            &format!("adapter = \"command\"\n[agent.config]\nprogram = [\"{program}\"]"),
        ),
    );
    env.ralph(&["hook", "arm", GOAL]).expect(0);
    env.ralph(&["run", "--once"]);
    assert_eq!(env.read("answer.txt"), "rc 0\n");
}

#[test]
fn two_stops_at_once_are_both_answered() {
    let env = armed();
    let session = TestSession::new(&env, "one");
    session.prompt("go");
    std::thread::scope(|scope| {
        let stops: Vec<_> = (0..2).map(|_| scope.spawn(|| session.stop("done"))).collect();
        for stop in stops {
            assert_eq!(stop.join().unwrap()["decision"], "block");
        }
    });
    env.write("done.txt", "");
    assert!(session.let_go("done").contains("proved"));
}

#[test]
fn who_is_checked_cannot_change_the_goal() {
    let env = armed();
    let session = TestSession::new(&env, "one");
    // The agent is the process of this test, and so are the commands that it starts.
    session.blocked("done");
    env.ralph(&["hook", "disarm"]).expect(64).says("another terminal");
    env.ralph(&["hook", "arm", "nothing"]).expect(64).says("another terminal");
    session.blocked("done");
}

#[test]
fn a_check_that_cannot_run_is_named_when_the_session_is_armed() {
    let env = environment();
    env.write("check.sh", "no-such-program\n");
    let armed = env.ralph(&["hook", "arm", GOAL]).expect(0);
    armed.says("warning: no verdict by tests");
}

#[test]
fn a_goal_needs_something_that_proves_it() {
    let env = TestEnvironment::new();
    env.raw_config("[agent]\nadapter = \"claude-cli\"\n[completion]\ntrust_agent = true\n");
    env.ralph(&["hook", "arm", GOAL]).expect(78).says("no validator of this configuration");
    env.ralph(&["hook", "arm", " "]).expect(64).says("the goal is empty");
}
