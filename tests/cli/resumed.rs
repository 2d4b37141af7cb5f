//! What a later start finds of an earlier one: nothing lost, nothing locked, nothing left running.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

use crate::environment::{TestEnvironment, alive, eventually, of_run, parents};

const DONE: &str = "<promise>COMPLETE: made it</promise>\n";

/// A run whose orchestrator, fork server and shim are killed while the agent has a daemon. Its pid.
fn killed_with_a_daemon(env: &TestEnvironment) -> i32 {
    let dir = env.agent.program().parent().unwrap().to_owned();
    env.agent.call(1).script(&format!(
        "export FAKE_DIR\n{}setsid sh -c 'echo $$ > \"$FAKE_DIR/daemon\"; while :; do sleep 1000; done' &
         echo $shim > \"$FAKE_DIR/shim\"; echo $fork_server > \"$FAKE_DIR/server\"
         while :; do sleep 1000; done\n",
        parents()
    ));
    let mut running = env.start(&["run"]);
    let pid = |name: &str| {
        let mut pid = None;
        eventually("the agent has written a pid", || {
            let text = fs::read_to_string(dir.join(name)).unwrap_or_default();
            pid = text.trim().parse::<i32>().ok();
            pid.is_some()
        });
        pid.unwrap()
    };
    let (daemon, above) = (pid("daemon"), ["shim", "server"].map(pid));
    let all_above = |signal| {
        above.iter().for_each(|pid| kill_process(Pid::from_raw(*pid).unwrap(), signal).unwrap());
    };
    // Stopped, so that they cannot see the others' end before their own.
    all_above(Signal::STOP);
    running.signal(Signal::KILL);
    all_above(Signal::KILL);
    running.wait();
    eventually("the leader is gone", || of_run(&env.root()).iter().all(|pid| *pid != above[0]));
    assert!(alive(daemon), "nobody is left who could end it");
    daemon
}

#[test]
fn no_command_between_a_kill_and_the_next_start_hides_what_the_kill_left() {
    for args in [&["answer", "yes"][..], &["reset", "--yes"], &["run", "--dry-run"]] {
        let env = TestEnvironment::new();
        let daemon = killed_with_a_daemon(&env);
        env.ralph(args).expect(0);
        env.agent.call(2).script("touch done\n").out(DONE);
        env.run().expect(0);
        assert!(!alive(daemon), "{args:?}");
        assert!(of_run(&env.root()).is_empty(), "{args:?}");
    }
}

#[test]
pub(crate) fn what_a_kill_left_is_ended_although_an_agent_deleted_the_sign_of_it() {
    let env = TestEnvironment::new();
    let daemon = killed_with_a_daemon(&env);
    fs::remove_file(env.state().join("lock")).unwrap();
    env.agent.call(2).script("touch done\n").out(DONE);
    env.run().expect(0);
    assert!(!alive(daemon));
}

#[test]
fn failures_are_counted_anew_once_their_cause_is_mended() {
    let env = TestEnvironment::new();
    env.config("\n[limits]\nmax_failures = 2\n");
    env.agent.call(1).rc(1);
    env.agent.call(2).rc(1);
    env.run().expect(1);
    assert_eq!(env.status()["stop_reason"], "failures");
    // Not mended: as many again, and no more.
    env.agent.call(3).rc(1);
    env.agent.call(4).rc(1);
    env.run().expect(1);
    assert_eq!((env.status()["stop_reason"].as_str(), env.agent.calls()), (Some("failures"), 4));
    env.agent.call(5).script("touch done\n").out(DONE);
    env.run().expect(0);
    assert_eq!(env.status()["iterations"], 5);
}

#[test]
fn an_agent_that_was_not_there_is_tried_again_once_it_is() {
    let env = TestEnvironment::new();
    env.config("\n[limits]\nmax_failures = 1\n");
    let (program, away) = (env.agent.program(), env.root().join("away"));
    env.agent.call(1).script(&format!(
        "mv '{}' '{}'; echo 1 > x\n",
        program.display(),
        away.display()
    ));
    env.run().expect(69);
    assert_eq!(env.status()["stop_reason"], "agent_unavailable");
    fs::rename(&away, &program).unwrap();
    env.agent.call(2).script("touch done\n").out(DONE);
    env.run().expect(0);
}

#[test]
fn a_kill_is_no_way_to_more_failures_than_allowed() {
    let env = TestEnvironment::new();
    env.config("\n[limits]\nmax_failures = 2\n");
    env.agent.call(1).rc(1);
    // Before the second failure is counted, the orchestrator is killed.
    env.agent.call(2).script(&format!("{}kill -KILL $orchestrator; sleep 1000\n", parents()));
    env.agent.call(3).rc(1);
    assert_eq!(env.run().code, None);
    env.run().expect(1);
    assert_eq!((env.status()["stop_reason"].as_str(), env.agent.calls()), (Some("failures"), 3));
}

