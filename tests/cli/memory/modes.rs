//! What an agent is given in each mode, and what it is not.

use crate::git::{committed, git};

use super::{PROGRESS, configure, done_in, environment, stdin, words};

/// The prompt as agents are given it when nothing else is said.
fn bare(call: usize, mode: &str) {
    let env = environment(mode, "[completion]\ninstructions = \"never\"\n");
    done_in(&env, call);
    env.agent.call(1).script("");
    env.agent.call(2).script(&format!("cat {PROGRESS} > seen 2>/dev/null; rm -f seen.not; true\n"));
    env.run().expect(0);
    for earlier in 1..call {
        assert_eq!(env.agent.stdin(earlier), b"# Task\n\nMake a file called done.\n", "{mode}");
    }
    assert_eq!(env.read("seen"), "", "{mode}: there is nothing to be found");
    let hidden = env.state().join("memory").join(PROGRESS);
    assert!(!env.path(PROGRESS).exists(), "{mode}");
    let entries = std::fs::read_to_string(&hidden).map_or(0, |progress| words(&progress).len());
    let expected = if mode == "none" { 0 } else { 2 * call + 1 };
    assert_eq!(entries, expected, "{mode}");
}

#[test]
fn none_gives_each_iteration_the_same_bytes_and_writes_nothing() {
    bare(3, "none");
}

#[test]
fn breadcrumbs_give_each_iteration_the_same_bytes_while_the_file_grows() {
    bare(3, "breadcrumbs");
}

#[test]
fn what_an_agent_writes_in_its_place_joins_the_breadcrumbs() {
    let env = environment("breadcrumbs", "");
    done_in(&env, 2);
    env.agent.call(1).script(&format!("echo 'my words' > {PROGRESS}\n"));
    env.run().expect(0).says("was moved to the state directory");
    assert!(!env.path(PROGRESS).exists());
    let progress = std::fs::read_to_string(env.state().join("memory").join(PROGRESS)).unwrap();
    let (before, after) = progress.split_once("my words\n").unwrap();
    assert_eq!((words(before).len(), words(after).len()), (2, 3));
}

#[test]
fn structured_carries_on_what_was_tried_and_failed() {
    let env = environment("structured", "");
    env.agent.call(1).script("echo 1 > work.txt\n").out("<promise>COMPLETE: one</promise>\n");
    env.agent.call(2).rc(1);
    env.agent.call(3).script("touch done\n").out("<promise>COMPLETE: three</promise>\n");
    env.run().expect(0);
    let second = stdin(&env, 2);
    for part in [
        "What earlier iterations did, the last one at the end:\n\n## Session s001_",
        "- claimed completion: one\n",
        "- changed work.txt (new)\n",
        "Checks and tests completed:\n- tests: rejected\n",
        "- fix what the checks report\n",
    ] {
        assert!(second.contains(part), "{part}\n{second}");
    }
    let third = stdin(&env, 3);
    assert!(third.contains("## Session s002_") && third.contains("the agent failed"), "{third}");
    assert!(third.ends_with("Make a file called done.\n") || third.contains("\n---\n"), "{third}");
    // No form of a claim is repeated: the agent's own would count as an echo.
    assert!(!third.split("# Task").next().unwrap().contains("<promise>"), "{third}");
}

#[test]
fn structured_needs_no_file() {
    let env = environment("structured", "");
    env.config("[memory]\nmode = \"structured\"\n");
    done_in(&env, 9);
    env.ralph(&["run", "--once"]);
    // Another start of the orchestrator knows it still.
    env.ralph(&["run", "--once"]);
    let given = stdin(&env, 2);
    assert!(given.contains("## Session s001_"), "{given}");
    assert!(!env.path(PROGRESS).exists());
}

#[test]
fn full_gives_whole_entries_of_a_large_file_within_the_bound() {
    let env =
        environment("full", "max_bytes = \"2 KiB\"\nmax_entries = 50\nrotate_above = \"4 MiB\"\n");
    let rule = "=".repeat(60);
    let mut file = String::new();
    while file.len() < 1 << 20 {
        let number = file.len();
        file.push_str(&format!(
            "{rule}\n[2024-01-15 10:30:00] Session: s001_103000\nbody {number}\n"
        ));
    }
    env.write(PROGRESS, &file);
    done_in(&env, 1);
    env.run().expect(0);
    let given = stdin(&env, 1);
    let block = given.split("# Task").next().unwrap();
    let view = block.trim_end_matches("---\n\n");
    assert!(view.len() <= 2048 && view.len() > 1500, "{}", view.len());
    assert!(view.starts_with("The end of claude-progress.txt:\n\n====="), "{view}");
    let last = file.rsplit("body ").next().unwrap();
    assert!(view.trim_end().ends_with(&format!("body {}", last.trim_end())), "{view}");
    assert_eq!(view.matches("body ").count(), view.matches(&rule).count());
    assert!(env.read(PROGRESS).starts_with(&file), "nothing is moved below the bound");
}

