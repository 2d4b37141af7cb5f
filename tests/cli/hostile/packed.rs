//! The same agents, driven by a plugin: what holds for an adapter that is built in holds for it.

use super::{claims, evidence, output, processes, state};
use crate::environment::PACKED;

/// What drives the agents here.
pub(crate) const PLUGIN: &str = include_str!("packed.py");

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
    claims::text_that_is_no_claim_starts_no_validation_even_where_one_would_accept,
    claims::a_claim_on_standard_error_is_none,
    claims::a_claim_in_many_forms_is_one_claim_and_needs_its_proof,
    claims::both_claims_at_once_are_settled_by_the_proof_and_then_by_the_human,
    claims::an_agent_that_only_asks_is_bounded,
    claims::words_about_limits_and_errors_are_only_words,
    claims::good_and_bad_work_by_turns_completes_only_on_good_work,
    evidence::what_is_no_proof_is_refused_with_its_reason_and_then_mended,
    evidence::proof_older_than_the_work_is_stale,
    evidence::proof_kept_from_an_earlier_run_proves_nothing_in_the_next,
    evidence::proof_that_vanishes_while_validators_run_is_no_proof,
    evidence::a_tree_that_changes_while_validators_run_is_not_the_one_that_was_proved,
    evidence::protected_tests_can_not_be_weakened_in_any_way,
    evidence::programs_that_the_agent_puts_in_the_way_are_not_what_validates,
    output::two_hundred_megabytes_of_text_cost_no_memory_and_the_claim_is_heard,
    output::fifty_megabytes_of_standard_error_cost_no_memory,
    output::bytes_that_are_no_text_reach_no_terminal_and_break_nothing,
    output::output_as_json_stays_json_whatever_is_printed,
    output::an_agent_that_prints_nothing_at_all_and_one_that_never_stops_are_bounded,
    processes::a_daemon_that_hides_is_found_and_ended_with_the_iteration,
    processes::a_daemon_that_hides_does_not_outlive_a_killed_orchestrator,
    processes::agents_that_do_not_want_to_end_are_ended,
    processes::a_claim_made_while_being_cut_is_none_of_a_good_call,
    processes::a_storm_of_children_is_reaped,
    processes::children_that_go_on_after_their_parent_are_ended,
    processes::a_grandchild_that_holds_the_output_holds_up_nothing,
    processes::standard_input_is_no_trap,
    processes::an_agent_that_closes_its_output_may_work_on,
    processes::an_agent_that_signals_its_whole_group_or_session_reaches_only_itself,
    processes::an_agent_that_leaves_its_folder_or_deletes_it_ends_like_any_other,
    processes::what_is_in_its_temporary_folder_is_its_own_but_the_orchestrator_s_is_gone,
    state::whatever_is_in_the_prompt_s_place_it_is_put_back,
    state::a_pipe_in_the_prompt_s_place_stops_no_clock_and_no_signal,
    state::whatever_is_in_the_configuration_s_place_the_run_goes_on_with_its_own,
    state::whatever_is_in_the_place_of_a_file_of_the_state_it_is_written_again,
    state::folders_of_the_state_that_became_files_are_made_again,
    state::a_deleted_workspace_is_no_completion_and_the_prompt_comes_back,
    state::folders_that_may_not_be_entered_end_no_run,
    state::a_repository_that_is_reset_cleaned_or_broken_ends_no_run,
    state::a_workspace_that_became_a_file_is_an_error_and_no_completion,
    state::an_agent_that_writes_its_own_state_into_the_workspace_is_not_believed,
);
