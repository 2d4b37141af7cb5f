//! What a run is, is decided where its agent cannot write: an agent has changed, moved, planted or removed the
//! configuration, and a person types the next command.

use std::fs;

use serde_json::Value;

use crate::environment::{Ended, TestEnvironment, tested_program};
use crate::sandbox::kernel_level;
use crate::screen::Screen;

pub(crate) const DONE: &str = "<promise>COMPLETE: made it</promise>\n";

/// An environment in which changes are asked for, as they are by default.
pub(crate) fn asking() -> TestEnvironment {
    let mut env = TestEnvironment::new();
    env.unset("RALPH_TRUST");
    env
}

/// The same after a run that is not done, in whose only iteration the agent ran this script.
pub(crate) fn after_work(script: &str) -> TestEnvironment {
    let env = asking();
    env.config("[limits]\nmax_iterations = 1\n");
    env.agent.default_call().script(script).out("hm\n");
    env.run().expect(1);
    env
}

pub(crate) fn edit(env: &TestEnvironment, from: &str, to: &str) {
    let text = env.read("ralph.toml");
    assert!(text.contains(from), "{text}");
    env.write("ralph.toml", text.replace(from, to));
}

#[test]
fn a_completion_stays_whatever_its_agent_made_of_the_configuration() {
    for script in [
        "printf '[state]\\ndir = \"../elsewhere\"\\n' >> ralph.toml",
        "echo other > P2.md; sed -i 's/delay/prompt = \"P2.md\"\\ndelay/' ralph.toml",
        "mkdir sub; sed -i 's/delay/workspace = \"sub\"\\ndelay/' ralph.toml",
        "echo '- [ ] a' > plan.md; printf '[backlog]\\nkind = \"plan-md\"\\npath = \"plan.md\"\\n' >> ralph.toml",
        "echo '[[[' >> ralph.toml",
        "rm ralph.toml",
        "cp ralph.toml x.toml; rm ralph.toml; ln -s x.toml ralph.toml",
        "mkdir -p ../other; mv ralph.toml ../other; ln -s ../other/ralph.toml ralph.toml",
    ] {
        let env = asking();
        env.agent.default_call().script(&format!("touch done\n{script}\n")).out(DONE);
        env.run().expect(0);
        env.run().expect(0).says("already completed");
        env.ralph(&["status"]).expect(0).says("completed");
        assert_eq!(env.agent.calls(), 1, "{script}");
    }
}

#[test]
fn a_link_in_the_place_of_a_folder_leads_to_no_other_configuration() {
    let env = asking();
    let text = env.read("ralph.toml").replacen(
        "delay",
        "workspace = \"..\"\nprompt = \"../PROMPT.md\"\ndelay",
        1,
    );
    fs::remove_file(env.path("ralph.toml")).unwrap();
    env.write("ci/conf/r.toml", text.replace("..", "../.."));
    env.write("old/conf/r.toml", text.replace("..", "../..").replace("test", "true"));
    env.agent.default_call().script("touch done; mv ci ci.o; ln -s old ci\n").out(DONE);
    let command = |args: &[&str]| env.ralph(&[&["-c", "ci/conf/r.toml"], args].concat());
    command(&["run"]).expect(0);
    command(&["status"]).expect(0).says("completed");
    command(&["run"]).expect(0).says("already completed");
    for (args, status) in [(&["verify"][..], 78), (&["doctor"], 0), (&["run", "--restart"], 78)] {
        command(args).expect(status).says("ci is a link to old, which an agent could have made");
    }
    assert_eq!(env.agent.calls(), 1);
    command(&["trust"]).expect(0).says("accepted").says("ci is a link to old");
    command(&["verify"]).expect(0);
}

#[test]
fn the_users_own_configuration_is_not_led_elsewhere_by_a_folder() {
    let env = asking();
    let folder = env.root().join("home/.config/ralph-orchestrator");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.toml"), "[limits]\nmax_iterations = 1\n").unwrap();
    env.agent.default_call().script(
        "cd ~/.config; mkdir evil; echo 'trust = \"always\"' > evil/config.toml\n\
         mv ralph-orchestrator away; ln -s evil ralph-orchestrator\n",
    );
    env.run().expect(1);
    env.run().expect(78).says("ralph-orchestrator is a link to evil");
    assert_eq!(env.agent.calls(), 1);
}

