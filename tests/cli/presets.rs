//! Each preset, as its own document describes the system.

mod ada;
mod autocoder;
mod demo;
mod real;

use crate::environment::TestEnvironment;

/// A configuration that consists of a preset and the scripted agent.
fn preset(name: &str, more: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    env.raw_config(&format!(
        "preset = \"{name}\"\n[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\nunmetered = true\n\
         [agent.config]\nprogram = [\"@AGENT@\"]\n{more}"
    ));
    env
}

/// What the agent was given in a call.
fn given(env: &TestEnvironment, call: usize) -> String {
    String::from_utf8(env.agent.stdin(call)).unwrap()
}

#[test]
fn config_show_says_which_values_are_those_of_the_preset() {
    let env = preset("ralph", "");
    let shown = env.ralph(&["config", "show"]).expect(0);
    for line in ["limits.max_iterations", "run.prompt_editable", "validator.0.kind"] {
        let row = shown.stdout.lines().find(|row| row.starts_with(line));
        assert!(row.is_some_and(|row| row.ends_with("preset ralph")), "{line}: {row:?}");
    }
    let delay = shown.stdout.lines().find(|row| row.starts_with("run.delay")).unwrap();
    assert!(delay.contains("ralph.toml:3"), "{delay}");
}

#[test]
fn an_unknown_preset_is_refused_with_its_place_and_the_nearest_name() {
    let env = preset("ralhp", "");
    let refused = env.ralph(&["config", "check"]).expect(78);
    refused.says("there is no preset called \"ralhp\"").says("did you mean \"ralph\"?");
    refused.says("ralph.toml:1:10");
    assert_eq!(refused.stderr.matches("error:").count(), 1, "{}", refused.stderr);
}

#[test]
fn ralph_needs_a_marker_in_the_prompt_file_and_three_files_of_evidence() {
    let env = preset("ralph", "");
    env.agent.call(1).script("echo '- [x] TASK_COMPLETE' >> PROMPT.md\n");
    env.agent.call(2).script(
        "mkdir validation-evidence\n\
         for i in 1 2 3; do echo \"check $i passed\" > validation-evidence/$i.txt; done\n",
    );
    let ended = env.run().expect(0);
    ended.says("completed: 2 iterations");
    let given = String::from_utf8(env.agent.stdin(2)).unwrap();
    assert!(given.contains("validation-evidence"), "the reason: {given}");
    assert_eq!(env.status()["latch"]["claim"]["detector"], "marker");
}

/// What the run began with is read again where no preset is known.
#[test]
fn a_run_of_a_preset_is_resumed() {
    let env = preset("ralph", "[limits]\nmax_iterations = 1\n");
    env.run().expect(1);
    env.agent.call(2).script(
        "echo '- [x] TASK_COMPLETE' >> PROMPT.md\nmkdir validation-evidence\n\
         for i in 1 2 3; do echo \"check $i passed\" > validation-evidence/$i.txt; done\n",
    );
    env.ralph(&["run", "--max-iterations", "2"]).expect(0).says("completed: 2 iterations");
}

#[test]
fn the_pure_loop_without_a_task_is_refused_and_names_what_there_is() {
    let env = preset("pure-loop", "[completion]\ntrust_agent = true\n");
    std::fs::remove_file(env.path("PROMPT.md")).unwrap();
    env.run().expect(78).says("none is named").says("new \"TASK\"");
    env.ralph(&["new", "Make it", "--test-command", "false"]).expect(0);
    env.run().expect(78).says("`go ralph-1`");
    env.ralph(&["doctor"]).expect(78).says("none is named");
    assert_eq!(env.agent.calls(), 0);
}
