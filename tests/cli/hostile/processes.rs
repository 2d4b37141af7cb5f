//! Agents that will not end, that hide what they started, or that turn on whoever watches over them.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use super::{End, PROMISE, WORK, completed, ends, gone, hostile, pid_in, stopped};
use crate::completion::claude_result;
use crate::environment::{Running, TestEnvironment, alive, eventually, of_run, parents};

/// A daemon as it is made: two forks, a session of its own, no descriptor, another name, no
/// environment that would give it away. Writes its number to `daemon` first.
const DAEMON: &str = "(setsid bash -c '
  (trap \"\" HUP INT TERM; echo $BASHPID > \"$FAKE_DIR/daemon\"; cd /
   exec <&- >&- 2>&-; for fd in /proc/self/fd/*; do fd=${fd##*/}; [ \"$fd\" -gt 2 ] && eval \"exec $fd>&-\"; done
   exec -c -a \"[kworker/0:1]\" sleep 1000) &' &)
until [ -s \"$FAKE_DIR/daemon\" ]; do :; done
";

#[test]
fn a_daemon_that_hides_is_found_and_ended_with_the_iteration() {
    let env = hostile();
    env.agent.call(1).script(&format!("export FAKE_DIR\n{DAEMON}{WORK}")).out(PROMISE);
    let ended = env.run();
    gone(&env, "daemon");
    ends(&env, "daemon", &ended, completed(1, &["done"]));
}

#[test]
pub(super) fn a_daemon_that_hides_does_not_outlive_a_killed_orchestrator() {
    let env = hostile();
    env.agent.call(1).script(&format!("export FAKE_DIR\n{DAEMON}echo x > half; sleep 1000\n"));
    env.agent.call(2).script(WORK).out(PROMISE);
    let mut running = env.start(&["run"]);
    let daemon = pid_in(&env, "daemon");
    running.signal(Signal::KILL);
    running.wait();
    eventually("the daemon is gone", || !alive(daemon));
    ends(&env, "daemon", &env.run(), completed(2, &["done", "half"]));
}

/// Ended by the limit on one iteration, though it does all it can not to be.
fn outlasted(what: &str, script: &str, made: &[&str]) {
    let env = hostile();
    env.config("\n[limits]\nmax_failures = 1\niteration_timeout = \"500ms\"\n");
    env.agent.call(1).script(&format!("echo $$ > \"$FAKE_DIR/self\"\n{script}"));
    let ended = env.run();
    gone(&env, "self");
    let cut = &env.records("iteration_ended")[0]["outcome"];
    assert_eq!(cut["type"], "stopped_early", "{what}: {cut}");
    ends(&env, what, &ended, stopped("failures", 1, made));
}

#[test]
fn agents_that_do_not_want_to_end_are_ended() {
    // Each takes all the graces that there are, so they take them at the same time.
    let cases: &[(&str, &str, &[&str])] = &[
        ("ignores every signal", "trap '' INT TERM HUP QUIT; while :; do sleep 1; done\n", &[]),
        (
            "starts itself anew",
            "trap 'sleep 1000 & sleep 1000' INT TERM; while :; do sleep 1; done\n",
            &[],
        ),
        ("stops itself", "kill -STOP $$\n", &[]),
        (
            "stops its children",
            "sleep 1000 & kill -STOP $!; trap '' INT TERM; wait; wait; sleep 1000\n",
            &[],
        ),
        ("talks for ever", "trap '' INT TERM; exec yes talking\n", &[]),
        (
            "prints a claim when told to end",
            "trap 'touch done; echo \"<promise>COMPLETE: x</promise>\"; exit 0' INT; while :; do sleep 0.1; done\n",
            &["done"],
        ),
    ];
    thread::scope(|scope| {
        for (what, script, made) in cases {
            scope.spawn(move || outlasted(what, script, made));
        }
    });
}

#[test]
fn a_claim_made_while_being_cut_is_none_of_a_good_call() {
    let env = hostile();
    env.config("\n[limits]\nmax_failures = 1\niteration_timeout = \"500ms\"\n");
    env.agent.call(1).script(&format!("{WORK}printf '%s' '{PROMISE}'; sleep 1000\n"));
    let ended = env.run();
    ends(&env, "cut", &ended, stopped("failures", 1, &["done"]));
}

#[test]
fn a_storm_of_children_is_reaped() {
    let env = hostile();
    env.agent
        .call(1)
        .script(&format!(
            "i=0; while [ $i -lt 200 ]; do (setsid true &) ; i=$((i + 1)); done\n{WORK}"
        ))
        .out(PROMISE);
    let ended = env.run();
    ends(&env, "storm", &ended, completed(1, &["done"]));
}

#[test]
fn children_that_go_on_after_their_parent_are_ended() {
    let env = hostile();
    // They would write into the workspace for ever, and each starts the next one.
    env.agent
        .call(1)
        .script(&format!(
            "cat > \"$FAKE_DIR/next\" <<'END'\n#!/bin/sh\nsleep 0.02\necho x >> stray\nsetsid \"$0\" &\nEND\n\
             chmod +x \"$FAKE_DIR/next\"; setsid \"$FAKE_DIR/next\" > /dev/null 2>&1 &\n\
             until [ -e stray ]; do :; done\n{WORK}"
        ))
        .out(PROMISE);
    let ended = env.run();
    let size = env.read("stray").len();
    ends(&env, "chain", &ended, completed(1, &["done", "stray"]));
    assert_eq!(env.read("stray").len(), size, "nobody writes any more");
}

#[test]
fn a_grandchild_that_holds_the_output_holds_up_nothing() {
    let env = hostile();
    env.agent
        .call(1)
        .script(&format!("sleep 1000 & echo $! > \"$FAKE_DIR/holder\"\n{WORK}"))
        .out(PROMISE);
    let began = std::time::Instant::now();
    let ended = env.run();
    assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
    gone(&env, "holder");
    ends(&env, "holder", &ended, completed(1, &["done"]));
}

#[test]
fn a_structured_agent_that_hangs_after_its_result_is_ended_and_its_claim_counts() {
    let env = super::structured("max_iterations = 3");
    let text = claude_result("<promise>COMPLETE: made it</promise>", 0.5);
    env.agent.call(1).script(&format!("{WORK}printf '%s' '{text}'\nexec sleep 1000\n"));
    let ended = env.run();
    assert_eq!(env.status()["cost_usd"], 0.5);
    ends(&env, "hangs", &ended, completed(1, &["done"]));
}

#[test]
fn standard_input_is_no_trap() {
    // Not the scripted agent, which reads it first of all.
    for (what, script) in [
        ("never reads", "touch done"),
        (
            "closes it and works on",
            "exec <&-; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; touch done",
        ),
        (
            "talks first",
            "head -c 3000000 /dev/zero | tr '\\\\0' 'a'; echo; cat > /dev/null; touch done",
        ),
        ("reads a byte", "head -c 1 > /dev/null; touch done"),
    ] {
        let env = hostile();
        env.write("PROMPT.md", "x".repeat(1024 * 1024));
        env.raw_config(&format!(
            "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\nunmetered = true\n\
             [agent.config]\nprogram = [\"sh\", \"-c\", \"{script}; echo '{}'\"]\n\
             [[validator]]\nkind = \"command\"\nprogram = [\"test\", \"-e\", \"done\"]\n",
            PROMISE.trim()
        ));
        ends(&env, what, &env.run(), completed(1, &["done"]));
    }
}

#[test]
fn an_agent_that_closes_its_output_may_work_on() {
    let env = hostile();
    let file = "printf '\\nTASK_COMPLETE\\n' >> PROMPT.md\n";
    env.agent.call(1).script(&format!("exec >&- 2>&-\nsleep 0.3\n{WORK}{file}"));
    let ended = env.run();
    ends(&env, "closed", &ended, completed(1, &["done"]));
}

#[test]
fn an_agent_that_kills_its_orchestrator_wins_nothing() {
    for (what, kill) in [
        ("killed", "kill -KILL $orchestrator; sleep 1000"),
        ("both killed", "kill -KILL $orchestrator $shim; sleep 1000"),
        (
            "all killed",
            "kill -KILL $orchestrator $its_fork_server $its_shim $host $fork_server $shim; sleep 1000",
        ),
    ] {
        let (env, parents) = (hostile(), parents());
        env.agent.call(1).script(&format!("{parents}echo $$ > \"$FAKE_DIR/self\"; {kill}\n"));
        env.agent.call(2).script(WORK).out(PROMISE);
        assert_eq!(env.run().code, None, "{what}");
        let ended = env.run();
        gone(&env, "self");
        assert_eq!(env.agent.env(2)["RALPH_ITERATION"], "2", "{what}");
        assert_eq!(env.records("iteration_ended")[0]["outcome"]["type"], "interrupted", "{what}");
        ends(&env, what, &ended, completed(2, &["done"]));
    }
}

/// Children of every kind, which nothing but a kill ends, and the pids of those above. Then it waits.
const FAMILY: &str = "trap '' HUP INT TERM
setsid sh -c 'echo $$ > \"$FAKE_DIR/daemon\"; while :; do echo x >> stray; sleep 0.01; done' &
(while :; do sleep 1000; done) & echo $! > \"$FAKE_DIR/child\"
setsid sh -c 'echo $$ > \"$FAKE_DIR/stopped\"; kill -STOP $$' &
echo $$ > \"$FAKE_DIR/self\"; echo $shim > \"$FAKE_DIR/shim\"; echo $fork_server > \"$FAKE_DIR/fork_server\"
while :; do sleep 1000; done
";

/// A run whose orchestrator, fork_server and shim are killed while the agent has children. Its id.
fn all_killed(env: &TestEnvironment) -> String {
    let parents = parents();
    env.agent.call(1).script(&format!("export FAKE_DIR\n{parents}{FAMILY}"));
    env.agent.call(2).script(WORK).out(PROMISE);
    let mut running = env.start(&["run"]);
    let family = ["self", "daemon", "child", "stopped"].map(|name| pid_in(env, name));
    let above = ["shim", "fork_server"].map(|name| Pid::from_raw(pid_in(env, name)).unwrap());
    eventually("the daemon writes", || env.path("stray").exists());
    // Stopped, so that they cannot see the others' end before their own.
    let all_above = |signal| above.iter().for_each(|pid| kill_process(*pid, signal).unwrap());
    all_above(Signal::STOP);
    running.signal(Signal::KILL);
    all_above(Signal::KILL);
    running.wait();
    eventually("the kernel ends the leader", || !alive(family[0]));
    assert!(family[1..].iter().all(|pid| alive(*pid)), "nobody is left who could end the others");
    env.status()["run"].as_str().unwrap().to_owned()
}

#[test]
fn what_is_left_when_all_above_the_agent_are_killed_together_ends_before_anything_begins() {
    for args in [&["run"][..], &["run", "--restart"]] {
        let env = hostile();
        let run = all_killed(&env);
        // Started by somebody to whom the same variable was handed down.
        let program = env.command(&[]).get_program().to_owned();
        let mut above = Command::new("sh");
        above
            .args(["-c", "\"$0\" \"$@\"; code=$?; echo above; exit $code"])
            .arg(program)
            .args(args)
            .current_dir(env.workspace())
            .env_clear()
            .envs(env.command(&[]).get_envs().filter_map(|(name, value)| Some((name, value?))))
            .env("RALPH_RUN_ID", run)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let ended = Running::new(above.spawn().unwrap()).wait();
        ended.says("above").says("killed ").says(" of an earlier start: ").says("sh");
        for name in ["daemon", "child", "stopped"] {
            gone(&env, name);
        }
        let iterations = if args.len() == 1 { 2 } else { 1 };
        // It was killed while it appended, before the second agent began.
        let size = env.read("stray").len();
        if args.len() == 1 {
            ends(&env, "both", &ended, completed(iterations, &["done", "stray"]));
        } else {
            assert_eq!((ended.code, env.status()["iterations"].as_u64()), (Some(0), Some(1)));
            assert!(of_run(&env.root()).is_empty());
        }
        assert_eq!(env.read("stray").len(), size);
    }
}

#[test]
fn an_agent_that_signals_whoever_is_above_it_is_a_signal_like_any_other() {
    let (env, parents) = (hostile(), parents());
    env.agent.call(1).script(&format!("{parents}kill -TERM $orchestrator; sleep 1000\n"));
    let ended = env.run();
    let end = End { stop: "interrupted", code: 143, iterations: 1, latch: "open", made: &[] };
    ends(&env, "TERM", &ended, end);
}

#[test]
pub(super) fn an_agent_that_kills_its_shim_is_a_failed_iteration_and_leaves_nothing() {
    for signal in ["KILL", "TERM", "HUP", "QUIT", "INT"] {
        let (env, parents) = (hostile(), parents());
        env.config("\n[limits]\nmax_failures = 1\niteration_timeout = \"2s\"\n");
        env.agent.call(1).script(&format!(
            "{parents}echo $$ > \"$FAKE_DIR/self\"; kill -{signal} $shim; exec sleep 1000\n"
        ));
        let ended = env.run();
        gone(&env, "self");
        ends(&env, signal, &ended, stopped("failures", 1, &[]));
    }
}

/// As in some containers: the orchestrator is process 1, and its session has no number that it could see.
#[test]
fn a_shim_is_killed_where_the_session_is_outside_of_the_pid_namespace() {
    let env = hostile();
    env.config("\n[limits]\nmax_failures = 1\niteration_timeout = \"2s\"\n");
    let kill = format!("{}kill -KILL $shim; exec sleep 1000\n", parents());
    env.agent.call(1).script(&kill);
    let mut command = env.program(Path::new("unshare"));
    command
        .args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"])
        .args([env!("CARGO_BIN_EXE_ralph-orchestrator"), "run"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let ended = Running::new(command.spawn().unwrap()).wait();
    ends(&env, "outside", &ended, stopped("failures", 1, &[]));
}

#[test]
fn an_agent_that_signals_its_whole_group_or_session_reaches_only_itself() {
    let env = hostile();
    env.agent.call(1).script("kill -KILL 0\n");
    env.agent.call(2).script("setsid -w sh -c 'kill -TERM 0'; kill -TERM -$$ 2>/dev/null\n");
    env.agent.call(3).script(WORK).out(PROMISE);
    let ended = env.run();
    ends(&env, "group", &ended, completed(3, &["done"]));
}

#[test]
fn an_agent_that_leaves_its_folder_or_deletes_it_ends_like_any_other() {
    let env = hostile();
    env.agent.call(1).script("mkdir gone; cd gone; rmdir ../gone; echo still here\n");
    env.agent.call(2).script(WORK).out(PROMISE);
    let ended = env.run();
    ends(&env, "folder", &ended, completed(2, &["done"]));
}

#[test]
fn what_is_in_its_temporary_folder_is_its_own_but_the_orchestrator_s_is_gone() {
    let env = hostile();
    env.agent.call(1).script(
        "for f in \"$TMPDIR\"/ralph-*; do chmod 000 $f; done; rm -rf \"$TMPDIR\"/ralph-*\n",
    );
    env.agent.call(2).script(WORK).out(PROMISE);
    let ended = env.run();
    ends(&env, "scratch", &ended, completed(2, &["done"]));
}

#[test]
fn an_agent_that_is_not_there_any_more_ends_the_run() {
    let env = hostile();
    env.config("\n[limits]\nmax_failures = 2\n");
    env.agent.call(1).script("rm \"$FAKE_DIR/fake-agent\"; echo 1 > x\n");
    let ended = env.run();
    let end = End { code: 69, ..stopped("agent_unavailable", 3, &["x"]) };
    ends(&env, "removed", &ended, end);
}

/// An agent that leaves a daemon, does its work, claims it in a way that needs no good ending, and ends those above it
/// that would end the daemon. Its check accepts only if the daemon is gone.
fn unwatched(daemon: &str, end: &str) {
    let (env, parents) = (hostile(), parents());
    env.agent.call(1).script(&format!(
        "export FAKE_DIR\n{parents}{daemon}
         {WORK}printf '\\nTASK_COMPLETE\\n' >> PROMPT.md
         {end}; sleep 1000\n"
    ));
    let daemon = env.agent.program().with_file_name("daemon").display().to_string();
    env.config(&format!(
        "\n[[validator]]\nkind = \"command\"\nname = \"alone\"\n\
         program = [\"sh\", \"-c\", \"! grep -q ') [^ZX]' /proc/$(cat '{daemon}')/stat\"]\n\
         [limits]\nmax_iterations = 1\niteration_timeout = \"2s\"\n"
    ));
    let ended = env.run();
    gone(&env, "daemon");
    ends(&env, end, &ended, completed(1, &["done"]));
}

#[test]
fn nothing_is_validated_beside_a_daemon_whose_supervisors_were_killed() {
    let marked = "setsid sh -c 'trap \"\" HUP INT TERM; echo $$ > \"$FAKE_DIR/daemon\"
                       while :; do sleep 1000; done' < /dev/null > /dev/null 2>&1 &
         until [ -s \"$FAKE_DIR/daemon\" ]; do :; done";
    unwatched(marked, "kill -KILL $fork_server; kill -KILL $shim");
}

#[test]
fn nothing_is_validated_beside_a_daemon_that_hides_and_whose_supervisors_were_killed() {
    for end in [
        "kill -KILL $fork_server $shim",
        "kill -KILL $shim $fork_server",
        "kill -STOP $fork_server; kill -KILL $shim",
        "kill -KILL $fork_server; kill -STOP $shim",
    ] {
        unwatched(DAEMON, end);
    }
}

/// Has the agent write who is above it, and stop them.
fn stopping(whom: &str) -> String {
    let parents = parents();
    format!(
        "{parents}echo $$ > \"$FAKE_DIR/self\"; echo $shim > \"$FAKE_DIR/shim\"
         echo $fork_server > \"$FAKE_DIR/fork_server\"
         kill -STOP {whom}\n"
    )
}

/// Checks that neither the agent nor those above it are there.
fn all_gone(env: &TestEnvironment) {
    for name in ["self", "shim", "fork_server"] {
        let pid = pid_in(env, name);
        eventually("it is gone", || !alive(pid));
    }
}

#[test]
fn an_agent_that_stops_its_supervisors_is_ended_at_its_limit_all_the_same() {
    for whom in ["$shim", "$fork_server", "$fork_server $shim"] {
        let env = hostile();
        env.config("\n[limits]\nmax_failures = 1\niteration_timeout = \"1s\"\n");
        env.agent.call(1).script(&format!("{}exec sleep 1000\n", stopping(whom)));
        let ended = env.run();
        assert!(!ended.stderr.contains("could not be ended"), "{}", ended.stderr);
        all_gone(&env);
        ends(&env, whom, &ended, stopped("failures", 1, &[]));
    }
}

#[test]
fn an_agent_that_stops_its_supervisor_and_kills_its_orchestrator_delays_no_start() {
    for whom in ["$shim", "$fork_server $shim"] {
        let env = hostile();
        env.config("\n[limits]\nmax_iterations = 2\n");
        let kill = "kill -KILL $orchestrator; exec sleep 1000\n";
        env.agent.call(1).script(&format!("{}{kill}", stopping(whom)));
        env.agent.call(2).script(WORK).out(PROMISE);
        assert_eq!(env.run().code, None, "{whom}");
        let ended = env.run();
        all_gone(&env);
        ends(&env, whom, &ended, completed(2, &["done"]));
    }
}
