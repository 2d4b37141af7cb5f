//! `doctor`, `config check` and `run` find the same before anything is paid for.

use std::fs;
use std::os::unix::fs::symlink;

use ralph_orchestrator_testkit::agent_env::no_network;
use ralph_orchestrator_testkit::model_server::{ModelServer, Script};

use crate::environment::TestEnvironment;
use crate::real::Real;

const DONE: &str = "<promise>COMPLETE: made it</promise>\n";

/// The usual configuration, whose validator has more keys.
fn with(keys: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    env.write("ralph.toml", format!("{}{keys}\n", env.read("ralph.toml")));
    env
}

#[test]
fn a_glob_that_protects_nothing_is_an_error_with_its_place() {
    for (glob, says) in [
        ("tset/**", "matches nothing"),
        ("empty/**", "matches nothing"),
        ("tests/[a", "unclosed character class"),
        ("../x", "leads out of the workspace"),
    ] {
        let env = with(&format!("protect = [\n  \"tests/**\",\n  \"{glob}\",\n]"));
        env.write("tests/a", "");
        fs::create_dir(env.path("empty")).unwrap();
        let line = env.read("ralph.toml").lines().position(|line| line.contains(glob)).unwrap() + 1;
        for command in [&["config", "check"][..], &["doctor"], &["run"], &["run", "--dry-run"]] {
            let ended = env.ralph(command).expect(78);
            ended.says(&format!("ralph.toml:{line}")).says(glob).says(says);
        }
        assert_eq!(env.agent.calls(), 0);
    }
    let env = TestEnvironment::new();
    let more =
        "\n[[validator]]\nkind = \"protected-paths\"\npaths = [\"PROMPT.md\", \"gone.txt\"]\n";
    env.write("ralph.toml", env.read("ralph.toml") + more);
    for command in [&["config", "check"][..], &["doctor"], &["run"]] {
        env.ralph(command).expect(78).says("gone.txt").says("matches nothing");
    }
}

