//! What is written, and what agents cannot do to it.

use std::collections::BTreeSet;
use std::fs;

use crate::backlog;
use crate::environment::TestEnvironment;
use crate::git::{committed, git};

use super::{PROGRESS, RULE, actions, configure, done_in, environment, stdin, words};

const ONE: [&str; 2] = ["session_started", "session_ended"];

#[test]
fn each_session_begins_ends_and_completes_in_the_documented_form() {
    let env = environment("full", "");
    done_in(&env, 2);
    env.run().expect(0);
    let progress = env.read(PROGRESS);
    let expected = [ONE[0], ONE[1], ONE[0], ONE[1], "feature_completed"];
    assert_eq!(words(&progress), expected, "{progress}");
    let ids: BTreeSet<String> = actions(&progress).into_iter().map(|(id, _)| id).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    assert!(ids[0].starts_with("s001_") && ids[1].starts_with("s002_"), "{ids:?}");
    let ended = progress.split(RULE).nth(2).unwrap();
    for title in [
        "Accomplished this session:\n- changed work.txt (new)\n",
        "Checks and tests completed:\n",
        "Issues found or fixed:\n",
        "What next:\n",
        "Completion status:\n- not complete",
    ] {
        assert!(ended.contains(title), "{title}\n{ended}");
    }
    assert!(!progress.contains("Feature:"), "there is no item");
    // Bookkeeping is no part of the work.
    assert!(!env.read(PROGRESS).contains("changed claude-progress.txt"));
}

#[test]
fn two_runs_in_a_row_have_different_sessions() {
    let env = environment("full", "");
    done_in(&env, 1);
    env.agent.call(2).out("<promise>COMPLETE: made it</promise>\n");
    env.run().expect(0);
    env.ralph(&["run", "--restart"]).expect(0);
    let progress = env.read(PROGRESS);
    let actions = actions(&progress);
    let ids: BTreeSet<&str> = actions.iter().map(|(id, _)| id.split('_').next().unwrap()).collect();
    assert_eq!(ids.into_iter().collect::<Vec<_>>(), ["s001", "s002"], "{progress}");
    assert_eq!(words(&progress).iter().filter(|word| *word == "feature_completed").count(), 2);
}

#[test]
fn what_an_agent_truncates_is_restored_and_what_it_adds_is_kept() {
    let env = environment("full", "");
    done_in(&env, 3);
    env.agent.call(2).script(&format!(": > {PROGRESS}; echo 'my own words' >> {PROGRESS}\n"));
    env.write(PROGRESS, "Written by a person.\n");
    env.run().expect(0).says("claude-progress.txt lost earlier content");
    let progress = env.read(PROGRESS);
    assert!(progress.starts_with(&format!("Written by a person.\n{RULE}")), "{progress}");
    assert_eq!(words(&progress).len(), 7, "{progress}");
    let own = progress.find("my own words\n").unwrap();
    assert!(own > progress.find("iteration 2").unwrap(), "{progress}");
    assert_eq!(progress.matches("my own words").count(), 1);
}

#[test]
fn an_edit_by_a_person_between_runs_stays() {
    let env = environment("full", "");
    done_in(&env, 2);
    env.ralph(&["run", "--once"]);
    let edited = env.read(PROGRESS).replace("session_started", "begun");
    env.write(PROGRESS, &edited);
    env.run().expect(0);
    assert!(env.read(PROGRESS).starts_with(&edited));
}

#[test]
fn a_link_in_the_place_of_the_file_is_replaced_and_one_before_the_run_refused() {
    let env = environment("full", "");
    let outside = env.root().join("outside");
    fs::write(&outside, "theirs\n").unwrap();
    let link = format!("ln -sf '{}' {PROGRESS}\n", outside.display());
    done_in(&env, 2);
    env.agent.call(1).script(&link);
    env.run().expect(0).says("is a link");
    assert_eq!(fs::read_to_string(&outside).unwrap(), "theirs\n");
    assert!(env.path(PROGRESS).symlink_metadata().unwrap().is_file());
    assert_eq!(words(&env.read(PROGRESS)).len(), 5);
    assert!(!stdin(&env, 2).contains("theirs"));

    let env = environment("full", "");
    std::os::unix::fs::symlink(&outside, env.path(PROGRESS)).unwrap();
    let ended = env.run();
    assert_ne!(ended.code, Some(0));
    ended.says("memory.progress").says("is a link");
    assert_eq!(env.agent.calls(), 0);
}