#[test]
fn a_deleted_configuration_gives_way_to_none_above_it() {
    let env = asking();
    let above = env.root().join("ralph.toml");
    fs::write(&above, env.read("ralph.toml").replace("test", "true")).unwrap();
    env.agent.default_call().script("touch done; rm -f ralph.toml\n").out(DONE);
    env.run().expect(0);
    env.run().expect(0).says("already completed").says("ralph.toml is gone");
    env.ralph(&["status"]).expect(0).says("completed");
    assert_eq!(env.agent.calls(), 1);
    env.ralph(&["reset", "--yes"]).expect(0);
    env.ralph(&["status"]).expect(78).says("is gone, which an agent could have deleted");
    env.ralph(&["trust", "ralph.toml"]).expect(0).says("is gone");
    env.ralph(&["status"]).expect(78).says(&format!("using {}", above.display()));
}

#[test]
fn what_an_agent_is_given_lies_beyond_no_link_of_an_agent() {
    let secret = |env: &TestEnvironment| {
        let secret = env.root().join("secret");
        fs::create_dir(&secret).unwrap();
        fs::write(secret.join("PROMPT.md"), "nobody's business\n").unwrap();
        secret.display().to_string()
    };
    for (keys, place, status, says) in [
        ("workspace = \"sub\"", "sub", 65, "leads over the link"),
        ("prompt = \"sub/PROMPT.md\"", "sub", 65, "that an agent could have made"),
        ("workspace = \"made\"\ntemplate = \"sub\"", "sub", 65, "leads over the link"),
    ] {
        let env = asking();
        let text = env.read("ralph.toml");
        env.write("sub/PROMPT.md", "# Task\n");
        env.write("b.toml", text.replacen("delay", &format!("{keys}\ndelay"), 1));
        let secret = secret(&env);
        let script = format!("touch done; mv {place} away; ln -s '{secret}' {place}\n");
        env.agent.default_call().script(&script).out(DONE);
        env.run().expect(0);
        env.ralph(&["-c", "b.toml", "run"]).expect(status).says(says);
        assert_eq!(env.agent.calls(), 1, "{keys}");
        assert!(!env.path("made").exists());
    }
}

#[test]
fn limits_do_not_begin_anew_with_a_link_to_a_copy_of_the_configuration() {
    let script = "n=$RANDOM.toml; cp -L ralph.toml $n; rm ralph.toml; ln -s $n ralph.toml";
    let env = after_work(script);
    env.run().expect(1).says("max_iterations");
    assert_eq!(env.agent.calls(), 1);
}

#[test]
fn a_change_is_obeyed_once_a_person_has_accepted_it() {
    let env = after_work("");
    edit(&env, "max_iterations = 1", "max_iterations = 2");
    let refused = env.run().expect(78);
    refused.says("limits.max_iterations = 2 (was 1)").says("ralph-orchestrator trust");
    assert_eq!(env.agent.calls(), 1);
    env.ralph(&["trust"]).expect(0).says("limits.max_iterations = 2 (was 1)").says("accepted");
    env.run().expect(1);
    assert_eq!(env.agent.calls(), 2);
    env.ralph(&["trust"]).expect(0).says("nothing to accept");
    // What was accepted once is not asked for again, and comments say nothing.
    edit(&env, "max_iterations = 2", "max_iterations = 1 # as before");
    env.run().expect(1);
    // As long as no agent works, a person may edit as often as they like.
    for most in ["3", "4", "5"] {
        env.write("ralph.toml", env.read("ralph.toml").replace("delay", "# x\ndelay"));
        if most == "3" {
            edit(&env, "max_iterations = 1", "max_iterations = 3");
            env.ralph(&["trust"]).expect(0);
        }
    }
    env.run().expect(1);
    assert_eq!(env.agent.calls(), 3);
}