#[test]
fn all_that_a_resume_needs_comes_back_after_the_state_was_deleted_or_edited() {
    for sabotage in [
        "rm -rf \"$state\"",
        "rm -rf \"$state\"/runs",
        "rm \"$state\"/runs/*/config.toml",
        "rm \"$state\"/runs/*/baseline.json",
        "echo >> \"$(echo \"$state\"/runs/*/config.toml)\"",
        "f=$(echo \"$state\"/runs/*/baseline.json); rm $f; mkfifo $f",
        "f=$(echo \"$state\"/runs/*/config.toml); rm $f; mkdir -p $f/a",
        "f=$(echo \"$state\"/runs/*/config.toml); ln -sf /dev/zero $f",
    ] {
        let env = TestEnvironment::new();
        env.config("protect = [\"tests/**\"]\n");
        env.write("tests/check.sh", "exit 0\n");
        env.agent.call(1).script(&format!(
            "state=$(echo \"$HOME\"/.local/state/ralph-orchestrator/*)\n{sabotage}\necho 1 > x\n"
        ));
        let kept = env.ralph(&["run", "--max-iterations", "1"]).expect(1);
        kept.says("was changed from outside");
        // What it protects is known still.
        env.agent.call(2).script("touch done; echo 'exit 1' > tests/check.sh\n").out(DONE);
        env.ralph(&["run", "--max-iterations", "2"]).expect(1).says("tests/check.sh (modified)");
        env.write("tests/check.sh", "exit 0\n");
        env.run().expect(0);
        assert_eq!(env.agent.calls(), 2, "{sabotage}");
    }
}

#[test]
fn a_completed_run_says_so_although_its_configuration_can_no_longer_be_used() {
    let env = TestEnvironment::new();
    env.agent.call(1).script("touch done\n").out(DONE);
    env.run().expect(0);
    let (config, prompt) = (env.read("ralph.toml"), env.read("PROMPT.md"));
    let edits: [(&str, &dyn Fn()); 9] = [
        ("an adapter that is not known", &|| {
            env.write("ralph.toml", config.replace("adapter = \"command\"", "adapter = \"gone\""));
        }),
        ("a validator that is not known", &|| {
            env.write("ralph.toml", config.replace("kind = \"command\"", "kind = \"gone\""));
        }),
        ("no validator", &|| {
            env.write("ralph.toml", config.split("[[validator]]").next().unwrap());
        }),
        ("a key that is not known", &|| {
            env.write("ralph.toml", format!("{config}\n[nonsense]\nx = 1\n"));
        }),
        ("a plugin that is gone", &|| {
            env.write("ralph.toml", format!("{config}\n[plugins.mine]\nlibrary = \"./gone.so\"\n"));
        }),
        ("a folder of the sandbox that is gone", &|| {
            let sandbox = "\n[sandbox]\nmode = \"landlock\"\nread = [\"/nowhere/at/all\"]\n";
            env.write("ralph.toml", format!("{config}{sandbox}"));
        }),
        ("no agent", &|| fs::rename(env.agent.program(), env.root().join("away")).unwrap()),
        ("no prompt", &|| fs::remove_file(env.path("PROMPT.md")).unwrap()),
        ("an empty prompt", &|| {
            env.write("PROMPT.md", "");
        }),
    ];
    for (what, edit) in edits {
        edit();
        let ended = env.run();
        ended.says("already completed");
        assert_eq!((ended.code, env.agent.calls()), (Some(0), 1), "{what}");
        env.write("ralph.toml", &config);
        env.write("PROMPT.md", &prompt);
        drop(fs::rename(env.root().join("away"), env.agent.program()));
    }
    // Another task is another run, and what is wrong with it is said.
    env.write("PROMPT.md", "# Another task\n");
    env.write("ralph.toml", config.replace("adapter = \"command\"", "adapter = \"gone\""));
    env.run().expect(78).says("gone");
    env.ralph(&["run", "--restart"]).expect(78);
}

#[test]
fn a_validator_that_removes_the_prompt_takes_no_completion_away() {
    let env = TestEnvironment::new();
    let prompt = env.read("PROMPT.md");
    let config = env.read("ralph.toml");
    let cleaned = config.replace(
        "program = [\"test\", \"-e\", \"done\"]",
        "program = [\"sh\", \"-c\", \"rm -f PROMPT.md; test -e done\"]",
    );
    assert_ne!(config, cleaned);
    env.write("ralph.toml", cleaned);
    env.agent.call(1).script("touch done\n").out(DONE);
    env.run().expect(0);
    assert_eq!(env.read("PROMPT.md"), prompt, "it is put back");
    env.run().expect(0).says("already completed");
    assert_eq!(env.agent.calls(), 1);
    env.write("PROMPT.md", "# Another task\n");
    env.agent.call(2).out(DONE);
    env.run().expect(0).says("new run");
    assert_eq!(env.agent.calls(), 2);
}

#[test]
fn a_state_directory_that_others_may_enter_is_closed_or_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let env = TestEnvironment::new();
    env.agent.default_call().script("touch done\n").out(DONE);
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let open = |path: &std::path::Path, mode| {
        fs::create_dir_all(path).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let own = env.root().join("own");
    open(&own, 0o755);
    let set = format!("state.dir={}", own.display());
    env.ralph(&["run", "--set", &set]).expect(0);
    assert_eq!(mode(&own), 0o700);
    open(&own, 0o777);
    env.ralph(&["run", "--set", &set]).expect(0).says("already completed");
    env.ralph(&["run", "--restart", "--set", &set]).expect(0);
    assert_eq!(mode(&own), 0o700);
    // A folder that is not this program's own is left as it is.
    let shared = env.root().join("shared");
    for (what, bits) in [("with something in it", 0o755), ("for everybody", 0o1777)] {
        open(&shared, bits);
        if bits == 0o755 {
            fs::write(shared.join("thesis.tex"), "x").unwrap();
        } else {
            fs::remove_file(shared.join("thesis.tex")).unwrap();
        }
        let set = format!("state.dir={}", shared.display());
        let calls = env.agent.calls();
        env.ralph(&["run", "--set", &set]).expect(78).says("shared");
        assert_eq!((mode(&shared), env.agent.calls()), (bits, calls), "{what}");
    }
}