#[test]
fn a_thousand_notes_are_a_bounded_view() {
    let env = environment("full", "");
    done_in(&env, 2);
    env.agent.call(1).script(&format!(
        "i=0; while [ $i -lt 1000 ]; do echo \"note $i: $(printf %0100d $i)\" >> {PROGRESS}; i=$((i+1)); done\n"
    ));
    env.run().expect(0);
    let given = stdin(&env, 2);
    assert!(given.len() < 9000, "{}", given.len());
    assert!(given.contains("bytes is left out]"), "{given}");
}

#[test]
fn the_pure_loop_is_given_progress_commits_and_failures() {
    let env = committed("iteration");
    env.config(
        "[git]\ncommit = \"iteration\"\n[memory]\nmode = \"full\"\nformat = \"markdown\"\n\
         progress = \"progress.md\"\nerrors = \"errors.log\"\nrecent_commits = 3\n",
    );
    env.agent.call(1).script("echo 1 > work.txt\n").out("<promise>COMPLETE: one</promise>\n");
    env.agent.call(2).script("touch done\n").out("<promise>COMPLETE: two</promise>\n");
    env.run().expect(0);
    let first = stdin(&env, 1);
    assert!(first.contains("Recent commits, the newest first:\n- first\n"), "{first}");
    let second = stdin(&env, 2);
    let subject = git(&env, &["log", "--format=%s", "-1", "--skip=1", "main"]);
    assert!(second.contains(&format!("newest first:\n- {subject}\n- first\n")), "{second}");
    assert!(second.contains("The end of progress.md:\n\n## Iteration 1 - one\n"), "{second}");
    assert!(second.contains("The end of errors.log:\n["), "{second}");
    assert!(second.contains("rejected: tests"), "{second}");
}

#[test]
fn without_a_repository_no_commits_are_given() {
    let env = environment("structured", "recent_commits = 3\n");
    done_in(&env, 1);
    env.run().expect(0);
    assert!(!stdin(&env, 1).contains("Recent commits"));
}

#[test]
fn a_note_is_no_progress_in_any_mode() {
    for mode in ["none", "structured", "breadcrumbs", "full"] {
        let limits = "[limits]\nmax_stagnant = 2\nmax_iterations = 9\n";
        let env = environment(mode, limits);
        let note = format!("echo \"note $n\" >> {PROGRESS}; echo \"note $n\" >> errors.log\n");
        env.agent.default_call().script(&note);
        env.run();
        assert_eq!(env.status()["stop_reason"], "stagnation", "{mode}");
        assert_eq!(env.status()["iterations"], 2, "{mode}");

        configure(&env, mode, "[limits]\nmax_rejections = 2\nmax_iterations = 9\n");
        env.agent.default_call().script(&note).out("<promise>COMPLETE: again</promise>\n");
        env.ralph(&["run", "--restart"]);
        assert_eq!(env.status()["stop_reason"], "thrashing", "{mode}");
    }
}

#[test]
fn what_agents_wrote_never_hides_a_claim_of_their_own() {
    let env = environment("full", "");
    let claim = "<promise>COMPLETE: made it</promise>";
    env.agent.call(1).script(&format!("echo 'I will print {claim}' >> {PROGRESS}\n"));
    env.agent.call(2).script("touch done\n").out(format!("{claim}\n"));
    env.run().expect(0);
    assert_eq!(env.status()["iterations"], 2);
}

#[test]
fn a_secret_that_the_agent_wrote_down_reaches_no_other_agent() {
    let mut env =
        environment("full", "[env]\npass = [\"MY_TOKEN\"]\n[limits]\nmax_iterations = 2\n");
    env.var("MY_TOKEN", "tok-3f9a-hunter2");
    let entry = format!("printf '{}' >> {PROGRESS}\n", super::RULE.replace('\n', "\\n"));
    env.agent
        .call(1)
        .script(&format!("{entry}echo \"it is $MY_TOKEN\" >> {PROGRESS}; touch one\n"));
    env.agent.call(2).script("touch two\n");
    env.run().expect(1);
    let given = stdin(&env, 2);
    assert!(given.contains("it is ***") && !given.contains("hunter2"), "{given}");
}