#[test]
fn what_a_command_line_replaces_is_not_accepted_with_it() {
    let most = ("max_iterations = 1", "max_iterations = 9");
    let check = ("[\"test\", \"-e\", \"done\"]", "[\"touch\", \"ran\"]");
    let setup = ("delay = \"0s\"", "delay = \"0s\"\nsetup = [\"touch\", \"ran\"]");
    for ((from, to), args, variable) in [
        (most, &["run", "--set", "limits.max_iterations=1"][..], None),
        (most, &["run", "--max-iterations", "1"], None),
        (most, &["verify", "--set", "limits.max_iterations=1"], None),
        (most, &["run"], Some(("RALPH_LIMITS__MAX_ITERATIONS", "1"))),
        (check, &["run", "--check", "test -e done"], None),
        (setup, &["verify", "--set", "run.setup=[\"true\"]"], None),
        (setup, &["run", "--set", "run.setup=[\"true\"]"], None),
    ] {
        let mut env = after_work("");
        edit(&env, from, to);
        if let Some((name, value)) = variable {
            env.var(name, value);
        }
        env.ralph(args).expect(78).says("ralph-orchestrator trust");
        if let Some((name, _)) = variable {
            env.unset(name);
        }
        for args in [&["run"][..], &["verify"]] {
            env.ralph(args).expect(78);
        }
        assert!(!env.path("ran").exists() && env.agent.calls() == 1, "{args:?}");
    }
    let env = after_work("");
    let program = env.agent.program().display().to_string();
    edit(&env, &format!("program = [\"{program}\"]"), "program = [\"touch\", \"ran\"]");
    env.ralph(&["run", "--max-iterations", "1", "--", &program]).expect(78);
    env.run().expect(78);
    assert!(!env.path("ran").exists());
}

#[test]
fn what_a_person_accepts_as_it_is_may_be_edited_until_an_agent_works_again() {
    let env = after_work("");
    env.ralph(&["trust"]).expect(0).says("nothing to accept");
    edit(&env, "max_iterations = 1", "max_iterations = 2");
    env.run().expect(1);
    assert_eq!(env.agent.calls(), 2);
}

#[test]
fn a_change_is_shown_against_the_nearest_version_and_a_mistake_before_it() {
    let env = after_work("");
    let first = env.read("ralph.toml");
    edit(&env, "max_iterations = 1", "max_iterations = 1\nmax_cost_usd = 10.0");
    env.ralph(&["trust"]).expect(0);
    env.ralph(&["run", "--max-iterations", "2"]).expect(1);
    env.write("ralph.toml", first.replace("delay = \"0s\"", "delay = \"1s\""));
    let refused = env.run().expect(78);
    refused.says("run.delay = \"1s\" (was \"0s\")");
    assert!(!refused.stderr.contains("max_cost_usd"), "{}", refused.stderr);
    env.write("ralph.toml", first.replace("kind = \"command\"", "kind = \"comand\""));
    let refused = env.run().expect(78);
    refused.says("there is no validator called");
    assert!(!refused.stderr.contains("orchestrator trust"), "{}", refused.stderr);
}

#[test]
fn what_only_tightens_is_obeyed_at_once() {
    let env = asking();
    env.config("[limits]\nmax_iterations = 3\n");
    env.agent.default_call().script("date > $n\n").out("hm\n");
    env.ralph(&["run", "--once"]).expect(0);
    edit(&env, "max_iterations = 3", "max_iterations = 2");
    env.run().expect(1).says("stricter than what was accepted: limits.max_iterations = 2 (was 3)");
    assert_eq!(env.agent.calls(), 2);
}

#[test]
fn a_person_at_a_terminal_is_asked_and_shown_what_differs() {
    let env = after_work("");
    edit(&env, "max_iterations = 1", "max_iterations = 2");
    for (answer, calls) in [(b"n\r", 1), (b"y\r", 2)] {
        let mut screen = Screen::start(&env, &["run", "--plain"], 100, "xterm");
        screen.shows("limits.max_iterations = 2 (was 1)");
        screen.shows("accept this?");
        screen.press(answer);
        screen.wait();
        assert_eq!(env.agent.calls(), calls);
    }
}

#[test]
fn nothing_that_starts_something_is_hidden_behind_other_changes() {
    let env = after_work("");
    let first = env.read("ralph.toml");
    let decoy = |i: usize| format!("[agents.a{i}]\nadapter = \"command\"\n");
    let decoys: String = (0..40).map(decoy).collect();
    let with_check = |words: usize| {
        let text = format!("test -f never{}; evil", " or never".repeat(words));
        let check =
            format!("kind = \"command\"\nname = \"z\"\nprogram = [\"sh\", \"-c\", \"{text}\"]");
        format!("{first}\n{decoys}\n[[validator]]\n{check}\n")
    };
    env.write("ralph.toml", with_check(500));
    let refused = env.run().expect(78);
    refused.says("; evil\"]").says("changes: read all of them").says("agents.a39.adapter");
    env.write("ralph.toml", with_check(2000));
    env.ralph(&["trust"]).expect(78).says("too long to be shown");
    env.run().expect(78);
    assert_eq!(env.agent.calls(), 1);
}

