//! Tasks with a plan: `new`, `run --task`, `go`, and what a plan says of the configuration.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;

use crate::environment::{Ended, TestEnvironment, eventually};

/// A workspace without any file.
fn empty() -> TestEnvironment {
    let env = TestEnvironment::new();
    for name in ["ralph.toml", "PROMPT.md"] {
        fs::remove_file(env.path(name)).unwrap();
    }
    env
}

/// A task with a check, and a configuration that names only the agent.
fn task(more: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    let agent = "[agent]\nadapter = \"command\"\nunmetered = true\n[agent.config]\nprogram = [\"@AGENT@\"]\n";
    env.raw_config(&format!("{agent}{more}"));
    env.ralph(&["new", "Make a file called done", "--test-command", "test -e done"]).expect(0);
    env
}

/// `go 1` where there is no configuration, with the scripted agent.
fn go(env: &TestEnvironment, more: &[&str]) -> Ended {
    let agent = env.agent.program().display().to_string();
    env.ralph(&[&["go", "1"], more, &["--", &agent]].concat())
}

fn tree(env: &TestEnvironment) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for folder in fs::read_dir(env.path(".ralph")).unwrap().flatten() {
        for file in fs::read_dir(folder.path()).unwrap().flatten() {
            let name = file.path().strip_prefix(env.workspace()).unwrap().display().to_string();
            found.push((name, fs::read_to_string(file.path()).unwrap()));
        }
    }
    found.sort();
    found
}

fn claims(env: &TestEnvironment, call: usize, text: &str) {
    env.agent.call(call).out(format!("<promise>{text}</promise>\n"));
}

#[test]
fn new_makes_three_files_and_counts_on() {
    let env = empty();
    let first = env.ralph(&["new", "Build the \"API\"", "--test-command", "npm test"]).expect(0);
    first.says("wrote .ralph/ralph-1: plan.md, progress.md, errors.log");
    first.says("ralph-orchestrator go ralph-1");
    env.ralph(&["new", "Document it\n\nAll of it.", "--max-iterations", "3"])
        .expect(0)
        .says("first: write the command that proves the work done, after `test_command:`");
    let plan = "---\ntask: \"Build the \\\"API\\\"\"\ntest_command: \"npm test\"\n\
                max_iterations: # 15, unless ralph.toml says another number\n---\n\n\
                # Build the \"API\"\n\n## Criteria\n\n\
                <!-- One line for each thing that has to hold when the task is complete. -->\n\n\
                - [ ] Build the \"API\"\n- [ ] `npm test` passes\n\n## Memory\n\n\
                - `.ralph/ralph-1/progress.md`: what was done\n\
                - `.ralph/ralph-1/errors.log`: what failed\n";
    let tree = tree(&env);
    let named =
        |name: &str| tree.iter().find(|(path, _)| path == name).map(|(_, text)| text.as_str());
    assert_eq!(named(".ralph/ralph-1/plan.md"), Some(plan));
    assert_eq!(named(".ralph/ralph-1/progress.md"), Some("# Progress\n"));
    assert_eq!(named(".ralph/ralph-1/errors.log"), Some(""));
    let second = named(".ralph/ralph-2/plan.md").unwrap();
    assert!(second.contains("task: \"Document it\\n\\nAll of it.\"\n"), "{second}");
    assert!(second.contains("\ntest_command:\nmax_iterations: 3\n---\n"), "{second}");
    assert!(
        second.contains("# Document it\n\nDocument it\n\nAll of it.\n\n## Criteria"),
        "{second}"
    );
    assert_eq!(tree.len(), 6, "{tree:?}");
    env.write("ralph.toml", "[[validator]]\nkind = \"command\"\nprogram = [\"true\"]\n");
    assert!(!env.ralph(&["new", "Release it"]).expect(0).stdout.contains("first:"));
    // The highest number counts, and what is in the way of a name is not overwritten.
    fs::create_dir(env.path(".ralph/ralph-7")).unwrap();
    env.write(".ralph/ralph-8", "a file")
        .write(".ralph/ralph-09/plan.md", "")
        .write(".ralph/other/x", "");
    let json = env.ralph(&["new", "third", "--json"]).expect(0).stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["task"], "ralph-9");
    assert_eq!(json["plan"], env.path(".ralph/ralph-9/plan.md").display().to_string());
    assert_eq!(env.read(".ralph/ralph-8"), "a file");
    // A folder begins to be a task with its plan: one whose maker was killed is none.
    env.ralph(&["go", "7"]).expect(1).says("ralph-9  third");
    for wrong in
        [&["new", " "][..], &["new", "x", "--test-command", ""], &["new", "x", "--task", "1"]]
    {
        env.ralph(wrong).expect(64);
    }
    assert!(!env.path(".ralph/ralph-10").exists());
}