#[test]
fn an_entry_in_markdown_is_the_agent_s_or_the_orchestrator_s() {
    let env = TestEnvironment::new();
    env.config(
        "[memory]\nmode = \"full\"\nprogress = \".ralph/progress.md\"\nformat = \"markdown\"\n",
    );
    done_in(&env, 3);
    env.agent
        .call(2)
        .script("echo 2 > work.txt; echo '## Iteration 2 - Added tests' >> .ralph/progress.md\n");
    env.run().expect(0);
    let expected = "# Progress\n\n\
        ## Iteration 1 - Changed work.txt (new)\n\n- changed work.txt (new)\n\
        - verdict: not complete; nothing is claimed\n\n\
        ## Iteration 2 - Added tests\n\
        ## Iteration 3 - made it\n\n- changed done (new)\n";
    let progress = env.read(".ralph/progress.md");
    assert!(progress.starts_with(expected), "{progress}");
    assert!(progress.contains("- tests: accepted"), "{progress}");
    assert!(progress.ends_with("- verdict: complete, validated\n\n"), "{progress}");
    assert!(stdin(&env, 3).contains("## Iteration 2 - Added tests\n"));
}

#[test]
fn crash_time_out_and_rejection_are_three_entries() {
    let env = environment("none", "[limits]\niteration_timeout = \"1s\"\n");
    let gate = env.fifo("gate");
    let hold = fs::OpenOptions::new().read(true).write(true).open(&gate).unwrap();
    env.agent.call(1).script("seq 1 200 >&2\n").rc(3);
    env.agent.call(2).script(&format!("cat '{}'\n", gate.display()));
    env.agent.call(3).out("<promise>COMPLETE: not really</promise>\n");
    env.agent.call(4).script("touch done\n").out("<promise>COMPLETE: made it</promise>\n");
    env.run().expect(0);
    drop(hold);
    let errors = env.read("errors.log");
    let entries: Vec<&str> = errors.lines().filter(|line| line.starts_with('[')).collect();
    assert_eq!(entries.len(), 3, "{errors}");
    assert!(entries[0].contains("Iteration 1 (s001_") && entries[0].contains("failed"));
    assert!(entries[1].contains("Iteration 2 (s002_"), "{errors}");
    assert!(entries[1].ends_with("limits.iteration_timeout was reached"), "{errors}");
    assert!(entries[2].contains("Iteration 3 (s003_") && entries[2].ends_with("rejected: tests"));
    assert!(errors.contains("\n  151\n") && errors.contains("\n  200\n"), "{errors}");
    assert!(!errors.contains("\n  150\n"), "the last 50 lines: {errors}");
    assert!(!env.path(PROGRESS).exists(), "none is none");
}

#[test]
fn a_hand_off_leaves_next_steps_files_and_the_commit() {
    let env = committed("handoff");
    env.config(&format!(
        "[git]\ncommit = \"handoff\"\n[handoff]\nafter = \"1s\"\n\
         [memory]\nmode = \"structured\"\nprogress = \"{PROGRESS}\"\n"
    ));
    let gate = env.fifo("gate");
    let hold = fs::OpenOptions::new().read(true).write(true).open(&gate).unwrap();
    env.agent.call(1).script(&format!("echo half > work.txt; cat '{}'\n", gate.display()));
    env.agent.call(2).script("touch done\n").out("<promise>COMPLETE: made it</promise>\n");
    env.run().expect(0);
    drop(hold);
    let progress = env.read(PROGRESS);
    assert_eq!(words(&progress)[..3], ["session_started", "handoff", "session_ended"]);
    let handoff = progress.split(RULE).nth(2).unwrap();
    assert!(handoff.contains("\n\nHANDOFF: iteration 1 was ended"), "{handoff}");
    assert!(handoff.contains("\nNEXT STEPS FOR INCOMING SESSION:\n- Hand-off: "), "{handoff}");
    assert!(handoff.contains("\nFiles changed:\n- work.txt (new)\n"), "{handoff}");
    let commit = git(&env, &["log", "--format=%H", "--grep=handoff", "main"]);
    assert!(handoff.contains(&format!("\nCommit: {commit}\n")), "{handoff}");
}

