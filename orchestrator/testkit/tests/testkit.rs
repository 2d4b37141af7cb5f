//! The tools for tests, tested.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use ralph_orchestrator_testkit::fake_agent::FakeAgent;

#[allow(clippy::disallowed_methods)]
fn call(agent: &FakeAgent, args: &[&str], stdin: &[u8]) -> Output {
    let mut child = Command::new(agent.program())
        .args(args)
        .env_clear()
        .env("COLOUR", "blue")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(stdin).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn calls_are_numbered_recorded_and_answered() {
    let folder = tempfile::tempdir().unwrap();
    let agent = FakeAgent::new(folder.path().join("fake"));
    assert_eq!(agent.calls(), 0);
    let made = folder.path().join("made");
    let script = format!("echo scripted; echo x > '{}'", made.display());
    let _ = agent.call(2).script(&script).out("printed\n").rc(7);
    let _ = agent.default_call().out("default\n");
    let first = call(&agent, &["a b", "", "-c"], b"caf\xe9\0\r\n");
    assert_eq!((first.stdout.as_slice(), first.status.code()), (&b"default\n"[..], Some(0)));
    let second = call(&agent, &[], b"");
    assert_eq!(
        (second.stdout.as_slice(), second.status.code()),
        (&b"scripted\nprinted\n"[..], Some(7))
    );
    assert!(made.exists());
    assert_eq!(agent.calls(), 2);
    assert_eq!(agent.argv(1), ["a b", "", "-c"]);
    assert_eq!(agent.argv(2), Vec::<String>::new());
    assert_eq!(agent.stdin(1), b"caf\xe9\0\r\n");
    assert_eq!(agent.cwd(1), std::env::current_dir().unwrap().canonicalize().unwrap());
    assert_eq!(agent.env(1)["COLOUR"], "blue");
}

#[test]
fn calls_at_once_get_numbers_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let agent = FakeAgent::new(folder.path());
    std::thread::scope(|scope| {
        for caller in 0..8 {
            let agent = &agent;
            scope.spawn(move || call(agent, &[], &[caller]));
        }
    });
    assert_eq!(agent.calls(), 8);
    let mut inputs: Vec<u8> = (1..=8).map(|n| agent.stdin(n)[0]).collect();
    inputs.sort_unstable();
    assert_eq!(inputs, [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn an_exit_in_the_script_is_the_agents() {
    let folder = tempfile::tempdir().unwrap();
    let agent = FakeAgent::new(folder.path());
    let _ = agent.default_call().script("exit 5").out("never").rc(1);
    let output = call(&agent, &[], b"");
    assert_eq!((output.stdout.as_slice(), output.status.code()), (&b""[..], Some(5)));
}
