//! Agents driven by the adapter `command` as a plugin: what holds for one that is built in holds for it.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::{PROMISE, WORK, claims, completed, ends, floods, gone, hostile, output, processes};
use crate::environment::{PACKED, parents};
use crate::plugins::built_example;
use crate::{completion, limits, sandbox, signals, waits};

/// The adapter `command` as a library.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| built_example("packed", "libpacked.so"))
}

macro_rules! packed {
    ($($module:ident::$test:ident),* $(,)?) => {
        $(
            #[test]
            fn $test() {
                PACKED.set(true);
                $module::$test();
            }
        )*
    };
}

// Each of these passes through another part of the plugin host. What the orchestrator finds on disk by itself, such as
// evidence, protected files and the state, is the same whoever has driven the agent.
packed!(
    // The prompt, in the frame of the call.
    completion::the_stdin_of_the_agent_is_the_prompt_byte_for_byte,
    // Messages as events, and the final text, which may claim.
    claims::in_a_structured_stream_only_the_final_message_of_a_good_end_claims,
    // The report of a failed call, which loses its final text.
    completion::a_failed_call_makes_no_claim,
    // Bytes that JSON cannot hold.
    output::bytes_that_are_no_text_reach_no_terminal_and_break_nothing,
    // Usage under credit, and the cancellation of a call whose queue is full.
    floods::a_limit_cuts_a_flood_of_figures_at_once,
    // Activity, measured below the plugin's process.
    limits::who_uses_the_processor_is_not_idle_before_twice_the_time,
    // A refusal by the provider, with its time.
    waits::the_wait_is_seen_and_a_signal_ends_it_at_once,
    // Cancellation without its grace: the plugin's tree is killed, and its agent's below it.
    signals::a_second_signal_kills_at_once_and_nothing_is_left_when_the_program_ends,
    // The lifeline of a shim below a shim.
    processes::a_daemon_that_hides_does_not_outlive_a_killed_orchestrator,
    // The sandbox, entered by the plugin's process.
    sandbox::an_agent_in_a_sandbox_reaches_neither_state_nor_configuration_nor_anything_outside,
);

#[test]
fn an_agent_that_ends_its_plugin_is_a_failed_iteration_and_leaves_nothing() {
    PACKED.set(true);
    let parents = parents();
    for whom in ["$host", "$host $its_shim", "$host $shim", "$host $fork_server $shim", "$its_shim"]
    {
        let env = hostile();
        env.agent.call(1).script(&format!(
            "{parents}echo $$ > \"$FAKE_DIR/self\"; kill -KILL {whom}; sleep 1000\n"
        ));
        env.agent.call(2).script(WORK).out(PROMISE);
        let ended = env.run();
        gone(&env, "self");
        assert_eq!(env.records("iteration_ended")[0]["outcome"]["type"], "failed", "{whom}");
        ends(&env, whom, &ended, completed(2, &["done"]));
    }
}

#[test]
fn an_agent_that_empties_the_caches_of_its_user_does_no_harm_to_its_plugin() {
    PACKED.set(true);
    let mut env = hostile();
    let caches = env.root().join("caches");
    env.var("XDG_CACHE_HOME", &caches.display().to_string());
    env.agent.call(1).script(&format!("rm -rf '{}'\n", caches.display()));
    env.agent.call(2).script(WORK).out(PROMISE);
    let ended = env.run();
    ends(&env, "caches", &ended, completed(2, &["done"]));
    assert!(caches.exists());
}
