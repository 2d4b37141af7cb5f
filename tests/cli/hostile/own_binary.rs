//! Agents driven by an adapter that another program has compiled in: `examples/own-binary`.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::{claims, output, processes};
use crate::environment::OWN_BINARY;
use crate::plugins::built_example;
use crate::{completion, limits, resumed, sandbox, signals, waits};

/// The program.
pub(crate) fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| built_example("own-binary", "own-binary"))
}

macro_rules! own_binary {
    ($($module:ident::$test:ident),* $(,)?) => {
        $(
            #[test]
            fn $test() {
                OWN_BINARY.set(true);
                $module::$test();
            }
        )*
    };
}

// Each of these shows another part of what such a program does by itself: its own adapter, which reads and reports, and
// its own executable, which is the shim, the fork server and the sandbox of its agents, too.
own_binary!(
    // The prompt that its adapter passes on, and the claim that it returns.
    completion::needs_human_stops_with_its_reason_and_the_answer_heads_the_next_prompt,
    // The parsers that it takes from the library.
    claims::in_a_structured_stream_only_the_final_message_of_a_good_end_claims,
    // The failure that it reports.
    completion::a_failed_call_makes_no_claim,
    // The bounds of what its adapter keeps.
    output::a_hundred_thousand_messages_cost_no_memory,
    // Usage while its agent works, and the cancellation by a limit.
    limits::max_cost_cuts_an_iteration_that_would_exceed_it,
    // A refusal by the provider, with its time.
    waits::the_wait_is_seen_and_a_signal_ends_it_at_once,
    // Its signals.
    signals::a_third_signal_leaves_at_once_and_the_tree_ends_all_the_same,
    // Its executable as the shim.
    processes::an_agent_that_kills_its_shim_is_a_failed_iteration_and_leaves_nothing,
    // Its executable as what finds the orphans of a killed start.
    resumed::what_a_kill_left_is_ended_although_an_agent_deleted_the_sign_of_it,
    // Its executable as what enters the sandbox.
    sandbox::an_agent_in_a_sandbox_reaches_neither_state_nor_configuration_nor_anything_outside,
);
