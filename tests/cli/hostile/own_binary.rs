//! The same agents, driven by an adapter that another program has compiled in: `examples/own-binary`.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::{claims, floods, output, processes, state};
use crate::environment::OWN_BINARY;
use crate::plugins::built_example;
use crate::{completion, crash, limits, resumed, sandbox, secrets, signals, waits};

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

corpus!(own_binary);

own_binary!(
    completion::a_completion_withstands_everything_done_afterwards,
    completion::another_task_is_a_new_run_and_restart_is_one_too,
    completion::protected_paths_have_to_be_as_they_were,
    crash::kill_9_after_any_journal_record_then_run_ends_the_same,
    resumed::no_command_between_a_kill_and_the_next_start_hides_what_the_kill_left,
    resumed::what_a_kill_left_is_ended_although_an_agent_deleted_the_sign_of_it,
    resumed::a_kill_is_no_way_to_more_failures_than_allowed,
    resumed::all_that_a_resume_needs_comes_back_after_the_state_was_deleted_or_edited,
);