#[test]
fn tasks_that_are_made_at_once_get_numbers_of_their_own() {
    let env = empty();
    let mut running: Vec<_> =
        (0..8).map(|number| env.start(&["new", &format!("task {number}"), "--json"])).collect();
    let ids: BTreeSet<String> = running
        .iter_mut()
        .map(|one| {
            let made: Value = serde_json::from_str(&one.wait().expect(0).stdout).unwrap();
            made["task"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(ids, (1..=8).map(|number| format!("ralph-{number}")).collect());
    let plans: BTreeSet<String> =
        ids.iter().map(|id| env.read(&format!(".ralph/{id}/plan.md"))).collect();
    assert_eq!(plans.len(), 8, "each has the plan of its own");
}

#[test]
fn a_link_in_place_of_the_folder_is_not_followed() {
    let env = empty();
    let outside = env.root().join("outside");
    fs::create_dir_all(outside.join("ralph-1")).unwrap();
    fs::write(outside.join("ralph-1/plan.md"), "---\ntask: theirs\n---\n").unwrap();
    symlink(&outside, env.path(".ralph")).unwrap();
    env.ralph(&["new", "x"]).expect(64).says("no link to one");
    env.ralph(&["go", "1"]).expect(78).says("no link to one");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    fs::remove_file(env.path(".ralph")).unwrap();
    fs::create_dir(env.path(".ralph")).unwrap();
    symlink(outside.join("ralph-1"), env.path(".ralph/ralph-1")).unwrap();
    fs::create_dir(env.path(".ralph/ralph-2")).unwrap();
    symlink(outside.join("ralph-1/plan.md"), env.path(".ralph/ralph-2/plan.md")).unwrap();
    env.ralph(&["go", "1"]).expect(1).says("there is no task 1, nor any other");
    env.ralph(&["new", "x"]).expect(0).says("wrote .ralph/ralph-3");
}

/// A plan names a command that is run.
#[test]
fn another_users_tasks_in_a_folder_above_are_not_taken() {
    let env = empty();
    env.ralph(&["new", "theirs", "--test-command", "touch ran"]).expect(0);
    fs::create_dir(env.path("sub")).unwrap();
    let go = || {
        let mut command = env.command(&["config", "show", "--task", "1"]);
        command.current_dir(env.path("sub")).output().unwrap()
    };
    assert!(go().status.success(), "one's own are");
    if rustix::process::geteuid().is_root() {
        // Only root can give a folder away.
        std::os::unix::fs::chown(env.path(".ralph"), Some(65534), None).unwrap();
        assert_eq!(go().status.code(), Some(1));
    }
}

#[test]
fn go_and_run_name_a_task_in_three_ways() {
    let env = task("");
    env.ralph(&["new", "Another"]).expect(0);
    let plans: Vec<String> = [
        &["go", "1"][..],
        &["go", "ralph-1"],
        &["run", "--task", "1"],
        &["--task", "ralph-1", "run"],
    ]
    .map(|words| env.ralph(&[words, &["--dry-run"]].concat()).expect(0).stdout)
    .to_vec();
    assert!(
        plans.iter().all(|plan| *plan == plans[0] && plan.contains("test -e done")),
        "{plans:?}"
    );
    for unknown in [&["go", "9"][..], &["run", "--task", "ralph-9"], &["status", "--task", "../w"]]
    {
        let ended = env.ralph(unknown).expect(1);
        ended.says("ralph-1  Make a file called done").says("ralph-2  Another");
    }
    env.ralph(&["go", "1", "--task", "2"]).expect(64).says("two tasks are named");
    env.ralph(&["go", "1", "--prompt", "x"]).expect(64).says("leave out --goal and --prompt");
    env.ralph(&["init", "--task", "1"]).expect(64).says("--task has no effect");
    env.ralph(&["go"]).expect(64);
    assert_eq!(env.agent.calls(), 0);
    let env = empty();
    env.ralph(&["go", "1"]).expect(1).says("ralph-orchestrator new");
    env.ralph(&["new", "x"]).expect(0);
    env.ralph(&["run"]).expect(78).says("go TASK");
}

#[test]
fn the_agent_gets_three_questions_and_the_plan_and_the_test_command_decides() {
    let env = task("");
    claims(&env, 1, "COMPLETE: too early");
    env.agent.call(2).script("touch done\nsed -i 's/- \\[ \\]/- [x]/' .ralph/ralph-1/plan.md\n");
    let ended = env.ralph(&["go", "1"]).expect(0);
    for line in ["Iteration 1/15 started", "Iteration 2/15 started", "completed: 2 iterations"] {
        ended.says(line);
    }
    assert_eq!(
        env.agent.calls(),
        2,
        "the claim of the first iteration stands until the check accepts"
    );
    let given = String::from_utf8(env.agent.stdin(1)).unwrap();
    let (role, plan) = given.split_once("\n---\n\n").unwrap();
    for question in
        ["Which criteria of the plan are unchecked?", "What was done last?", "What failed?"]
    {
        assert!(role.contains(question), "{question}: {role}");
    }
    for file in ["progress.md", "errors.log", "git log", "Do ONE thing", "NEEDS_HUMAN: "] {
        assert!(role.contains(file), "{file}: {role}");
    }
    assert!(plan.contains("---\ntask: \"Make a file called done\"\n"), "{plan}");
    let rejected = String::from_utf8(env.agent.stdin(2)).unwrap();
    assert!(rejected.contains("`test -e done` failed"), "{rejected}");
    for toml in [env.read("ralph.toml"), "[limts]\n".to_owned(), env.read("ralph.toml")] {
        env.write("ralph.toml", toml);
        env.ralph(&["go", "1"]).expect(0).says("already completed in 2 iterations");
    }
    let eject = env.ralph(&["prompts", "eject", "coding", "--task", "1"]).expect(0);
    eject.says("prompts/pure-loop.md: written");
    assert!(role.starts_with(env.read("prompts/pure-loop.md").trim_end()), "{role}");
}

#[test]
fn without_any_signal_there_are_exactly_fifteen_iterations_and_status_1() {
    let env = empty();
    env.ralph(&["new", "Never done", "--test-command", "test -e done"]).expect(0);
    let ended = go(&env, &[]).expect(1);
    assert_eq!(env.agent.calls(), 15);
    let lines: Vec<&str> =
        ended.stderr.lines().filter(|line| line.starts_with("Iteration ")).collect();
    assert_eq!(lines.len(), 15, "{lines:?}");
    for (index, line) in lines.iter().enumerate() {
        assert!(line.starts_with(&format!("Iteration {}/15 ", index + 1)), "{line}");
    }
    ended.says("max_iterations");
}

#[test]
fn a_question_ends_with_status_2_and_a_later_go_continues() {
    let env = empty();
    env.ralph(&["new", "Ask first", "--test-command", "test -e done"]).expect(0);
    claims(&env, 2, "NEEDS_HUMAN: which port?");
    go(&env, &[]).expect(2).says("which port?").says("--task 1 answer");
    assert_eq!(env.agent.calls(), 2);
    let status: Value =
        serde_json::from_str(&env.ralph(&["status", "--json", "--task", "1"]).expect(0).stdout)
            .unwrap();
    assert_eq!(status["phase"], "needs_human");
    env.ralph(&["why", "--task", "ralph-1"]).expect(0).says("which port?");
    env.ralph(&["log", "2", "--task", "ralph-1"]).expect(0).says("which port?");
    env.ralph(&["answer", "8080", "--task", "1"]).expect(0).says("--task 1 run` resumes");
    env.agent.call(3).script("touch done\n");
    claims(&env, 3, "COMPLETE: made it");
    env.ralph(&["go", "1"]).expect(0).says("Iteration 3/15");
    assert!(String::from_utf8(env.agent.stdin(3)).unwrap().contains("8080"));
}

#[test]
fn each_task_has_a_run_of_its_own() {
    let env = task("[limits]\nmax_iterations = 1\n");
    env.ralph(&["new", "Make another", "--test-command", "test -e other"]).expect(0);
    env.write("PROMPT.md", "Without any task.\n");
    env.ralph(&["go", "1"]).expect(1);
    env.ralph(&["go", "2"]).expect(1);
    env.ralph(&["run", "--set", "completion.trust_agent=true"]).expect(1);
    let id = |task: &[&str]| {
        let words = [&["status", "--json"], task].concat();
        let status: Value = serde_json::from_str(&env.ralph(&words).expect(0).stdout).unwrap();
        status["run"].as_str().unwrap().to_owned()
    };
    let ids = [id(&["--task", "1"]), id(&["--task", "2"]), id(&[])];
    assert_eq!(BTreeSet::from_iter(&ids).len(), 3, "{ids:?}");
    let runs = env.ralph(&["runs", "--json"]).expect(0).stdout;
    assert!(ids.iter().all(|id| runs.contains(id.as_str())), "{runs}");
    assert!(runs.contains("ralph-2: Make another"), "{runs}");
    env.ralph(&["reset", "--yes", "--task", "2"]).expect(0);
    env.ralph(&["status", "--task", "2"]).expect(0).says("no run of this configuration yet");
    assert_eq!(id(&["--task", "1"]), ids[0]);
    // A state directory that is named has a neighbour for each task.
    let state = env.root().join("state");
    let set = format!("state.dir={}", state.display());
    env.ralph(&["go", "1", "--set", &set]).expect(1);
    assert!(!state.exists() && env.root().join("state-ralph-1/owner.json").exists());
}

#[test]
fn the_plan_comes_after_the_configuration_and_before_the_command_line() {
    let plan = "---\ntask: Do it\ntest_command: test -e plan\nmax_iterations: 3\n---\n# Do it\n";
    let none = "---\ntask: Do it\ntest_command:\n---\n# Do it\n";
    let file = "[limits]\nmax_iterations = 4\n[[validator]]\nkind = \"command\"\nname = \"file\"\n\
                program = [\"test\", \"-e\", \"file\"]\n";
    for (toml, plan, words, iterations, check) in [
        (file, plan, &["--max-iterations", "2", "--check", "test -e flag"][..], 2, "test -e flag"),
        (file, plan, &["--max-iterations", "2"], 2, "test -e plan"),
        (file, plan, &[], 3, "test -e plan"),
        (file, none, &[], 4, "file"),
        ("", plan, &[], 3, "test -e plan"),
        ("", none, &["--check", "test -e flag"], 15, "test -e flag"),
        ("preset = \"ralph\"\n", plan, &["--max-iterations", "5"], 5, "test -e plan"),
    ] {
        let env = TestEnvironment::new();
        env.raw_config(&format!(
            "{toml}[agent]\nadapter = \"command\"\nunmetered = true\n[agent.config]\nprogram = [\"@AGENT@\"]\n"
        ));
        env.write(".ralph/ralph-1/plan.md", plan)
            .write(".ralph/ralph-1/progress.md", "# Progress\n");
        let ended = env.ralph(&[&["go", "1", "--dry-run", "--json"], words].concat()).expect(0);
        let shown: Value = serde_json::from_str(&ended.stdout).unwrap();
        let text = shown.to_string();
        assert!(text.contains(check), "{toml:?} {words:?}: {text}");
        env.agent.default_call().script("echo $n > try\n");
        env.ralph(&[&["go", "1", "--set", "run.delay=0s"], words].concat()).expect(1);
        assert_eq!(env.agent.calls(), iterations, "{toml:?} {words:?}");
    }
}

#[test]
fn config_show_names_the_plan_and_its_line() {
    let mut env = task("");
    let shown = env.ralph(&["config", "show", "--task", "1"]).expect(0).stdout;
    let origin = |key: &str| {
        let row =
            shown.lines().find(|row| row.starts_with(key)).unwrap_or_else(|| panic!("{shown}"));
        row.rsplit_once('#').unwrap().1.trim().to_owned()
    };
    assert!(origin("validator.0.program").ends_with(".ralph/ralph-1/plan.md:3:15"), "{shown}");
    assert!(origin("run.prompt ").ends_with(".ralph/ralph-1/plan.md:1:1"), "{shown}");
    assert!(origin("memory.progress").ends_with(".ralph/ralph-1/plan.md:1:1"), "{shown}");
    assert_eq!(origin("limits.max_iterations"), "preset pure-loop");
    assert_eq!(origin("memory.mode"), "preset pure-loop");
    assert!(origin("agent.adapter").ends_with("ralph.toml:2:11"), "{shown}");
    assert!(!env.ralph(&["config", "show"]).stdout.contains("plan.md"));
    env.ralph(&["config", "check", "--task", "1"]).expect(0);
    env.write(".ralph/ralph-1/plan.md", "---\ntest_command: make\nmax_iterations: 3\n---\n");
    env.var("RALPH_LIMITS__MAX_ITERATIONS", "2");
    let show =
        |more: &[&str]| env.ralph(&[&["config", "show", "--task", "1"], more].concat()).stdout;
    assert!(show(&[]).contains("limits.max_iterations = 2"), "a variable comes after the plan");
    let set = show(&["--set", "limits.max_iterations=1"]);
    assert!(set.contains("limits.max_iterations = 1"), "and the command line after that: {set}");
}

#[test]
fn a_mistake_in_the_front_matter_starts_nothing_and_is_shown_with_its_line() {
    let env = task("");
    for (plan, says) in [
        ("# Plan\n", "plan.md:1:1"),
        ("---\ntask: x\n# Plan\n", "the front matter has no end"),
        ("---\ntask: x\ntests: x\n---\n", "plan.md:3:1"),
        ("---\ntask: x\ntest_comand: x\n---\n", "did you mean `test_command`?"),
        ("---\nmax_iterations: many\n---\n", "plan.md:2:17"),
        ("---\nmax_iterations: 0\n---\n", "1 or more"),
        ("---\ntest_command: true\n---\n", "quote it: \"true\""),
        ("---\ntest_command: [a]\n---\n", "needs quotes"),
        ("---\ntest_command: a\ntest_command: b\n---\n", "plan.md:3:1"),
        ("---\ntest_command: 'test -e a'\ncompletion_promise: '*'\n---\n", "plan.md:3:"),
        ("---\ntask: x\ntest_command:\n---\n", "plan.md:3:1"),
    ] {
        env.write(".ralph/ralph-1/plan.md", plan);
        env.ralph(&["go", "1"]).expect(78).says(says);
        env.ralph(&["config", "check", "--task", "1"]).expect(78).says(says);
    }
    env.write(".ralph/ralph-1/plan.md", b"---\ntask: \xff\n---\n");
    env.ralph(&["go", "1"]).expect(78).says("not UTF-8");
    assert_eq!(env.agent.calls(), 0);
    env.write(".ralph/ralph-1/plan.md", "---\n");
    env.ralph(&["status", "--task", "1"]).expect(0).says("warning: `run` would refuse");
}

#[test]
fn trust_is_written_visibly_or_a_test_command_is_needed() {
    let env = task("[completion]\ntrust_agent = true\n");
    env.write(".ralph/ralph-1/plan.md", "---\ntest_command:\n---\n# Do it\n");
    claims(&env, 1, "COMPLETE: all of it");
    env.ralph(&["go", "1"]).expect(0).says("WITHOUT validation");
    let env = task("");
    env.write(".ralph/ralph-1/plan.md", "---\ntest_command:\n---\n# Do it\n");
    let refused = env.ralph(&["go", "1"]).expect(78);
    refused
        .says("write the command that proves it after `test_command:`")
        .says("trust_agent = true");
}

#[test]
fn a_plan_may_have_a_word_of_its_own_for_completion() {
    let env = empty();
    env.write(
        ".ralph/ralph-1/plan.md",
        "---\ntest_command: test -e done\ncompletion_promise: FINISHED\n---\nMake a file called done.\n",
    );
    claims(&env, 1, "COMPLETE: not the word");
    env.agent.call(2).script("touch done\n");
    claims(&env, 2, "FINISHED: the word");
    go(&env, &[]).expect(0);
    assert_eq!(env.agent.calls(), 2);
}

/// The agent can edit its plan. What proves the work was frozen when the run began.
#[test]
fn a_test_command_that_the_agent_weakens_decides_nothing() {
    let env = empty();
    env.ralph(&["new", "Make it", "--test-command", "test -e done"]).expect(0);
    env.agent.call(1).script("sed -i 's/test -e done/test -e plan-weakened/' .ralph/ralph-1/plan.md\ntouch plan-weakened\n");
    claims(&env, 1, "NEEDS_HUMAN: start me again");
    go(&env, &[]).expect(2);
    claims(&env, 2, "COMPLETE: it is weak now");
    env.agent.call(3).script("touch done\n");
    claims(&env, 3, "COMPLETE: made it");
    env.ralph(&["answer", "so be it", "--task", "1"]).expect(0);
    let ended = env.ralph(&["go", "1"]).expect(0);
    ended.says("were changed in the configuration").says("completed: 3 iterations");
    ended.says("`test -e done` failed");
}

#[test]
fn tasks_are_found_from_a_folder_below_and_without_a_limit_on_iterations_another_one_holds() {
    let env = task("");
    fs::create_dir(env.path("sub")).unwrap();
    let mut below = env.command(&["config", "show", "--task", "1"]);
    let shown = below.current_dir(env.path("sub")).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains(".ralph/ralph-1/plan.md:3:15"), "{shown}");
    let unlimited = "---\ntest_command: test -e done\nmax_iterations: none\n---\n";
    env.write(".ralph/ralph-1/plan.md", unlimited);
    env.ralph(&["config", "check", "--task", "1"]).expect(0);
    let unlimited = ["--set", "limits.max_runtime=none", "--set", "limits.max_cost_usd=none"];
    let refused = env.ralph(&[&["go", "1"], &unlimited[..]].concat()).expect(78);
    refused.says("plan.md:3:17").says("needs `max_runtime` or `max_cost_usd`");
    assert_eq!(env.agent.calls(), 0);
}

#[test]
fn a_backlog_of_the_configuration_is_left_out() {
    let env = task("[backlog]\nkind = \"json\"\npath = \"missing.json\"\n");
    env.agent.call(1).script("touch done\n");
    claims(&env, 1, "COMPLETE: made it");
    env.ralph(&["go", "1"]).expect(0);
    assert_eq!(env.agent.calls(), 1);
}

#[test]
fn an_agent_with_a_command_of_its_own_gets_the_name_of_the_task() {
    let env = TestEnvironment::new();
    env.raw_config(
        "[agent]\nadapter = \"command\"\nunmetered = true\n[agent.config]\nprogram = [\"sh\", \"-c\", \
         '@AGENT@ -p \"/ralph-go $RALPH_TASK\" --output-format text']\n",
    );
    env.ralph(&["new", "Make it", "--test-command", "test -e done"]).expect(0);
    env.agent.call(1).script("touch done\n");
    claims(&env, 1, "COMPLETE: made it");
    env.ralph(&["go", "1"]).expect(0);
    assert_eq!(env.agent.argv(1), ["-p", "/ralph-go ralph-1", "--output-format", "text"]);
}

#[test]
fn more_iterations_than_the_run_began_with_are_reported() {
    let env = task("");
    env.agent
        .call(1)
        .script("sed -i 's/^max_iterations:.*/max_iterations: 99/' .ralph/ralph-1/plan.md\n");
    env.ralph(&["go", "1", "--once"]).expect(0);
    let ended = env.ralph(&["go", "1", "--once"]).expect(0);
    ended
        .says("limits.max_iterations is 99 now (")
        .says("plan.md:4:17); it was 15 at the last start");
    let given = env.ralph(&["go", "1", "--once", "--max-iterations", "15"]).expect(0);
    assert!(!given.stderr.contains("at the last start"), "{}", given.stderr);
}

#[test]
fn it_runs_in_the_background_as_any_run() {
    let env = task("");
    env.agent.call(1).script("touch done\n");
    claims(&env, 1, "COMPLETE: made it");
    let detached = env.ralph(&["go", "1", "--detach"]).expect(0);
    detached.says("ralph-orchestrator --task 1 log --follow");
    eventually("the end of the run", || {
        env.ralph(&["status", "--json", "--task", "1"]).stdout.contains("\"phase\":\"completed\"")
    });
}

/// An agent can delete its plan: what it did is still shown, and the run can be stopped.
#[test]
fn the_run_of_a_task_that_was_deleted_is_still_found() {
    let env = task("");
    let fifo = env.fifo("hang");
    let hang = format!("rm -r .ralph/ralph-1\ntrap 'exit 1' INT TERM\ncat '{}'\n", fifo.display());
    env.agent.call(1).script(&hang);
    let mut running = env.start(&["go", "1"]);
    eventually("the plan is gone", || !env.path(".ralph/ralph-1").exists());
    env.ralph(&["stop", "--task", "1"]).expect(0).says("stopped");
    running.wait().expect(143);
    // The orchestrator has restored it.
    fs::remove_dir_all(env.path(".ralph/ralph-1")).unwrap();
    let status = env.ralph(&["status", "--task", "ralph-1"]).expect(0);
    status.says("interrupted").says("warning: `run` would refuse the configuration");
    env.ralph(&["log", "--task", "ralph-1"]).expect(0).says("iteration 1");
    env.ralph(&["status", "--task", "ralph-2"]).expect(1).says("there is no task ralph-2");
}