/// A second configuration, of a run in a folder of the workspace, after the agent of the first one has worked there in
/// the sandbox by this script; `None` where there is none.
fn beside_other_run(prepare: fn(&mut TestEnvironment), script: &str) -> Option<TestEnvironment> {
    if kernel_level() < 3 {
        return None;
    }
    let mut env = asking();
    let root = env.root().display().to_string();
    env.config(&format!(
        "[sandbox]\nmode = \"landlock\"\nwrite = [\"{root}/agent\"]\n[limits]\nmax_iterations = 1\n"
    ));
    let run = "workspace = \"sub\"\nprompt = \"sub/PROMPT.md\"\ndelay";
    env.write("b.toml", env.read("ralph.toml").replacen("delay", run, 1));
    env.write("sub/PROMPT.md", "# Task\n").write("data/f", "").write("tell.sh", "#!/bin/sh\n");
    env.write_mode("tell.sh", 0o755);
    fs::create_dir(env.root().join("secret")).unwrap();
    fs::write(env.root().join("secret/f"), "").unwrap();
    prepare(&mut env);
    env.agent.call(1).script(&script.replace("@ROOT", &root)).out("hm\n");
    env.agent.default_call().out("hm\n");
    env.run().expect(1);
    Some(env)
}

#[test]
fn what_a_sandbox_opens_lies_beyond_no_link_of_another_run_s_agent() {
    type Prepare = fn(&mut TestEnvironment);
    let cases: [Prepare; 4] = [
        |env| {
            let text = env.read("b.toml");
            env.write("b.toml", text.replace("write = [", "read = [\"data\"]\nwrite = ["));
        },
        |env| {
            let text = env.read("b.toml");
            env.write("b.toml", text.replace("write = [", "write = [\"data\", "));
        },
        |env| {
            let text = env.read("b.toml");
            env.write("b.toml", text.replace("[agent]\n", "[agent]\ninputs = [\"data/f\"]\n"));
        },
        |env| {
            let data = env.path("data").display().to_string();
            env.var("CLAUDE_CONFIG_DIR", &data);
        },
    ];
    for prepare in cases {
        let script = "mv data away; ln -s '@ROOT/secret' data\n";
        let Some(env) = beside_other_run(prepare, script) else { return };
        let run = |status: i32| env.ralph(&["-c", "b.toml", "run"]).expect(status);
        run(78).says("data is a link to").says("nothing was started");
        assert_eq!(env.agent.calls(), 1);
        env.ralph(&["trust", "data"]).expect(0);
        run(1);
        assert_eq!(env.agent.calls(), 2);
    }
}

#[test]
fn what_another_run_s_agent_can_write_does_not_run_with_the_user_s_rights() {
    let prepare = |env: &mut TestEnvironment| {
        crate::git::init(env);
        let more = "[git]\ncommit = \"iteration\"\n[[notify]]\nkind = \"command\"\n\
                    command = [\"./tell.sh\"]\non = [\"started\", \"stopped\"]\n";
        env.write("b.toml", format!("{}\n{more}", env.read("b.toml")));
        let bin = env.path("bin").display().to_string();
        fs::create_dir(env.path("bin")).unwrap();
        let path = std::env::var("PATH").unwrap();
        env.var("PATH", &format!("{bin}:{path}"));
    };
    let script =
        "printf '#!/bin/sh\\n: > @ROOT/hit\\n' > tell.sh; cp tell.sh bin/git; chmod +x bin/git\n";
    let Some(env) = beside_other_run(prepare, script) else { return };
    for command in ["run", "doctor", "diff"] {
        env.ralph(&["-c", "b.toml", command]);
        assert!(!env.root().join("hit").exists(), "{command}");
    }
    assert_eq!(env.agent.calls(), 2);
    let text = env.read("b.toml");
    env.write("b.toml", format!("{text}\n[state]\ndir = \"st\"\n"));
    env.ralph(&["-c", "b.toml", "trust"]).expect(0);
    env.ralph(&["-c", "b.toml", "run"]).expect(78).says("where agents of another run");
}

#[test]
fn a_pipe_in_the_place_of_the_repository_holds_nothing_up() {
    let Some(env) = beside_other_run(|env| crate::git::init(env), "rm -rf .git; mkfifo .git\n")
    else {
        return;
    };
    for (command, status) in [("doctor", 1), ("run", 1), ("verify", 1)] {
        env.ralph(&[command]).expect(status);
    }
}

