//! The agent reports how much of its provider's rate windows is used, and the run waits before one is used up.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::completion::claude_result;
use crate::environment::TestEnvironment;
use crate::waits::waiting_until_ms;

const PROMISE: &str = "<promise>COMPLETE: made it</promise>";

/// An agent that prints what Claude prints, with `max_window.five_hour = 90` and these limits: its second call does the
/// work.
fn metered(output: &str, limits: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    env.raw_config(&format!(
        "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\nunmetered = true\n[agent.config]\n\
         program = [\"@AGENT@\"]\noutput = \"{output}\"\n\
         [[validator]]\nkind = \"command\"\nname = \"tests\"\nprogram = [\"test\", \"-e\", \"done\"]\n\
         [limits]\nmax_cost_usd = \"none\"\nmax_window = {{ five_hour = 90 }}\n{limits}\n"
    ));
    env.agent.default_call().script("touch done\n").out(claude_result(PROMISE, 0.5));
    env
}

/// The line about the rate windows, with `resetsAt` so many seconds ahead.
fn event(info: &Value, seconds: i64) -> String {
    let line = json!({"type": "rate_limit_event", "rate_limit_info": info}).to_string();
    let line = line.replace('%', "%%").replace("\"RESET\"", "%s");
    format!("reset=$(($(date +%s) + {seconds})); printf '{line}\\n' $reset $reset $reset\n")
}

/// The first call reports these windows, and works on.
fn reports(env: &TestEnvironment, info: &Value, seconds: i64) {
    let script = format!("{}echo 1 > started\n", event(info, seconds));
    env.agent.call(1).script(&script).out(claude_result("not yet", 0.25));
}

fn both(five_hour: f64, weekly: f64) -> Value {
    json!({"status": "allowed", "rateLimitType": "five_hour", "resetsAt": "RESET", "unifiedWindows": {
        "five_hour": {"utilization": five_hour, "resetsAt": "RESET"},
        "seven_day": {"utilization": weekly, "resetsAt": "RESET"}}})
}

#[test]
fn a_window_that_is_nearly_used_up_is_waited_for_and_shown() {
    let env = metered("claude-json", "");
    reports(&env, &both(0.93, 0.41), 3600);
    for _ in 0..2 {
        let mut running = env.start(&["run"]);
        running.says("93 % of the window `five_hour`");
        let status = env.status();
        assert_eq!(status["phase"], "running");
        assert!(waiting_until_ms(&status).is_some(), "{status}");
        let windows = &status["rate_windows"];
        assert_eq!(
            (&windows[0]["name"], &windows[1]["name"]),
            (&"five_hour".into(), &"weekly".into())
        );
        assert_eq!(
            (&windows[0]["used_percent"], &windows[0]["max_percent"]),
            (&93.0.into(), &90.into())
        );
        assert_eq!(windows[0]["resets_at"], status["waiting_until"]);
        assert_eq!(
            (&windows[1]["used_percent"], &windows[1]["max_percent"]),
            (&41.0.into(), &Value::Null)
        );
        env.ralph(&["status"])
            .expect(0)
            .says("window      five_hour 93 % (waits at 90 %), reset 20")
            .says("window      weekly 41 %, reset 20");
        running.signal(Signal::INT);
        running.wait().expect(130);
        // Whoever starts it again waits for the same time.
    }
    assert_eq!((env.agent.calls(), env.records("waiting").len()), (1, 1), "it is one wait");
    assert_eq!(env.status()["iterations"], 1);
    // With a limit that is not reached it goes on.
    env.ralph(&["run", "--set", "limits.max_window.five_hour=100"]).expect(0);
    assert_eq!(env.agent.calls(), 2);
}

#[test]
fn the_run_goes_on_when_the_window_is_reset() {
    let env = metered("claude-json", "max_runtime = \"10m\"");
    reports(&env, &both(0.9, 0.99), 2);
    env.run().expect(0).says("waiting");
    assert_eq!(env.agent.calls(), 2);
    let waiting = env.records("waiting");
    let until = waiting[0]["until_ms"].as_i64().unwrap();
    let begun = env.records("iteration_started")[1]["time"].as_str().unwrap().to_owned();
    assert!(begun.parse::<jiff::Timestamp>().unwrap().as_millisecond() >= until);
    assert_eq!(env.status()["rate_windows"], json!([]), "what was reset is unknown");
}

#[test]
fn a_wait_longer_than_allowed_needs_a_human_and_says_how() {
    let env = metered("claude-json", "max_wait = \"10m\"");
    reports(&env, &both(0.95, 0.1), 3600);
    env.run().expect(2).says("limits.max_window.five_hour").says("limits.max_wait");
    env.ralph(&["why"]).expect(0).says("max_wait");
    assert_eq!(env.agent.calls(), 1);
}

#[test]
fn absurd_figures_break_nothing() {
    for (info, seconds) in [
        (both(0.899, 1.0), 3600),
        (both(1e9, -1.0), 3600),
        (both(-0.5, 1e300), 3600),
        (json!({"rateLimitType": "five_hour", "utilization": "NaN", "resetsAt": "RESET"}), 3600),
        (json!({"rateLimitType": "five_hour", "utilization": 0.99}), 3600),
        (
            json!({"rateLimitType": "five\nhour; rm", "utilization": 0.99, "resetsAt": "RESET"}),
            3600,
        ),
        // Past, and a thousand years ahead.
        (both(1.0, 1.0), -100),
        (both(1.0, 1.0), 31_000_000_000),
        (json!({"rateLimitType": 5, "unifiedWindows": [1], "resetsAt": {}}), 3600),
    ] {
        let env = metered("claude-json", "");
        reports(&env, &info, seconds);
        env.run().expect(0);
        assert!(env.records("waiting").is_empty(), "{info}");
        assert_eq!(env.agent.calls(), 2, "{info}");
        env.ralph(&["status"]).expect(0);
    }
}

#[test]
fn doctor_names_a_limit_on_windows_that_nobody_reports() {
    let has_no_effect = "limits.max_window has no effect";
    for (output, warns) in [("text", true), ("claude-json", false)] {
        let env = metered(output, "");
        let doctor = env.ralph(&["doctor"]);
        assert_eq!(doctor.stdout.contains(has_no_effect), warns, "{output}: {}", doctor.stdout);
    }
}