#[test]
fn the_item_of_a_backlog_is_the_feature() {
    let env =
        backlog::features(&[backlog::feature("login", 2, &[]), backlog::feature("logout", 1, &[])]);
    let config = env.read("ralph.toml");
    env.raw_config(&format!(
        "{config}[memory]\nmode = \"structured\"\nprogress = \"{PROGRESS}\"\n"
    ));
    env.run().expect(0);
    let progress = env.read(PROGRESS);
    let features: Vec<&str> =
        progress.lines().filter_map(|line| line.strip_prefix("Feature: ")).collect();
    assert_eq!(features, ["login", "login", "login", "logout", "logout", "logout"], "{progress}");
    // Another item is another run, and the same memory.
    assert!(stdin(&env, 2).contains("(iteration 1, item login)"), "{}", stdin(&env, 2));
}

#[test]
fn reset_keeps_what_people_read_and_nothing_that_agents_are_given() {
    let env = environment("structured", "");
    done_in(&env, 2);
    env.ralph(&["run", "--once"]);
    env.ralph(&["reset", "--yes"]).expect(0);
    env.run().expect(0);
    assert!(!stdin(&env, 2).contains("earlier iterations"));
    let progress = env.read(PROGRESS);
    assert!(progress.contains("Session: s001_") && progress.contains("Session: s002_"));
    configure(&env, "none", "");
}

/// The next item, the memory and the item for its agent, the session, its hand-over, the validation, the
/// status in the backlog, and again.
#[test]
fn a_coding_session_takes_its_steps_in_one_order() {
    let items = [backlog::feature("one", 2, &[]), backlog::feature("two", 1, &[])];
    let env = backlog::features(&items);
    let config = env.read("ralph.toml");
    env.raw_config(&format!(
        "{config}[handoff]\nafter = \"1s\"\n[memory]\nmode = \"full\"\nprogress = \"{PROGRESS}\"\n"
    ));
    let gate = env.fifo("gate");
    let hold = fs::OpenOptions::new().read(true).write(true).open(&gate).unwrap();
    env.agent.call(1).script(&format!("cat '{}'\n", gate.display())).out("");
    env.run().expect(0);
    drop(hold);
    let last = env.records("run_started").len();
    assert_eq!(last, 1);
    let kinds: Vec<String> =
        env.journal().iter().map(|record| record["kind"].as_str().unwrap().to_owned()).collect();
    let steps = ["run_started", "iteration_started", "iteration_ended", "validated", "completed"];
    let found: Vec<&str> =
        kinds.iter().map(String::as_str).filter(|kind| steps.contains(kind)).collect();
    assert_eq!(found, steps);
    let series: Vec<(String, String)> = backlog::series(&env)
        .iter()
        .filter(|record| record["item"].is_string())
        .map(|record| {
            (
                record["item"].as_str().unwrap().to_owned(),
                record["kind"].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    let of = |item: &str| -> Vec<&str> {
        series.iter().filter(|(of, _)| of == item).map(|(_, kind)| kind.as_str()).collect()
    };
    let position = |item: &str| series.iter().position(|(of, _)| of == item).unwrap();
    assert_eq!(of("one"), of("two"));
    assert_eq!(of("one").last(), Some(&"status_written"), "{series:?}");
    assert!(position("one") < position("two"));
    let second = stdin(&env, 2);
    let at = |text: &str| second.find(text).unwrap_or_else(|| panic!("{text}\n{second}"));
    assert!(
        at("Action: handoff") < at("# Rules") && at("# Rules") < at("# Current item: Make one")
    );
    let words = words(&env.read(PROGRESS));
    let one = ["session_started", "handoff", "session_ended"];
    let two = ["session_started", "session_ended", "feature_completed"];
    assert_eq!(words, [&one[..], &two[..], &two[..]].concat());
}