#[test]
fn a_look_obeys_what_is_stricter_and_asks_for_the_rest_at_a_terminal() {
    let env = asking();
    env.config("[limits]\nmax_iterations = 9\n");
    env.agent.default_call().out("hm\n");
    env.ralph(&["run", "--once"]).expect(0);
    edit(&env, "max_iterations = 9", "max_iterations = 8");
    env.ralph(&["run", "--dry-run"]).expect(0).says("iterations 8");
    env.ralph(&["doctor"]).expect(0);
    env.ralph(&["run", "--once"]).expect(0).says("stricter than what was accepted");
    edit(&env, "max_iterations = 8", "max_iterations = 10");
    env.ralph(&["doctor"]).expect(78).says("max_iterations = 10 (was 8)");
    let mut screen = Screen::start(&env, &["run", "--dry-run"], 100, "xterm");
    screen.shows("max_iterations = 10 (was 8)");
    screen.press(b"y\n");
    assert_eq!(screen.wait(), Some(0));
    env.ralph(&["doctor"]).expect(0);
}

#[test]
fn a_file_that_appears_is_no_configuration() {
    let planted = "[completion]\\nbaseline = \"warn\"\\n[env]\\nset = { PATH = \"/nowhere\" }\\n";
    let env = asking();
    fs::remove_file(env.path("ralph.toml")).unwrap();
    env.agent
        .default_call()
        .script(&format!("date > x; printf '{planted}' > ralph.toml\n"))
        .out("hm\n");
    let agent = env.agent.program().display().to_string();
    let goal = [
        "run",
        "--goal",
        "make done",
        "--check",
        "test -e done",
        "--max-iterations",
        "1",
        "--",
        &agent,
    ];
    env.ralph(&goal).expect(1);
    env.ralph(&goal).expect(1).says("is not used").says("max_iterations");
    assert_eq!(env.agent.calls(), 1);
    // A command without the task finds the run of this folder, and names the file.
    env.ralph(&["status"]).expect(0).says("1 of 1").says("is not used");
    env.ralph(&["trust"]).expect(0).says("appeared where an agent could write it");
    env.ralph(&["config", "check"]).expect(78);
}

