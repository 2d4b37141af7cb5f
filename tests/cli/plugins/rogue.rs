//! Whatever a plugin does, the iteration fails with the reason, and the run goes on.

use super::environment;
use crate::environment::{TestEnvironment, of_run};

const ROGUE: &str = include_str!("rogue.py");

fn rogue(how: &str, more: &str) -> TestEnvironment {
    environment(ROGUE, how, more)
}

/// Fails once for this reason and completes in the next iteration; nothing is left.
#[track_caller]
fn fails_once(how: &str, more: &str, reason: &str) -> TestEnvironment {
    let env = rogue(how, more);
    let ended = env.run().expect(0);
    ended.says(reason);
    assert_eq!(env.status()["iterations"], 2, "{how}: {}", ended.stderr);
    assert_eq!(of_run(&env.root()), Vec::<i32>::new(), "{how}: processes are left");
    env
}

#[test]
fn deaths_are_reported_with_how_it_died() {
    fails_once("exit", "", "the plugin `rogue`: its process ended with exit 3");
    fails_once("signal", "", "signal 11 (SIGSEGV) (a stack overflow looks the same)");
    fails_once("eof", "", "its process ended with exit 0");
    fails_once("panic", "", "it panicked at bot.rs:7:1: index out of range");
}

#[test]
fn what_breaks_the_protocol_is_named() {
    fails_once("garbage", "", "`Traceback (most recent call last):` is not a frame");
    fails_once("other answer", "", "it answered call 1 of `run` without `report`");
    fails_once("other call", "", "sent `event` for the unknown call 99");
    fails_once("oversized", "", "at most 16777216 are allowed");
    // Its end never comes: the limit on the iteration's time is not what ends it.
    for how in ["endless line", "endless hello"] {
        fails_once(how, "", "bytes or more; at most 16777216 are allowed");
    }
    fails_once("other protocol", "", "uses version 2 of the protocol");
}

#[test]
fn a_handshake_that_hangs_is_given_up() {
    fails_once("mute", "", "it has printed no line: does it end each one, and flush");
}

#[test]
fn one_that_does_not_listen_is_ended() {
    let ignored = "it did not end within 5 s of being cancelled and was killed";
    fails_once("deaf", "[limits]\niteration_timeout = \"8s\"", ignored);
}

#[test]
fn what_it_leaves_behind_is_killed_and_named() {
    let env = fails_once("leak", "", "it lost a child");
    let journal = env.journal();
    assert!(
        journal
            .iter()
            .any(|record| record.to_string().contains("\"left_behind\":[\"sleep 1000\"]"))
    );
}

#[test]
fn a_flood_is_taken_as_it_comes() {
    let env = rogue("flood", "");
    env.run().expect(0);
    let log = env.ralph(&["log", "1", "--json"]).expect(0);
    assert!(log.stdout.contains("flood 99999"), "the last event is there");
}

#[test]
fn a_claim_of_a_failed_iteration_is_none() {
    let env = fails_once("claims and fails", "", "too bad");
    let claims = env.records("claimed");
    assert_eq!(claims.len(), 1, "{claims:?}");
}

#[test]
fn the_cost_limit_holds() {
    let env = rogue("spends", "[limits]\nmax_cost_usd = 2");
    let ended = env.run().expect(1);
    assert_eq!(env.status()["stop_reason"], "max_cost", "{}", ended.stderr);
    assert_eq!(of_run(&env.root()), Vec::<i32>::new());
}

#[test]
fn a_promised_cost_that_never_comes_is_charged_and_reported() {
    let env = rogue("", "[limits]\nmax_cost_usd = 2");
    env.run().expect(0).says("reported none: the iteration is charged its reservation, $0.02");
    assert_eq!(env.status()["cost_usd"], 0.02, "{}", env.status());
}

#[test]
fn half_of_a_surrogate_pair_is_replaced() {
    let env = rogue("surrogate", "");
    env.ralph(&["run", "--verbose"]).expect(0).says("half a pair: \u{fffd}.");
    assert_eq!(env.status()["iterations"], 1);
}

#[test]
fn secrets_are_kept_out_of_what_is_written() {
    let mut env = rogue("secret", "[env]\npass = [\"BOT_KEY\"]");
    env.var("BOT_KEY", "correct-horse-battery");
    let ended = env.ralph(&["run", "--verbose"]).expect(0);
    ended.says("the key is ***");
    let log = env.ralph(&["log", "1", "--json"]).expect(0);
    assert!(!log.stdout.contains("correct-horse"), "{}", log.stdout);
}

#[test]
fn mistakes_have_their_place() {
    let env = rogue("", "[agent.config]\nsteps = [1, 2]");
    let ended = env.run().expect(78);
    ended.says("ralph.toml:12:13").says("too many steps");
    assert!(!env.has_state());
    let env = rogue("", "");
    let text = env.read("ralph.toml");
    env.write("ralph.toml", text.replace("adapter = \"rogue\"", "adapter = \"rogue/other\""));
    env.run()
        .expect(78)
        .says("provides no agent `other`, but `rogue/bot`")
        .says("adapter = \"rogue/other\"");
    env.write("ralph.toml", text.replace("plugins.rogue", "plugins.promise"));
    env.run().expect(78).says("a detector of that name is built in");
    env.write("ralph.toml", text.replace("\"python3\"", "\"no-such-program\""));
    env.run().expect(78).says("no-such-program");
    env.write(
        "ralph.toml",
        text.replace("[agent]\n", &format!("digest = \"{:064}\"\n[agent]\n", 0)),
    );
    env.run().expect(78).says("its content has the BLAKE3 digest");
}

#[test]
fn it_is_listed_and_probed() {
    let env = rogue("", "");
    env.ralph(&["plugin", "list"]).expect(0).says("rogue 6 provides agent bot").says("digest ");
    env.ralph(&["agents"]).expect(0).says("rogue/bot");
    let agents: serde_json::Value =
        serde_json::from_str(&env.ralph(&["agents", "--json"]).expect(0).stdout).unwrap();
    let bot = agents.as_array().unwrap().iter().find(|row| row["name"] == "rogue/bot").unwrap();
    assert!(bot["capabilities"].is_null(), "not known before it is built: {bot}");
    env.ralph(&["doctor"]).expect(0).says("ok    plugin").says("here");
    env.ralph(&["config", "check"]).expect(0);
    let file = env.path("PROMPT.md").display().to_string();
    env.ralph(&["plugin", "check", &file]).expect(69).says("none of its code has run");
}