#[test]
fn a_protected_link_to_what_is_not_protected_is_an_error() {
    for (globs, wanted) in [
        (r#""tests""#, Some("real/**")),
        (r#""check.sh""#, Some("real/check.sh")),
        (r#""tests", "real/**""#, None),
        (r#""check.sh", "real/check.sh""#, None),
        (r#""outside""#, None),
        // Not all of it is a link.
        (r#""**/*.sh""#, None),
    ] {
        let env = with(&format!("protect = [{globs}]"));
        env.write("real/check.sh", "");
        symlink("real", env.path("tests")).unwrap();
        symlink("real/check.sh", env.path("check.sh")).unwrap();
        symlink("/etc/hostname", env.path("outside")).unwrap();
        let checked = env.ralph(&["config", "check"]);
        match wanted {
            Some(target) => {
                checked.expect(78).says("only links").says(target);
                env.ralph(&["run"]).expect(78).says(target);
            }
            None => {
                checked.expect(0);
            }
        }
        assert_eq!(env.agent.calls(), 0);
    }
}

#[test]
fn what_is_deleted_while_a_run_goes_on_is_a_rejection_and_no_error() {
    let env = with("protect = [\"tests/**\"]");
    env.write("tests/a", "");
    env.agent.call(1).script("rm -r tests; touch done\n").out(DONE);
    env.ralph(&["run", "--once"]).says("tests/a (removed)");
    env.ralph(&["doctor"]).expect(0);
    env.agent.call(2).script("mkdir tests; : > tests/a\n").out(DONE);
    env.run().expect(0);
}

#[test]
fn globs_are_searched_for_in_the_template_of_a_workspace_that_is_still_to_be_made() {
    let env = with("protect = [\"tests/**\"]");
    let text = env.read("ralph.toml");
    let run = "[run]\nworkspace = \"made\"\ntemplate = \"from\"";
    env.write("ralph.toml", text.replacen("[run]", run, 1)).write("from/a", "");
    env.ralph(&["config", "check"]).expect(78).says("matches nothing").says("/from");
    env.write("from/tests/a", "");
    env.ralph(&["config", "check"]).expect(0);
    env.agent.call(1).script("touch done\n").out(DONE);
    env.run().expect(0);
}

#[test]
fn config_check_refuses_programs_and_paths_that_are_not_there() {
    let env = TestEnvironment::new();
    let good = env.read("ralph.toml");
    for (more, says) in [
        ("[[validator]]\nkind = \"command\"\nprogram = [\"no-such-program\"]\n", "no-such-program"),
        ("[sandbox]\nmode = \"landlock\"\nread = [\"gone\"]\n", "sandbox.read"),
    ] {
        env.write("ralph.toml", format!("{good}\n{more}"));
        for command in [&["config", "check"][..], &["run"]] {
            env.ralph(command).expect(78).says(says);
        }
    }
    assert_eq!(env.agent.calls(), 0);
}

#[test]
fn limits_that_are_off_are_not_advised_to_be_turned_off() {
    let env = TestEnvironment::new();
    let good = env.read("ralph.toml");
    for off in ["", "max_cost_usd = \"none\"\n"] {
        let limits = "max_iterations = \"none\"\nmax_runtime = \"none\"\n";
        env.write("ralph.toml", format!("{good}\n[limits]\n{limits}{off}"));
        let ended = env.ralph(&["config", "check"]).expect(78);
        ended.says("limits.max_iterations").says("max_runtime");
        assert!(!ended.stderr.contains("turns this limit off"), "{}", ended.stderr);
    }
}

#[test]
fn config_check_refuses_a_limit_that_the_run_would_refuse() {
    let env = TestEnvironment::new();
    let config = env.read("ralph.toml").replace("unmetered = true\n", "");
    env.write("ralph.toml", format!("{config}\n[limits]\nmax_cost_usd = 5.0\n"));
    for command in [&["config", "check"][..], &["run"], &["doctor"]] {
        env.ralph(command).expect(78).says("limits.max_cost_usd").says("reports no cost");
    }
    env.write("ralph.toml", config);
    env.ralph(&["config", "check"]).expect(0).says("warning: ").says(": ok");
}

#[test]
fn a_prompt_that_nobody_has_edited_is_refused_before_anything_is_paid_for() {
    let env = TestEnvironment::new();
    fs::remove_file(env.path("PROMPT.md")).unwrap();
    env.ralph(&["init"]).expect(0).says("kept ralph.toml").says("describe the task in PROMPT.md");
    for command in ["run", "doctor"] {
        env.ralph(&[command]).expect(78).says("PROMPT.md:3").says("Describe the task");
    }
    assert_eq!(env.agent.calls(), 0);
    let text = env.read("PROMPT.md");
    env.write(
        "PROMPT.md",
        text.replace("Describe the task and its acceptance criteria here.", "Build."),
    );
    env.ralph(&["doctor"]).expect(0);
    // What is complete stays so.
    env.agent.call(1).script("touch done\n").out(DONE);
    env.run().expect(0);
    env.write("PROMPT.md", text);
    env.ralph(&["run"]).says("Describe the task");
}

#[test]
fn the_last_line_counts_what_failed() {
    let env = TestEnvironment::new();
    let last = |code| {
        let ended = env.ralph(&["doctor"]).expect(code);
        ended.stdout.lines().last().unwrap().to_owned()
    };
    assert_eq!(last(0), "all checks passed, 1 warning");
    env.write(".git/HEAD", "");
    assert_eq!(last(0), "all checks passed");
    fs::remove_file(env.agent.program()).unwrap();
    assert_eq!(last(69), "1 check failed");
    fs::remove_file(env.path("PROMPT.md")).unwrap();
    assert_eq!(last(78), "2 checks failed");
}

#[test]
fn a_workspace_in_no_repository_and_the_free_space_are_said() {
    let env = TestEnvironment::new();
    env.ralph(&["doctor"]).expect(0).says("warn  repository").says("git init").says("  disk  ");
    // The repository may begin above.
    fs::create_dir(env.root().join(".git")).unwrap();
    let ended = env.ralph(&["doctor"]).expect(0);
    assert!(!ended.stdout.contains("repository"), "{}", ended.stdout);
}

#[test]
fn checks_that_the_doctor_runs_leave_no_bytecode() {
    let env = TestEnvironment::new();
    let program = "program = [\"python3\", \"check.py\"]\nprotect = [\"check.py\"]";
    let config = env.read("ralph.toml");
    env.write("ralph.toml", config.replace("program = [\"test\", \"-e\", \"done\"]", program));
    env.write("check.py", "import helper\n").write("helper.py", "open('done')\n");
    env.ralph(&["doctor"]).expect(0).says("`tests` rejects the unchanged workspace");
    assert!(!env.path("__pycache__").exists());
}

#[test]
fn an_agent_that_is_not_logged_in_is_found_by_asking_its_program() {
    let env = TestEnvironment::new();
    let claude = env.root().join("claude").display().to_string();
    let says = |logged_in: bool| {
        let text = format!(
            "#!/bin/sh\ncase \"$*\" in\n  'auth status') echo '{{\"loggedIn\": {logged_in}}}';;\n  \
             --version) echo '2.1.0 (Claude Code)';;\n  *) exit 9;;\nesac\n"
        );
        env.write(&claude, text).write_mode(&claude, 0o755);
    };
    env.raw_config(&format!(
        "[agent]\nadapter = \"claude-cli\"\n[agent.config]\nprogram = \"{claude}\"\n\
         permission_mode = \"acceptEdits\"\n\
         [[validator]]\nkind = \"command\"\nprogram = [\"test\", \"-e\", \"done\"]\n"
    ));
    says(false);
    env.ralph(&["doctor"])
        .expect(2)
        .says("FAIL  login")
        .says("not logged in")
        .says("claude auth login");
    says(true);
    let ended = env.ralph(&["doctor"]).expect(0);
    assert!(!ended.stdout.contains("login"), "{}", ended.stdout);
    // One that knows nothing of it is asked in vain.
    env.write(&claude, "#!/bin/sh\necho 1.0\n").write_mode(&claude, 0o755);
    env.ralph(&["doctor"]).expect(0);
}

#[test]
fn the_real_agents_say_whether_they_are_logged_in() {
    let model = ModelServer::scripted(Script::new());
    let validator = "[[validator]]\nkind = \"command\"\nprogram = [\"test\", \"-e\", \"done\"]\n";
    for (real, key) in
        [(Real::ClaudeCli, "ANTHROPIC_API_KEY"), (Real::ClaudeSdk, "ANTHROPIC_API_KEY")]
    {
        let mut env = real.environment(&model, validator);
        let ended = env.ralph(&["doctor"]);
        assert!(!ended.stdout.contains("FAIL  login"), "{}", ended.stdout);
        for name in [key, "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"] {
            env.unset(name);
        }
        env.ralph(&["doctor"]).expect(2).says("FAIL  login").says("not logged in");
    }
    let mut env = Real::Codex.environment(&model, validator);
    let ended = env.ralph(&["doctor"]);
    assert!(!ended.stdout.contains("FAIL  login"), "another provider: {}", ended.stdout);
    fs::remove_dir_all(env.root().join("home/.codex")).unwrap();
    for (name, _) in no_network() {
        env.var(name, "http://127.0.0.1:9");
    }
    env.unset("CODEX_API_KEY");
    env.ralph(&["doctor"]).expect(2).says("FAIL  login").says("codex login");
    // A run says so before anything is done.
    let goal = ["run", "--goal", "x", "--check", "test -e done"];
    env.ralph(&goal).expect(2).says("Codex is not logged in").says("codex login");
    assert!(env.status()["run"].is_null(), "{}", env.status());
}

#[test]
fn prints_a_line_for_each_check() {
    let env = TestEnvironment::new();
    let ended = env.ralph(&["doctor"]).expect(0);
    let text = ended.stdout.replace(&env.root().display().to_string(), "[ROOT]");
    let filters = [
        (r"(?m)^(ok|warn) +disk .*$", "[disk]"),
        (r"(?m)^ok +sandbox .*$", "[sandbox]"),
        (r"(?m)^(ok|warn) +checkout .*$", "[checkout]"),
        (r"w-[0-9a-f]{12}", "w-[hash]"),
    ];
    insta::with_settings!({ filters => filters }, { insta::assert_snapshot!("doctor", text) });
}

#[test]
fn says_why_the_checks_were_not_run() {
    let env = TestEnvironment::new();
    let skipped = |why: &str| {
        let ended = env.ralph(&["doctor"]);
        ended.says(&format!("skip  baseline       the checks were not run: {why}"));
        let json: serde_json::Value =
            serde_json::from_str(&env.ralph(&["doctor", "--json"]).stdout).unwrap();
        let checks = json["checks"].as_array().unwrap();
        let baseline = checks.iter().find(|check| check["check"] == "baseline").unwrap();
        assert_eq!((&baseline["skipped"], &baseline["ok"]), (&true.into(), &true.into()));
    };
    env.config("\n[completion]\nbaseline = \"off\"\n");
    skipped("`completion.baseline` is \"off\"");
    env.config("");
    env.ralph(&["doctor"]).expect(0).says("ok    baseline");
    let program = env.agent.program();
    let aside = program.with_extension("aside");
    fs::rename(&program, &aside).unwrap();
    skipped("a check above failed");
    fs::rename(&aside, &program).unwrap();
    env.ralph(&["run", "--once"]).expect(0);
    skipped("the run has begun");
}

#[test]
fn says_so_where_run_would_start_no_agent() {
    let env = TestEnvironment::new();
    env.config("\n[limits]\nmax_iterations = 1\n");
    env.agent.call(1).out("hm\n");
    env.agent.call(2).out("<promise>NEEDS_HUMAN: which?</promise>\n");
    let looks = [&["doctor"][..], &["run", "--dry-run"]];
    for (code, says) in [(1, "the only iteration is used"), (2, "which?")] {
        env.run().expect(code);
        for look in looks {
            env.ralph(look).expect(code).says(says);
        }
        env.ralph(&["limits", "--max-iterations", "2"]).expect(0);
        for look in looks.into_iter().filter(|_| code == 1) {
            env.ralph(look).expect(0);
        }
    }
    assert_eq!(env.agent.calls(), 2);
}

/// It exits as `run` would, and says of the checks what holds for the run that would begin.
#[test]
fn tells_a_run_that_is_complete_or_active_from_one_that_begins() {
    let mut env = TestEnvironment::new();
    env.unset("RALPH_TRUST");
    let (up, go) = (env.fifo("up"), env.fifo("go"));
    let (raised, held) = (up.display(), go.display());
    let script = format!("echo x > '{raised}'; cat '{held}'; touch done\n");
    env.agent.default_call().script(&script).out("<promise>COMPLETE: made it</promise>\n");
    let mut run = env.start(&["run"]);
    fs::read(&up).unwrap();
    env.ralph(&["doctor"]).expect(75).says("FAIL  run").says(&format!("pid {}", run.pid()));
    fs::write(&go, "x").unwrap();
    run.wait().expect(0);
    let complete = env.ralph(&["doctor"]).expect(0);
    complete.says("is complete: `run` starts no agent").says("not run: the run is complete");
    let file = env.read("ralph.toml");
    env.write("ralph.toml", file.replace("[run]", "[limits]\nmax_failures = 77\n[run]"));
    for look in [&["doctor"][..], &["run", "--dry-run"], &["run"]] {
        env.ralph(look).expect(0).says("a new run would be refused");
    }
    env.write("ralph.toml", file);
    env.write("PROMPT.md", "Something else.\n");
    env.ralph(&["doctor"]).expect(0).says("warn  baseline").says("although nothing is done yet");
}

#[test]
fn names_no_file_that_is_not_there() {
    let env = TestEnvironment::new();
    fs::remove_file(env.path("ralph.toml")).unwrap();
    env.ralph(&["doctor"]).expect(78).says("could not find `ralph.toml`").says("init");
    let agent = env.agent.program().display().to_string();
    let words = ["run", "--once", "--goal", "x", "--check", "test -e done", "--", &agent];
    env.ralph(&words).expect(0);
    for command in [&["doctor"][..], &["config", "check"]] {
        let ended = env.ralph(command).expect(0);
        ended
            .says("there is no ralph.toml; the run of this folder goes on with what it began with");
        assert!(!ended.stdout.contains("/ralph.toml"), "{}", ended.stdout);
    }
}
