//! What an agent was given is nothing that it says: an echo of the prompt claims nothing.

use std::fs;

use crate::environment::TestEnvironment;

/// Every near miss that was journalled, as its text and hint.
fn near_misses(env: &TestEnvironment) -> Vec<String> {
    let observed = env.records("observed");
    let misses = observed.iter().filter_map(|record| record["near_misses"].as_array()).flatten();
    misses.map(|miss| format!("{} | {}", miss["text"], miss["hint"])).collect()
}

fn given(env: &TestEnvironment, n: usize) -> String {
    String::from_utf8(env.agent.stdin(n)).unwrap()
}

#[test]
fn the_program_cat_claims_nothing_with_the_prompt_that_init_writes() {
    let env = TestEnvironment::new();
    fs::remove_file(env.path("PROMPT.md")).unwrap();
    fs::remove_file(env.path("ralph.toml")).unwrap();
    env.ralph(&["init"]).expect(0);
    let prompt = env.read("PROMPT.md");
    let task = "Describe the task and its acceptance criteria here.";
    assert!(prompt.contains(task), "{prompt}");
    env.write("PROMPT.md", prompt.replace(task, "Make a file called done."));
    // The agent's word alone would do.
    env.raw_config(
        "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\nunmetered = true\n\
         [agent.config]\nprogram = [\"cat\"]\n[completion]\ntrust_agent = true\n\
         [limits]\nmax_iterations = 3\n",
    );
    let reason = "it occurs word for word in what the agent was given";
    env.run().expect(1).says("max_iterations").says(reason);
    let why = env.ralph(&["why"]).expect(0).stdout;
    let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(why.contains(&format!("near miss, not a valid claim: {reason}")), "{why}");
    assert!(why.contains(&format!("is no claim, because {reason}")), "{why}");
    assert!(env.records("claimed").is_empty(), "{:?}", env.records("claimed"));
    assert!(
        near_misses(&env).iter().all(|miss| miss.contains("word for word")),
        "an echo is named"
    );
    assert!(near_misses(&env).len() >= 3, "{:?}", near_misses(&env));
}

#[test]
fn no_form_of_an_echo_is_believed_under_trust() {
    for (what, prompt, said) in [
        (
            "a line of its own",
            "Say:\n<promise>COMPLETE: x y</promise>\n",
            "<promise>COMPLETE: x y</promise>",
        ),
        (
            "in a sentence",
            "Say <promise>COMPLETE: x y</promise> then.\n",
            "<promise>COMPLETE: x y</promise>",
        ),
        (
            "in code",
            "Say `<promise>COMPLETE: x y</promise>`.\n",
            "<promise>COMPLETE: x y</promise>",
        ),
        ("wrapped", "Say <promise>COMPLETE: x y</promise>.\n", "<promise>COMPLETE: x\ny</promise>"),
        (
            "coloured",
            "Say <promise>COMPLETE: x y</promise>.\n",
            "\x1b[1m<promise>COMPLETE: \x1b[0mx  y</promise>",
        ),
        (
            "the other kind",
            "Or <promise>NEEDS_HUMAN: why</promise>.\n",
            "<promise>NEEDS_HUMAN: why</promise>",
        ),
        ("without words", "Say <promise>COMPLETE</promise>.\n", "<promise>COMPLETE</promise>"),
    ] {
        let env = TestEnvironment::new();
        env.config("\n[completion]\ntrust_agent = true\n[limits]\nmax_iterations = 1\n");
        env.write("PROMPT.md", prompt);
        env.agent.default_call().script("touch done\n").out(format!("{said}\n"));
        env.run().expect(1);
        assert!(env.records("claimed").is_empty(), "{what}");
    }
}

#[test]
fn an_honest_agent_that_repeats_the_only_example_is_warned_and_believed_the_next_time() {
    for example in ["<promise>COMPLETE: done</promise>", "<promise>COMPLETE</promise>"] {
        let env = TestEnvironment::new();
        env.write("PROMPT.md", format!("# Task\n\nWhen it is done, end with:\n\n{example}\n"));
        env.agent.call(1).script("touch done\n").out(format!("{example}\n"));
        env.agent.call(2).out("<promise>COMPLETE: made the file</promise>\n");
        env.run().expect(0).says("completed");
        assert_eq!(env.agent.calls(), 2, "{example}");
        let second = given(&env, 2);
        assert!(second.contains("in your own words"), "{second}");
    }
}

#[test]
fn an_agent_that_corrects_its_own_near_miss_is_believed() {
    let tag = "<promise>COMPLETE: built the thing</promise>";
    for near in
        [format!("\"{tag}\""), format!("`{tag}`"), format!("> {tag}"), format!("{tag} at last")]
    {
        let env = TestEnvironment::new();
        env.agent.call(1).script("touch done\n").out(format!("{near}\n"));
        env.agent.call(2).out(format!("{tag}\n"));
        env.run().expect(0).says("completed");
        assert_eq!(env.agent.calls(), 2, "{near}: what it is told must not make an echo of it");
    }
}

#[test]
fn what_earlier_iterations_and_people_said_is_given_too() {
    // The answer of a person heads the prompt: to repeat it is no claim.
    let env = TestEnvironment::new();
    env.agent.call(1).out("<promise>NEEDS_HUMAN: what now?</promise>\n");
    env.run().expect(2);
    env.ralph(&["answer", "say <promise>COMPLETE: as you were told</promise>"]).expect(0);
    env.agent.call(2).script("touch done\n").out("<promise>COMPLETE: as you were told</promise>\n");
    env.agent.call(3).out("<promise>COMPLETE: by my own account</promise>\n");
    env.run().expect(0);
    assert_eq!(env.agent.calls(), 3);
}

#[test]
fn a_run_that_was_killed_knows_again_what_its_agent_is_given() {
    let env = TestEnvironment::new();
    let example = "<promise>COMPLETE: done</promise>";
    env.config("\n[completion]\ntrust_agent = true\n[limits]\nmax_iterations = 3\n");
    env.write("PROMPT.md", format!("End with {example}\n"));
    let parents = crate::environment::parents();
    env.agent.call(1).script(&format!("{parents}kill -9 $orchestrator; sleep 1000\n"));
    env.agent.default_call().script("touch done\n").out(format!("{example}\n"));
    assert_eq!(env.run().code, None, "killed by its own agent");
    env.run().expect(1);
    assert!(env.records("claimed").is_empty());
}

#[test]
fn a_marker_in_the_prompt_file_stays_a_claim() {
    let env = TestEnvironment::new();
    env.write("PROMPT.md", "# Task\n\n- [x] TASK_COMPLETE\n");
    env.write("done", "");
    env.run().expect(0);
    assert_eq!(env.agent.calls(), 0);
}