#[test]
fn a_file_below_a_known_workspace_is_not_another_run() {
    let planted = "[run]\\nprompt = \"../PROMPT.md\"\\n[completion]\\ntrust_agent = true\\n";
    let env = after_work(&format!("mkdir sub; printf '{planted}' > sub/ralph.toml"));
    let within = |args: &[&str]| -> Ended {
        let mut command = env.command(args);
        command.current_dir(env.path("sub"));
        let output = command.output().unwrap();
        Ended {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    };
    let shown = within(&["status", "--json"]).expect(0);
    assert_eq!(serde_json::from_str::<Value>(&shown.stdout).unwrap()["iterations"], 1);
    shown.says("sub/ralph.toml appeared");
    // Nobody who stands in the folder of a file of its own works on another by mistake.
    let file = env.path("sub/ralph.toml").display().to_string();
    let other = format!("-c {}", env.path("ralph.toml").display());
    let looks = [&["doctor"][..], &["run", "--dry-run"]];
    for args in [&["run"][..], &["run", "--check", "true"], &["verify"]].into_iter().chain(looks) {
        within(args).expect(78).says(&format!("trust {file}")).says(&other);
    }
    within(&["steer", "x"]).expect(78).says(&other);
    within(&["stop"]).expect(0).says("sub/ralph.toml appeared").says("no run is active");
    within(&["pause"]).expect(0).says("sub/ralph.toml appeared");
    env.ralph(&["status"]).expect(0).says("pause requested");
    let mut screen = Screen::start_in(&env, &env.path("sub"), &["run", "--plain"], 200, "xterm");
    screen.shows("sub/ralph.toml appeared");
    screen.shows("accept this?");
    screen.press(b"n\r");
    assert_eq!(screen.wait(), Some(78));
    assert_eq!(env.agent.calls(), 1);
}

#[test]
fn a_planted_configuration_changes_nothing_of_a_task() {
    let env = asking();
    let agent = env.agent.program().display().to_string();
    fs::remove_file(env.path("ralph.toml")).unwrap();
    env.ralph(&["new", "make done", "--test-command", "test -e done"]).expect(0);
    env.agent
        .default_call()
        .script(
            "printf '[completion]\\ntrust_agent = true\\nbaseline = \"warn\"\\n' > ralph.toml\n",
        )
        .out("hm\n");
    let go = ["go", "1", "--max-iterations", "1", "--", &agent];
    env.ralph(&go).expect(1);
    env.ralph(&go).expect(1).says("is not used");
    assert_eq!(env.agent.calls(), 1);
    // What a plan says of the configuration is a file of the agent's, too.
    let plan = ".ralph/ralph-1/plan.md";
    env.write(plan, env.read(plan).replace("test -e done", "true"));
    env.ralph(&go).expect(78).says("plan.md was changed");
}

#[test]
fn looking_starts_no_program_of_a_file_that_is_not_accepted() {
    let script = r#"printf '[plugins.x]\ncommand = ["sh", "-c", "touch ran; exec cat"]\n[backlog]\nkind = "x"\npath = "b"\n' >> ralph.toml; echo > b"#;
    let env = after_work(script);
    for args in [
        &["status"][..],
        &["next"],
        &["log"],
        &["why"],
        &["runs"],
        &["diff", "0"],
        &["config", "check"],
        &["config", "show"],
        &["agents"],
        &["doctor"],
        &["plugin", "list"],
        &["plugin", "check", "x"],
        &["plugin", "doc", "x"],
        &["plugin", "run", "x", "-p", "y"],
        &["run", "--dry-run"],
        &["run"],
        &["verify"],
        &["notify"],
    ] {
        env.ralph(args);
        assert!(!env.path("ran").exists(), "{args:?}");
    }
    env.ralph(&["status"])
        .expect(0)
        .says("was changed where an agent could write it; this is its run");
}

#[test]
fn what_an_agent_deletes_of_the_record_makes_nothing_obeyed() {
    for script in [
        "rm \"$HOME\"/.local/state/ralph-orchestrator/.trust/folder*",
        "rm -r \"$HOME\"/.local/state/ralph-orchestrator/.trust",
    ] {
        let env = after_work(&format!("{script}; sed -i 's/ = 1/ = 9/' ralph.toml"));
        env.run().says("ralph.toml");
        assert_eq!(env.agent.calls(), 1, "{script}");
    }
}

#[test]
fn what_an_agent_writes_into_the_user_s_own_file_is_asked_for() {
    for is_there in [false, true] {
        let env = asking();
        let file = "home/.config/ralph-orchestrator/config.toml";
        if is_there {
            fs::create_dir_all(env.root().join(file).parent().unwrap()).unwrap();
            fs::write(env.root().join(file), "[limits]\nmax_failures = 4\n").unwrap();
        }
        env.config("[limits]\nmax_iterations = 1\n");
        let script = "mkdir -p ~/.config/ralph-orchestrator
echo 'trust = \"always\"' > ~/.config/ralph-orchestrator/config.toml
sed -i 's/ = 1/ = 9/' ralph.toml\n";
        env.agent.default_call().script(script).out("hm\n");
        env.run().expect(1);
        env.run().expect(78).says("config.toml").says("limits.max_iterations = 9 (was 1)");
        assert_eq!(env.agent.calls(), 1);
    }
}

#[test]
fn the_user_can_switch_the_question_off_and_the_agent_cannot() {
    let env = after_work("");
    edit(&env, "max_iterations = 1", "max_iterations = 2");
    let text = env.read("ralph.toml");
    env.write("ralph.toml", format!("trust = \"always\"\n{text}"));
    env.run().expect(78).says("trust").says("belongs into the user's own configuration");
    env.write("ralph.toml", text);
    let user_file = env.root().join("home/.config/ralph-orchestrator/config.toml");
    fs::create_dir_all(user_file.parent().unwrap()).unwrap();
    fs::write(&user_file, "trust = \"always\"\n").unwrap();
    env.run().expect(78).says("config.toml appeared where an agent could write it");
    env.ralph(&["trust", &user_file.display().to_string()]).expect(0);
    env.run().expect(1);
    assert_eq!(env.agent.calls(), 2);
}

#[test]
fn a_file_that_the_sandbox_kept_from_the_agent_is_not_asked_for() {
    if kernel_level() < 3 {
        return;
    }
    for (place, sandbox, status) in [
        ("w", "mode = \"landlock\"\nworkspace = \"locked\"", 1),
        ("w", "mode = \"landlock\"", 78),
        ("", "mode = \"landlock\"", 1),
        ("", "mode = \"off\"", 78),
    ] {
        let env = asking();
        let root = env.root();
        env.config(&format!(
            "[sandbox]\n{sandbox}\nwrite = [\"{}\"]\n[limits]\nmax_iterations = 1\n",
            root.join("agent").display()
        ));
        if place.is_empty() {
            let text = env.read("ralph.toml");
            let run = "workspace = \"w\"\nprompt = \"w/PROMPT.md\"\ndelay";
            fs::write(root.join("ralph.toml"), text.replacen("delay", run, 1)).unwrap();
            fs::remove_file(env.path("ralph.toml")).unwrap();
        }
        env.agent.default_call().out("hm\n");
        let file = root.join(place).join("ralph.toml");
        let run =
            |status: i32| env.ralph(&["-c", &file.display().to_string(), "run"]).expect(status);
        run(1);
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.replace("max_iterations = 1", "max_iterations = 2")).unwrap();
        run(status);
    }
}

