//! What the traits of the SDK have works in a plugin.

use crate::environment::TestEnvironment;

const PLUGIN: &str = include_str!("methods.py");

/// A workspace with the plugin `m`, told `how`, and an agent that performs this script, or that of the plugin.
fn environment(how: &str, script: Option<&str>, more: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    let path = env.root().join("plugin.py");
    std::fs::write(&path, PLUGIN).unwrap();
    let agent = match script {
        Some(script) => format!(
            "adapter = \"command\"\nunmetered = true\n[agent.config]\nprogram = [\"sh\", \"-c\", \"{script}\"]"
        ),
        None => "adapter = \"m\"".to_owned(),
    };
    env.raw_config(&format!(
        "[run]\ndelay = \"0s\"\n[plugins.m]\ncommand = [\"python3\", \"{}\", \"{how}\", \"{}\"]\n\
         [agent]\n{agent}\n{more}\n",
        path.display(),
        env.root().join("reason.txt").display(),
    ));
    env
}

const DONE: &str = "cat >/dev/null; date +%N >f; echo '<promise>COMPLETE: x</promise>'";
const CHECK: &str = "[[validator]]\nkind = \"command\"\nname = \"v\"\nprogram = [\"true\"]\n";

#[test]
fn a_validator_reserves_paths_and_says_what_is_wrong_before_the_run() {
    let script = "cat >/dev/null; echo 1 >check.override; echo '<promise>COMPLETE: x</promise>'";
    let more = "[[validator]]\nkind = \"m\"\nname = \"mine\"\n\
                [[validator]]\nkind = \"protected-paths\"\nname = \"kept\"\npaths = [\"kept.txt\"]\n\
                [limits]\nmax_iterations = 1\n";
    let env = environment("validator", Some(script), more);
    env.write("kept.txt", "x");
    let ended = env.run().expect(1);
    ended.says("it protects kept.txt").says("check.override appeared");
}

#[test]
fn an_agent_is_told_that_it_is_handed_off() {
    let more = "[handoff]\nafter = \"1s\"\n[limits]\nmax_iterations = 1\n\
                [[validator]]\nkind = \"command\"\nname = \"v\"\nprogram = [\"false\"]\n";
    let env = environment("handoff", None, more);
    env.run().expect(1);
    assert_eq!(std::fs::read_to_string(env.root().join("reason.txt")).unwrap(), "handoff");
}

#[test]
fn warnings_of_an_agent_are_bounded_counted_and_in_the_journal() {
    let more = format!("{CHECK}[limits]\nmax_iterations = 1\n");
    let env = environment("warns", None, &more);
    let ended = env.run().expect(0);
    let transcript = env.journal_path().with_file_name("iterations/0001/transcript.jsonl");
    let summary = "3936 warnings of the agent left out: 64 repeated, 3872 beyond the limit";
    let (shown, logged) = (ended.stderr, env.ralph(&["log"]).expect(0).stdout);
    let recorded = env.ralph(&["log", "--json"]).expect(0).stdout;
    for text in [&shown, &logged, &recorded] {
        assert_eq!(text.matches("it warns of").count(), 64, "{text}");
        assert!(text.contains(summary), "{text}");
    }
    let transcript = std::fs::read_to_string(transcript).unwrap();
    assert_eq!(transcript.matches("it warns of").count(), 64);
}

#[test]
fn words_that_are_not_known_are_named_once_and_cost_nothing_else() {
    let more = format!("{CHECK}[limits]\nmax_iterations = 1\nmax_cost_usd = 10\n");
    let env = environment("unknown words", None, &more);
    let ended = env.run().expect(1);
    ended.says("too dull").says("$0.25");
    for (what, becomes) in [
        ("word in the event `claim` `partly`", "is ignored"),
        ("event type `dream`", "is ignored"),
        ("error class `bored`", "is taken for `crashed`"),
    ] {
        let named = format!("the plugin sent the unknown {what}, which {becomes}");
        assert_eq!(ended.stderr.matches(&named).count(), 1, "{named}: {}", ended.stderr);
        assert!(env.records("warning").iter().any(|record| record.to_string().contains("unknown")));
    }
}

/// Its process serves a whole run, and must not hold up the next one.
#[test]
fn a_detector_does_not_hold_up_the_second_item_of_a_backlog() {
    let more = format!(
        "[backlog]\nkind = \"plan-md\"\npath = \"plan.md\"\n\
         [completion]\ndetectors = [\"promise\", \"m\"]\n{CHECK}"
    );
    let env = environment("detector", Some(DONE), &more);
    env.write("plan.md", "# Plan\n\n- [ ] one\n- [ ] two\n");
    env.run().expect(0);
}

/// Nor must it use up the time of an agent, or cost a claim.
#[test]
fn a_detector_that_hangs_is_named_and_asked_no_more_and_the_claim_counts() {
    let script = "cat >/dev/null; echo one; echo two; echo DONE";
    let more = format!(
        "[completion]\ndetectors = [\"m\"]\n{CHECK}\
         [limits]\nmax_iterations = 1\niteration_timeout = \"3s\"\n"
    );
    let env = environment("hangs", Some(script), &more);
    let ended = env.run().expect(0);
    ended.says("the detector `m` has not answered to an event of the agent");
    // It found another claim, of a kind that is not known.
    ended.says("the plugin sent the unknown word in a claim `partly`, which is ignored");
}
