//! `run.setup` prepares the workspace before each iteration; what it changes is nobody's work.

use std::fs;
use std::os::unix::fs::symlink;

use rustix::process::Signal;

use crate::environment::{TestEnvironment, alive, eventually};
use crate::sandbox::kernel_level;

/// An environment whose setup is `init.sh`, and a check that wants a file `done`.
fn environment(more: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    env.raw_config(&format!(
        "[run]\ndelay = \"0s\"\nsetup = [\"./init.sh\", \"two words\"]\n{more}\n\
         [agent]\nadapter = \"command\"\nunmetered = true\n[agent.config]\nprogram = [\"@AGENT@\"]\n\
         [completion]\ninstructions = \"never\"\n\
         [[validator]]\nkind = \"command\"\nname = \"tests\"\n\
         program = [\"sh\", \"-c\", \"echo tests >> ../order; test -e done\"]\n\
         [limits]\nmax_iterations = 3\n"
    ));
    env
}

fn script(env: &TestEnvironment, text: &str) {
    env.write("init.sh", format!("#!/bin/sh\n{text}"));
    env.write_mode("init.sh", 0o755);
}

fn order(env: &TestEnvironment) -> Vec<String> {
    let text = fs::read_to_string(env.root().join("order")).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn it_runs_before_the_baseline_and_before_each_iteration() {
    let env = environment("");
    script(&env, "echo \"$RALPH_ITERATION $1 $SECRET_OF_MINE $(pwd)\" >> ../order\n");
    env.agent.default_call().script("echo agent >> ../order\n");
    let ended = env.run().expect(1);
    let set_up = |n: u32| format!("{n} two words  {}", env.workspace().display());
    let expected = [&*set_up(1), "tests", "agent", &*set_up(2), "agent", &*set_up(3), "agent"];
    assert_eq!(order(&env), expected, "{}", ended.stderr);
    let kinds: Vec<String> = env
        .journal()
        .iter()
        .map(|record| record["kind"].as_str().unwrap().to_owned())
        .filter(|kind| ["setup_started", "setup_finished", "iteration_started"].contains(&&**kind))
        .collect();
    assert_eq!(kinds, ["setup_started", "setup_finished", "iteration_started"].repeat(3));
    for call in 1..=3 {
        assert_eq!(env.agent.stdin(call), env.read("PROMPT.md").into_bytes());
    }
}

/// Neither what is the same each time nor what is another each time keeps a run alive.
#[test]
fn what_it_changes_is_no_progress_and_no_change_of_the_iteration() {
    let env = environment("");
    let config = env.read("ralph.toml").replace("max_iterations = 3", "max_stagnant = 2");
    env.write("ralph.toml", config);
    script(&env, "echo same > same; date +%s%N > other\n");
    env.agent.default_call().script("true\n");
    env.run().expect(1);
    assert_eq!(env.status()["stop_reason"], "stagnation");
    assert_eq!(env.agent.calls(), 2);
    for observed in env.records("observed") {
        assert_eq!(observed["changes"]["files"].as_u64().unwrap_or(0), 0, "{observed}");
    }
    // What the agent itself changes still counts.
    env.agent.default_call().script("echo x >> mine\n");
    env.ralph(&["run", "--restart", "--max-iterations", "2"]).expect(1);
    assert_eq!(env.status()["stop_reason"], "max_iterations");
    let changes = env.records("observed").last().unwrap()["changes"].clone();
    assert_eq!((&changes["files"], &changes["paths"][0]["path"]), (&1.into(), &"mine".into()));
}

#[test]
fn its_failure_is_given_to_the_agent_and_is_no_failure_of_the_agent() {
    let mut env = environment("");
    let config = env
        .read("ralph.toml")
        .replace("max_iterations = 3", "max_iterations = 3\nmax_failures = 1");
    env.write("ralph.toml", format!("{config}[env]\npass = [\"MY_TOKEN\"]\n"));
    env.var("MY_TOKEN", "s3cr3t-of-the-user");
    script(&env, "test -e mended && exit 0\necho out; echo \"err $MY_TOKEN\" >&2; exit 3\n");
    env.agent.call(2).script("touch mended\n");
    let ended = env.run().expect(1);
    ended.says("warning: setup: `./init.sh 'two words'` failed: ended with exit 3");
    assert_eq!(env.status()["stop_reason"], "max_iterations");
    let given = |call| String::from_utf8(env.agent.stdin(call)).unwrap();
    let prompt = env.read("PROMPT.md");
    for call in [1, 2] {
        let feedback = given(call);
        for part in [
            "The setup of the workspace failed:",
            "exit 3",
            "    out\n",
            "    err ***",
            "---\n\n# Task",
        ] {
            assert!(feedback.contains(part), "expected {part:?} in {feedback}");
        }
    }
    assert_eq!(given(3), prompt, "it was mended");
    let problems: Vec<bool> =
        env.records("setup_finished").iter().map(|end| end["problem"].is_string()).collect();
    assert_eq!(problems, [true, true, false]);
    let journal = fs::read_to_string(env.journal_path()).unwrap();
    assert!(!journal.contains("s3cr3t"), "{journal}");
    env.ralph(&["log"]).expect(0).says("setup before iteration 2 failed: ");
    let why = env.ralph(&["why"]).expect(0);
    why.says("setup failed: `./init.sh 'two words'` failed: ended with exit 3");
    assert!(!why.stdout.contains("fix the setup"), "it was mended: {}", why.stdout);
    let why: serde_json::Value =
        serde_json::from_str(&env.ralph(&["why", "--json"]).expect(0).stdout).unwrap();
    let failures: Vec<bool> = why["iterations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|iteration| iteration["setup_problem"].is_string())
        .collect();
    assert_eq!(failures, [true, true, false]);
    assert!(env.records("iteration_ended").iter().all(|end| end["outcome"]["class"].is_null()));
}

#[test]
fn one_that_takes_too_long_is_ended_with_all_its_processes() {
    let env = environment("setup_timeout = \"500ms\"");
    script(&env, "echo before; sleep 1000 & echo $! > ../pid; wait\n");
    env.ralph(&["run", "--once"]).expect(0).says("timed out");
    let pid: i32 = fs::read_to_string(env.root().join("pid")).unwrap().trim().parse().unwrap();
    assert!(!alive(pid));
    let given = String::from_utf8(env.agent.stdin(1)).unwrap();
    assert!(given.contains("timed out after") && given.contains("    before"), "{given}");
    // The limit of the whole run holds for it as well.
    script(&env, "sleep 1000\n");
    let config = env.read("ralph.toml").replace("500ms", "none");
    env.write("ralph.toml", config);
    let calls = env.agent.calls();
    env.ralph(&["run", "--restart", "--max-runtime", "2s"]).expect(1);
    assert_eq!(
        (env.status()["stop_reason"].as_str(), env.agent.calls()),
        (Some("max_runtime"), calls)
    );
}

#[test]
fn a_setup_that_fails_to_the_end_is_named_among_what_to_do() {
    let env = environment("");
    script(&env, "echo no database >&2; exit 7\n");
    env.run().expect(1);
    let why = env.ralph(&["why"]).expect(0).stdout.replace("\n    ", " ");
    assert!(why.contains("fix the setup (`run.setup`), which failed: `./init.sh"), "{why}");
    assert!(why.contains("1–3") && why.contains("exit 7"), "{why}");
}

#[test]
fn it_is_skipped_until_the_file_is_made() {
    let env = environment("[validation]\nexplain = \"0s\"");
    env.agent.call(1).script(
        "printf '#!/bin/sh\\necho ran >> ../order\\n' > init.sh; chmod +x init.sh; touch made\n",
    );
    env.agent.call(2).script("touch done\n").out("<promise>COMPLETE: it is</promise>\n");
    env.ralph(&["run", "--dry-run"]).expect(0).says("skipped until ./init.sh exists");
    env.ralph(&["doctor"]).says("./init.sh does not exist, and there is no [initializer]");
    env.run().expect(0);
    assert_eq!(order(&env), ["tests", "ran", "tests", "tests"]);
    assert_eq!(env.records("setup_started").len(), 1);
    env.ralph(&["run", "--dry-run", "--restart"])
        .expect(0)
        .says("`./init.sh 'two words'` before each");
}

#[test]
fn a_stop_ends_it_and_the_next_start_runs_it_again() {
    let env = environment("");
    let fifo = env.fifo("begun");
    script(
        &env,
        &format!(
            "[ -e ../again ] || {{ touch ../again; echo x > '{}'; sleep 1000 & wait; }}\n",
            fifo.display()
        ),
    );
    let mut running = env.start(&["run"]);
    fs::read(&fifo).unwrap();
    running.signal(Signal::INT);
    running.wait().expect(130).says("ending the setup");
    assert_eq!((env.agent.calls(), env.status()["stop_reason"].as_str()), (0, Some("interrupted")));
    env.agent.default_call().script("touch done\n").out("<promise>COMPLETE: it is</promise>\n");
    env.run().expect(0);
    assert_eq!((env.records("setup_started").len(), env.records("setup_finished").len()), (2, 1));
}

/// What it had changed when it was killed is no progress of the iteration before.
#[test]
fn killed_in_the_middle_it_is_run_again_and_its_work_stays_its_own() {
    let env = environment("");
    let fifo = env.fifo("begun");
    script(
        &env,
        &format!(
            "echo $RALPH_ITERATION >> grows\n[ \"$RALPH_ITERATION\" = 2 ] && [ ! -e ../again ] || exit 0\n\
         touch ../again; echo x > '{}'; sleep 1000 & wait\n",
            fifo.display()
        ),
    );
    let mut running = env.start(&["run"]);
    fs::read(&fifo).unwrap();
    let stagnant = env.status()["stagnant"].clone();
    running.signal(Signal::KILL);
    running.wait();
    env.ralph(&["run", "--once"]).expect(0);
    assert_eq!(env.read("grows"), "1\n2\n2\n");
    assert_eq!(env.agent.calls(), 2);
    let observed = env.records("observed");
    let tree = |at: usize| observed[at]["tree"].clone();
    assert_ne!(tree(1), tree(2), "it was cut off in between");
    let stagnant_then = env.status()["stagnant"].clone();
    assert!(stagnant_then.as_u64() > stagnant.as_u64(), "{stagnant_then} after {stagnant}");
}

#[test]
fn what_can_never_run_is_refused_and_what_the_agent_broke_is_reported() {
    for (words, says) in [
        ("[\"no-such-program-here\"]", "is not in PATH"),
        ("[\"/nowhere/init.sh\"]", "does not exist"),
        ("[\"../init.sh\"]", "does not exist"),
        ("[\"\"]", "name or path of a program"),
        ("\"./init.sh\"", "[\"./init.sh\"]"),
    ] {
        let env = environment("");
        let config = env.read("ralph.toml").replace("[\"./init.sh\", \"two words\"]", words);
        env.write("ralph.toml", config);
        env.run().expect(78).says(says).says("run.setup");
        env.ralph(&["doctor"]).expect(78).says(says);
        assert_eq!(env.agent.calls(), 0);
    }
    let env = environment("");
    env.write("init.sh", "#!/bin/sh\n");
    env.ralph(&["run", "--once"]).expect(0).says("chmod +x");
    fs::remove_file(env.path("init.sh")).unwrap();
    fs::create_dir(env.path("init.sh")).unwrap();
    env.ralph(&["run", "--once"]).expect(0).says("warning: setup: ");
    fs::remove_dir(env.path("init.sh")).unwrap();
    symlink("nowhere", env.path("init.sh")).unwrap();
    // It is gone, and so is what was said of it.
    env.ralph(&["run", "--once"]).expect(1);
    assert_eq!(env.agent.stdin(3), env.read("PROMPT.md").into_bytes());
    eventually("nothing", || env.agent.calls() == 3);
}

/// Agents can write what it runs: it may do no more than they.
#[test]
fn it_is_confined_as_agents_are() {
    if kernel_level() < 3 {
        return;
    }
    let env = environment("");
    let (root, config) = (env.root().display().to_string(), env.read("ralph.toml"));
    env.write(
        "ralph.toml",
        format!("{config}[sandbox]\nmode = \"landlock\"\nwrite = [\"{root}/agent\"]\n"),
    );
    fs::create_dir(env.root().join("outside")).unwrap();
    script(
        &env,
        "try() { name=$1; shift; if sh -c \"$*\" 2>/dev/null; then echo \"$name yes\"; else echo \"$name no\"; fi >> tries; }\n\
         try inside 'echo x > made'\ntry outside 'echo x > ../outside/file'\n\
         try temporary 'echo x > \"$TMPDIR/file\"'\ntry state 'ls ../home/.local/state/*/*'\n",
    );
    env.ralph(&["run", "--once"]);
    assert_eq!(env.agent.calls(), 1);
    assert_eq!(env.read("tries"), "inside yes\noutside no\ntemporary yes\nstate no\n");
}