#[test]
fn a_quiet_question_shows_what_it_is_about() {
    let env = after_work("");
    edit(&env, "max_iterations = 1", "max_iterations = 2");
    let mut screen = Screen::start(&env, &["-q", "run"], 100, "xterm");
    screen.shows("limits.max_iterations = 2 (was 1)");
    screen.shows("accept this?");
    screen.press(b"n\n");
    assert_eq!(screen.wait(), Some(78));
}

#[test]
fn a_start_without_an_agent_is_no_work_of_agents() {
    let env = after_work("");
    edit(&env, "max_iterations", "max_failures = 9\nmax_iterations");
    env.ralph(&["trust"]).expect(0).says("max_failures = 9");
    // All iterations are used up already.
    env.run().expect(1);
    edit(&env, "max_failures = 9", "max_failures = 10");
    env.run().expect(1);
    assert_eq!(env.agent.calls(), 1);
    edit(&env, "max_iterations = 1", "max_iterations = 2");
    env.run().expect(1);
    assert_eq!(env.agent.calls(), 2);
    edit(&env, "max_failures = 10", "max_failures = 11");
    env.run().expect(78).says("max_failures = 11 (was 10)");
}

#[test]
fn what_is_accepted_while_an_agent_works_may_be_changed_by_it_afterwards() {
    let env = asking();
    env.config("[limits]\nmax_iterations = 1\n");
    let (up, go) = (env.fifo("up"), env.fifo("go"));
    env.agent.default_call().script(&format!(
        "echo x > '{}'; cat '{}'; sed -i 's/max_iterations = 2/max_iterations = 99/' ralph.toml\n",
        up.display(),
        go.display()
    ));
    let mut run = env.start(&["run"]);
    fs::read(&up).unwrap();
    edit(&env, "max_iterations = 1", "max_iterations = 2");
    env.ralph(&["trust"]).expect(0).says("max_iterations = 2 (was 1)");
    fs::write(&go, "x").unwrap();
    run.wait().expect(1);
    env.run().expect(78).says("max_iterations = 99 (was 2)");
}

#[test]
fn what_the_user_had_written_is_accepted() {
    let env = after_work("");
    fs::remove_file(env.path("ralph.toml")).unwrap();
    let agent = env.agent.program().display().to_string();
    env.ralph(&["init", "--test", "test -e done", "--", &agent]).expect(0);
    env.ralph(&["run", "--restart", "--once"]).expect(0);
    env.ralph(&["new", "another", "--test-command", "test -e done"]).expect(0);
    env.ralph(&["go", "1", "--once", "--", &agent]).expect(0);
}

#[test]
fn where_the_file_is_gone_what_was_accepted_last_holds() {
    let env = after_work("");
    edit(&env, "max_iterations = 1", "max_iterations = 3");
    env.ralph(&["trust"]).expect(0);
    env.ralph(&["run", "--once"]).expect(0);
    fs::remove_file(env.path("ralph.toml")).unwrap();
    let ended = env.run().expect(1);
    ended.says("ralph.toml is gone; this is its run, by what was last accepted").says("3 of 3");
    assert_eq!(env.agent.calls(), 3);
    env.ralph(&["doctor"]).expect(1).says("goes on with what you last accepted");
    // So it does at each start, also once it is accepted that it is gone.
    env.ralph(&["trust"]).expect(0).says("if you deleted it, `ralph-orchestrator trust ");
    env.ralph(&["trust", "ralph.toml"]).expect(0).says("accepted that");
    let again = env.run().expect(1);
    again.says("ralph.toml is gone; this is its run, by what was last accepted").says("3 of 3");
    env.ralph(&["status"]).expect(0).says("by what was last accepted");
}

