//! The same agents, driven by the same adapter as a plugin: what holds for one that is built in holds
//! for it.
//!
//! What a plugin could change is repeated: processes, signals, time, output, events, claims, the sandbox. What the
//! orchestrator finds on disk is not: proof, protected files, the places of the state, the prompt and the
//! configuration. It examines those by itself, the same whoever has driven the agent.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::{
    PROMISE, WORK, claims, completed, ends, floods, gone, hostile, output, processes, state,
};
use crate::environment::{PACKED, parents};
use crate::plugins::built;
use crate::{completion, limits, sandbox, secrets, signals, waits};

/// The adapter `command` as a library.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| built("tests/packed", "libpacked.so"))
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

packed!(
    limits::max_iterations_holds_across_restarts,
    limits::max_cost_stops_after_the_iteration_that_reaches_it_and_stays_reached,
    limits::max_cost_cuts_an_iteration_that_would_exceed_it,
    limits::max_runtime_ends_an_agent_that_talks_for_ever,
    limits::max_runtime_holds_over_restarts_in_sum,
    limits::iteration_timeout_and_idle_timeout_end_an_iteration_as_a_failure,
    limits::who_uses_the_processor_is_not_idle_before_twice_the_time,
    limits::who_has_a_connection_open_is_not_idle_before_twice_the_time,
    limits::who_is_busy_for_ever_is_cut_at_twice_the_time,
    limits::who_sleeps_is_cut_in_time_though_it_listens_and_was_busy_before,
    limits::failures_in_a_row_stop_the_run_and_a_success_counts_them_anew,
    limits::trees_that_go_to_and_fro_are_stagnation,
    limits::a_lost_iteration_is_charged_and_cost_never_falls,
    limits::max_cost_holds_over_restarts_in_sum_whatever_an_iteration_was_cut_by,
    secrets::a_secret_in_text_claim_stderr_and_a_validators_output_is_starred,
    secrets::a_secret_in_an_error_is_starred,
    sandbox::an_agent_in_a_sandbox_reaches_neither_state_nor_configuration_nor_anything_outside,
    sandbox::it_can_work_as_usual_in_its_workspace,
    sandbox::what_is_protected_in_the_workspace_cannot_be_changed_and_what_lies_beside_it_can,
    sandbox::what_a_run_protects_stays_so_when_the_configuration_forgets_it,
    completion::the_stdin_of_the_agent_is_the_prompt_byte_for_byte,
    completion::a_failed_call_makes_no_claim,
    completion::an_echo_of_the_prompt_completes_nothing_that_is_not_done,
    completion::needs_human_stops_with_its_reason_and_the_answer_heads_the_next_prompt,
    completion::a_rejected_claim_stays_pending_and_needs_no_second_one,
    waits::the_wait_is_seen_and_a_signal_ends_it_at_once,
    waits::a_wait_that_was_killed_goes_on_for_the_rest_of_it,
    signals::a_signal_ends_the_agent_and_the_run_goes_on_later,
    signals::after_kill_9_nothing_is_left_and_a_run_starts_without_any_manual_step,
    signals::a_second_signal_kills_at_once_and_nothing_is_left_when_the_program_ends,
    signals::a_third_signal_leaves_at_once_and_the_tree_ends_all_the_same,
    signals::no_signal_ever_goes_to_the_group_of_the_caller,
    signals::a_time_of_standstill_is_charged_to_no_limit,
    claims::text_that_is_no_claim_starts_no_validation_even_where_one_would_accept,
    claims::a_claim_on_standard_error_is_none,
    claims::in_a_structured_stream_only_the_final_message_of_a_good_end_claims,
    claims::a_claim_in_many_forms_is_one_claim_and_needs_its_proof,
    claims::both_claims_at_once_are_settled_by_the_proof_and_then_by_the_human,
    claims::an_agent_that_only_asks_is_bounded,
    claims::words_about_limits_and_errors_are_only_words,
    claims::good_and_bad_work_by_turns_completes_only_on_good_work,
    claims::a_claim_of_the_same_work_again_and_again_is_thrashing,
    claims::absurd_figures_neither_crash_nor_lower_what_was_spent,
    claims::a_huge_price_stops_the_run_at_once_and_adds_up_without_overflow,
    claims::figures_that_shrink_within_an_iteration_do_not_lower_the_cost,
    output::two_hundred_megabytes_of_text_cost_no_memory_and_the_claim_is_recorded,
    output::a_line_of_fifty_megabytes_costs_no_memory_and_hides_no_claim_after_it,
    output::fifty_megabytes_of_standard_error_cost_no_memory,
    output::a_hundred_thousand_messages_cost_no_memory,
    output::bytes_that_are_no_text_reach_no_terminal_and_break_nothing,
    output::output_as_json_stays_json_whatever_is_printed,
    output::messages_that_are_nearly_right_break_nothing,
    output::an_agent_that_prints_nothing_at_all_and_one_that_never_stops_are_bounded,
    floods::text_without_end,
    floods::standard_error_without_end,
    floods::lines_that_are_no_messages_without_end,
    floods::usage_without_end,
    floods::the_last_figures_of_a_flood_are_on_record,
    floods::a_limit_cuts_a_flood_of_figures_at_once,
    processes::a_daemon_that_hides_is_found_and_ended_with_the_iteration,
    processes::a_daemon_that_hides_does_not_outlive_a_killed_orchestrator,
    processes::agents_that_do_not_want_to_end_are_ended,
    processes::a_claim_made_while_being_cut_is_none_of_a_good_call,
    processes::a_storm_of_children_is_reaped,
    processes::children_that_go_on_after_their_parent_are_ended,
    processes::a_grandchild_that_holds_the_output_holds_up_nothing,
    processes::a_structured_agent_that_hangs_after_its_result_is_ended_and_its_claim_counts,
    processes::standard_input_is_no_trap,
    processes::an_agent_that_closes_its_output_may_work_on,
    processes::an_agent_that_signals_its_whole_group_or_session_reaches_only_itself,
    processes::an_agent_that_leaves_its_folder_or_deletes_it_ends_like_any_other,
    processes::what_is_in_its_temporary_folder_is_its_own_but_the_orchestrator_s_is_gone,
    processes::nothing_is_validated_beside_a_daemon_whose_supervisors_were_killed,
    processes::an_agent_that_kills_its_shim_is_a_failed_iteration_and_leaves_nothing,
    processes::an_agent_that_kills_its_orchestrator_wins_nothing,
    processes::an_agent_that_signals_whoever_is_above_it_is_a_signal_like_any_other,
    state::a_pipe_in_the_prompt_s_place_stops_no_clock_and_no_signal,
    state::a_prompt_that_is_written_piece_by_piece_is_read_whole,
    state::a_deleted_workspace_is_no_completion_and_the_prompt_comes_back,
    state::folders_that_may_not_be_entered_end_no_run,
    state::a_workspace_that_became_a_file_is_an_error_and_no_completion,
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
