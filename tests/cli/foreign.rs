//! Variables of other programs, and output for nobody.

use crate::environment::TestEnvironment;

#[test]
fn variables_of_others_are_named_once_and_break_nothing() {
    let mut env = TestEnvironment::new();
    for name in ["RALPH_CONFIG", "RALPH_VERBOSE", "RALPH_DIAGNOSTICS", "RALPH_TUI__THEME"] {
        env.var(name, "1");
    }
    env.var("RALPH_STATE_DIR", "/tmp/elsewhere");
    env.agent.default_call().script("touch done\n").out("<promise>COMPLETE: made it</promise>\n");
    for args in [&["run"][..], &["status"], &["log"], &["why"], &["config", "show"], &["agents"]] {
        let ended = env.ralph(args).expect(0);
        let warnings: Vec<&str> =
            ended.stderr.lines().filter(|line| line.starts_with("warning: ignored")).collect();
        assert_eq!(warnings.len(), 1, "{args:?}: {}", ended.stderr);
        for name in ["RALPH_CONFIG", "RALPH_VERBOSE", "RALPH_DIAGNOSTICS", "RALPH_TUI__THEME"] {
            assert!(warnings[0].contains(name), "{}", warnings[0]);
        }
        assert!(warnings[0].contains("RALPH_STATE_DIR (did you mean RALPH_STATE__DIR?)"));
    }
    assert!(env.status().is_object(), "standard output is not touched");
}

#[test]
fn variables_of_the_program_are_configuration() {
    let mut env = TestEnvironment::new();
    env.var("RALPH_ORCHESTRATOR_LIMITS__MAX_TOKENS", "1000");
    env.var("RALPH_LIMITS__MAX_FAILURES", "none");
    let shown = env.ralph(&["config", "show"]).expect(0);
    shown.says("limits.max_tokens = 1000").says("# RALPH_ORCHESTRATOR_LIMITS__MAX_TOKENS");
    shown.says("limits.max_failures = \"none\"");
    assert!(!shown.stderr.contains("warning"), "{}", shown.stderr);
}

#[test]
fn quiet_prints_the_result_and_nothing_else() {
    let mut env = TestEnvironment::new();
    env.var("RALPH_CONFIG", "1");
    env.agent.default_call().script("touch done\n").out("<promise>COMPLETE: made it</promise>\n");
    let ended = env.ralph(&["run", "--quiet"]).expect(0);
    assert_eq!(
        (ended.stdout.as_str(), ended.stderr.as_str()),
        ("completed after 1 iteration\n", "")
    );
    let again = env.ralph(&["-q", "run"]).expect(0);
    assert!(again.stdout.starts_with("already completed") && again.stderr.is_empty());
    env.agent.default_call().script("echo $n > x\n").out("");
    let stopped = env.ralph(&["run", "-q", "--restart", "--max-iterations", "1"]).expect(1);
    assert!(stopped.stdout.starts_with("stopped (max_iterations): "), "{}", stopped.stdout);
    env.ralph(&["-q", "run", "--set", "limits.max_failures=0"]).expect(78).says("error: ");
}

#[test]
fn none_is_no_limit_everywhere() {
    let env = TestEnvironment::new();
    let limits = ["max_iterations", "max_tokens", "max_failures", "max_stagnant", "max_rejections"]
        .map(|key| format!("{key} = \"none\"\n"))
        .concat();
    let times = ["iteration_timeout", "idle_timeout", "max_wait"]
        .map(|key| format!("{key} = \"none\"\n"))
        .concat();
    env.config(&format!("timeout = \"none\"\n[limits]\n{limits}{times}"));
    env.agent.call(1).out("<promise>COMPLETE: not yet</promise>\n");
    env.agent.call(2).script("touch done\n");
    env.run().expect(0);
    let status = env.status();
    for key in ["max_iterations", "max_failures", "max_stagnant", "max_rejections"] {
        assert!(status["limits"][key].is_null(), "{key}: {}", status["limits"][key]);
    }
    let shown = env.ralph(&["config", "show"]).expect(0);
    shown.says("limits.idle_timeout = \"none\"").says("validator.0.timeout = \"none\"");
}