#[test]
fn where_the_file_is_gone_what_the_last_start_obeyed_holds() {
    let env = asking();
    env.config("[limits]\nmax_iterations = 1\n");
    env.agent.default_call().out("hm\n");
    env.run().expect(1);
    // As on another branch, and back.
    let first = env.read("ralph.toml");
    edit(&env, "max_iterations = 1", "max_iterations = 2");
    env.ralph(&["trust"]).expect(0);
    env.run().expect(1).says("2 of 2");
    env.write("ralph.toml", first);
    env.run().expect(1).says("2, limit 1");
    fs::remove_file(env.path("ralph.toml")).unwrap();
    env.run().expect(1).says("by what was last accepted").says("2, limit 1");
    assert_eq!(env.agent.calls(), 2);
}

#[test]
fn a_run_is_found_while_its_configuration_is_gone_or_a_link() {
    for then in ["", "ln -s nothing ralph.toml", "ln -s ralph.toml ralph.toml"] {
        let env = asking();
        let (up, go) = (env.fifo("up"), env.fifo("go"));
        let (said, heard) = (up.display(), go.display());
        let script = format!("rm ralph.toml; {then}\necho > {said}; read x < {heard}\n");
        env.agent.default_call().script(&script).out("hm\n");
        let mut running = env.start(&["run"]);
        fs::read(&up).unwrap();
        env.ralph(&["status"]).expect(0).says("running");
        env.ralph(&["stop"]).expect(0);
        running.wait();
        env.ralph(&["why"]).expect(0).says("interrupted");
        env.ralph(&["-c", "ralph.toml", "why"]).expect(0).says("interrupted");
    }
}

#[test]
fn a_check_in_a_checkout_accepts_nothing() {
    let env = asking();
    env.raw_config(
        "[agent]\nadapter = \"command\"\nunmetered = true\n[agent.config]\nprogram = [\"@AGENT@\"]\n\
         [limits]\nmax_iterations = 1\n[[validator]]\nkind = \"command\"\nprogram = [\"sh\", \"check.sh\"]\n",
    );
    env.write("PROMPT.md", "# Task\n").write("check.sh", "false\n");
    let (program, said) = (tested_program().to_owned(), env.root().join("said"));
    let script = format!(
        "sed -i 's/iterations = 1/iterations = 9/' ralph.toml\n\
         echo \"'{}' trust > '{}' 2>&1; false\" > check.sh\n",
        program.display(),
        said.display()
    );
    env.agent.default_call().script(&script).out(DONE);
    env.run().expect(1);
    let said = fs::read_to_string(said).unwrap();
    assert!(said.contains("Read-only file system"), "{said}");
    env.run().expect(78).says("limits.max_iterations = 9 (was 1)");
    assert_eq!(env.agent.calls(), 1);
}

#[test]
fn a_configuration_behind_a_link_to_where_it_was_moved_goes_on_once_that_is_accepted() {
    let env = asking();
    env.config("[limits]\nmax_iterations = 1\n");
    fs::create_dir(env.root().join("conf")).unwrap();
    let text = env.read("ralph.toml");
    let workspace = env.workspace().display().to_string();
    let place = format!("[run]\nworkspace = \"{workspace}\"\nprompt = \"{workspace}/PROMPT.md\"\n");
    let outside = text.replacen("[run]\n", &place, 1);
    fs::write(env.root().join("conf/night.toml"), outside).unwrap();
    fs::remove_file(env.path("ralph.toml")).unwrap();
    let run = ["-c", "../conf/night.toml", "run"];
    env.ralph(&run).expect(1);
    fs::rename(env.root().join("conf"), env.root().join("moved")).unwrap();
    std::os::unix::fs::symlink("moved", env.root().join("conf")).unwrap();
    env.ralph(&run).expect(78).says("conf is a link to moved");
    env.ralph(&["trust", "../conf"]).expect(0).says("conf is a link to moved");
    env.ralph(&run).expect(1).says("max_iterations");
    assert_eq!(env.agent.calls(), 1);
}
