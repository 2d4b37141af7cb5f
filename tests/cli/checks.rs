//! What the validators rest on: said before a run, and refused if it cannot be.

use std::fs;

use crate::environment::TestEnvironment;

const DONE: &str = "<promise>COMPLETE: made it</promise>\n";
const ONLY_EVIDENCE: &str = "[[validator]]\nkind = \"evidence-files\"\nmin_files = 1\n";
const WRITTEN: &str = "by evidence files or reviews only: nothing that was run proves it";

/// A configuration with this validator in place of the usual one.
fn with(validator: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    let config = env.read("ralph.toml");
    let head = config.split("[[validator]]").next().unwrap().to_owned();
    env.write("ralph.toml", format!("{head}{validator}"));
    env
}

fn command(program: &str) -> String {
    format!("[[validator]]\nkind = \"command\"\nname = \"tests\"\nprogram = {program}\n")
}

#[test]
fn evidence_that_reports_failure_completes_nothing() {
    for report in [
        "FAILED: 12 tests failed",
        "{\\\"status\\\":\\\"fail\\\"}",
        "Traceback (most recent call last):\\n  File \\\"a.py\\\", line 1, in f\\nKeyError: 1",
    ] {
        let env = with(ONLY_EVIDENCE);
        env.agent
            .call(1)
            .script(&format!(
                "mkdir validation-evidence; printf \"{report}\\n\" > validation-evidence/t.txt\n"
            ))
            .out(DONE);
        env.agent.call(2).script("echo '12 passed' > validation-evidence/t.txt\n").out(DONE);
        let ended = env.run().expect(0);
        assert_eq!(env.agent.calls(), 2, "{report}: {}", ended.stderr);
        let second = String::from_utf8(env.agent.stdin(2)).unwrap();
        assert!(
            second.contains("`t.txt` line") && second.contains("reports a failure"),
            "{second}"
        );
    }
}

#[test]
fn a_completion_by_evidence_files_only_is_called_so() {
    let env = with(ONLY_EVIDENCE);
    env.ralph(&["doctor"]).expect(0).says(&format!("warn  completion     {WRITTEN}"));
    env.ralph(&["run", "--dry-run"]).expect(0).says(WRITTEN);
    env.agent
        .call(1)
        .script("mkdir validation-evidence; echo ok > validation-evidence/t.txt\n")
        .out(DONE);
    let ended = env.run().expect(0);
    assert!(ended.stderr.contains(&format!("completion is proved {WRITTEN}")), "{}", ended.stderr);
    assert!(ended.stdout.starts_with("completed: 1 iteration"), "{}", ended.stdout);
    assert!(ended.stdout.trim_end().ends_with(WRITTEN), "{}", ended.stdout);
    env.run().expect(0).says(&format!("already completed in 1 iteration, {WRITTEN}; no agent"));
    env.ralph(&["status"]).expect(0).says(WRITTEN);
    let latch = &env.status()["latch"];
    assert_eq!((&latch["evidence_only"], &latch["validated"]), (&true.into(), &true.into()));
    let events = env.ralph(&["run", "--json"]).expect(0).events();
    assert_eq!(events[0]["evidence_only"], true);
}

#[test]
fn one_command_is_enough_to_be_more_than_evidence() {
    let env = TestEnvironment::new();
    env.config(&format!("\n{ONLY_EVIDENCE}"));
    let ended = env.ralph(&["doctor"]).expect(0);
    assert!(!ended.stdout.contains(WRITTEN), "{}", ended.stdout);
    // One that is not required proves nothing.
    let env = with(&format!("{ONLY_EVIDENCE}{}required = false\n", command("[\"true\"]")));
    env.ralph(&["doctor"]).expect(0).says(WRITTEN);
    // Protected paths are compared, but nothing is run.
    let env = with("[[validator]]\nkind = \"protected-paths\"\npaths = [\"PROMPT.md\"]\n");
    env.ralph(&["doctor"]).expect(0).says(WRITTEN);
}

#[test]
fn nothing_is_called_validated_before_it_was() {
    let env = TestEnvironment::new();
    env.agent.default_call().script("echo $n > x\n");
    let events = env.ralph(&["run", "--json", "--max-iterations", "1"]).expect(1).events();
    assert!(events.iter().all(|event| event["validated"] != true), "{events:?}");
    assert_eq!(events[0]["validation_required"], true);
    let latch = &env.status()["latch"];
    assert_eq!((&latch["validated"], &latch["validation_required"]), (&false.into(), &true.into()));
    env.agent.default_call().script("touch done\n").out(DONE);
    env.ralph(&["run", "--max-iterations", "2"]).expect(0);
    assert_eq!(env.status()["latch"]["validated"], true);
}

#[test]
fn a_program_that_does_not_exist_is_refused_with_its_place() {
    for (program, place, says) in [
        ("[\"gti-status-x\"]", ":", "gti-status-x"),
        ("[\n  \"/nowhere/check\", \"a\"\n]", "ralph.toml:16:3", "/nowhere/check"),
        ("[\"../nowhere.sh\"]", "ralph.toml:", "nowhere.sh"),
        ("[\"sleeep\", \"1\"]", "ralph.toml:15:12", "did you mean `sleep`?"),
    ] {
        let env = with(&command(program));
        let run = env.run().expect(78);
        run.says(place).says(says);
        assert_eq!(env.agent.calls(), 0, "nothing was started");
        let doctor = env.ralph(&["doctor"]).expect(78);
        doctor.says("FAIL  validator      tests (").says(place).says(says);
    }
}

#[test]
fn a_line_that_its_shell_cannot_run_is_refused_before_any_work() {
    for (line, says) in [
        ("test -e done && (", "the shell cannot read the line of `sh -c "),
        ("if test -e done; then", "the shell cannot read the line of `sh -c "),
        ("gti-status-x && test -e done", "`gti-status-x`, the first program of `sh -c "),
        ("sleeep 1; test -e done", "was not found in PATH; did you mean `sleep`?"),
    ] {
        let env = with(&command(&format!("[\"sh\", \"-c\", \"{line}\"]")));
        env.run().expect(78).says("ralph.toml:15:").says(says);
        let goal = ["run", "--goal", "x", "--check", line];
        env.ralph(&goal).expect(78).says(says);
        env.ralph(&["doctor"]).expect(78).says("FAIL  validator      tests (").says(says);
        assert_eq!(env.agent.calls(), 0, "{line}");
    }
    // What the agent may have to make, and what only the shell knows, is no mistake.
    for line in ["./made-later", "cd . && test -e done", "f() { test -e done; }; f"] {
        let env = with(&command(&format!("[\"sh\", \"-c\", \"{line}\"]")));
        env.ralph(&["doctor"]).expect(0);
    }
}

#[test]
fn all_programs_that_do_not_exist_are_named_at_once() {
    let env = with(&format!(
        "{}{}",
        command("[\"/nowhere/a\"]"),
        command("[\"/nowhere/b\"]").replace("tests", "lint")
    ));
    env.run().expect(78).says("/nowhere/a").says("/nowhere/b");
}

#[test]
fn a_program_is_searched_for_where_the_validator_itself_would_find_it() {
    let env = with(&command("[\"only-there\"]"));
    let bin = env.root().join("bin");
    fs::create_dir(&bin).unwrap();
    env.run().expect(78);
    fs::write(bin.join("only-there"), "#!/bin/sh\ntest -e done\n").unwrap();
    env.write_mode(&bin.join("only-there").display().to_string(), 0o755);
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    env.write(
        "ralph.toml",
        format!("{}\n[env]\nset = {{ PATH = {path:?} }}\n", env.read("ralph.toml")),
    );
    env.agent.default_call().script("touch done\n").out(DONE);
    env.run().expect(0);
}

#[test]
fn a_program_that_the_agent_may_write_is_a_warning() {
    for (program, name) in
        [("[\"./check.sh\"]", "check.sh"), ("[\"sh\", \"./check.sh\"]", "check.sh")]
    {
        let env = with(&command(program));
        env.ralph(&["doctor"])
            .expect(0)
            .says("warn  validator      tests (")
            .says(name)
            .says("the agent decides what proves its work");
        env.agent
            .default_call()
            .script(
                "printf '#!/bin/sh\\ntest -e done\\n' > check.sh; chmod +x check.sh; touch done\n",
            )
            .out(DONE);
        env.run().expect(0).says("warning: validator `tests`").says(name);
    }
}

#[test]
fn a_check_in_the_workspace_that_is_not_protected_is_a_warning() {
    for (program, glob) in [
        ("[\"./ci/check.sh\"]", "ci/check.sh"),
        ("[\"sh\", \"-eu\", \"ci/check.sh\", \"all\"]", "ci/check.sh"),
        ("[\"python3\", \"ci/a[1].py\"]", "ci/a\\\\[1\\\\].py"),
    ] {
        let text = command(program);
        let env = with(&text);
        for name in ["ci/check.sh", "ci/a[1].py"] {
            env.write(name, "#!/bin/sh\n").write_mode(name, 0o755);
        }
        let advice = format!("Add protect = [\"{glob}\"]");
        env.ralph(&["doctor"]).expect(0).says("warn  validator").says(&advice);
        env.agent.default_call().out(DONE);
        env.run().expect(0).says("is not protected").says(&advice);
        // As it says, and by another validator.
        let config = env.read("ralph.toml");
        for more in [
            format!("protect = [\"{glob}\"]\n"),
            "[[validator]]\nkind = \"protected-paths\"\npaths = [\"ci/**\"]\n".to_owned(),
        ] {
            env.write("ralph.toml", format!("{config}{more}"));
            let doctor = env.ralph(&["doctor"]).expect(0);
            assert!(!doctor.stdout.contains("warn  validator"), "{}", doctor.stdout);
        }
        // What is not required protects nothing.
        let optional =
            "[[validator]]\nkind = \"protected-paths\"\nrequired = false\npaths = [\"ci/**\"]\n";
        env.write("ralph.toml", format!("{config}{optional}"));
        env.ralph(&["doctor"]).expect(0).says(&advice);
    }
}

#[test]
fn a_program_reached_by_a_link_from_the_workspace_is_the_agents_to_change() {
    let env = with(&command("[\"./check\"]"));
    std::os::unix::fs::symlink("/bin/true", env.path("check")).unwrap();
    env.ralph(&["doctor"]).expect(0).says("Add protect = [\"check\"]");
    let env = with(&command("[\"../check\"]"));
    env.write("real.sh", "#!/bin/sh\n").write_mode("real.sh", 0o755);
    std::os::unix::fs::symlink(env.path("real.sh"), env.root().join("check")).unwrap();
    env.ralph(&["doctor"]).expect(0).says("Add protect = [\"real.sh\"]");
}

#[test]
fn the_doctor_ends_as_the_run_would() {
    let env = TestEnvironment::new();
    env.ralph(&["doctor"]).expect(0);
    fs::remove_file(env.path("PROMPT.md")).unwrap();
    env.ralph(&["doctor"]).expect(78).says("FAIL  files");
    env.run().expect(78);
    env.write("PROMPT.md", "task");
    fs::remove_file(env.agent.program()).unwrap();
    env.ralph(&["doctor"]).expect(69).says("FAIL  agent");
    env.run().expect(69);
    env.write("ralph.toml", env.read("ralph.toml").replace("\"test\", ", "\"/nowhere\", "));
    env.ralph(&["doctor"]).expect(78);
    env.run().expect(78);
}

#[test]
fn the_doctor_refuses_a_limit_that_the_run_would_refuse() {
    let env = TestEnvironment::new();
    env.raw_config(
        "[agent]\nadapter = \"command\"\n[agent.config]\nprogram = [\"@AGENT@\"]\n\
         [limits]\nmax_cost_usd = 10.0\n\
         [[validator]]\nkind = \"command\"\nprogram = [\"test\", \"-e\", \"done\"]\n",
    );
    for command in ["run", "doctor"] {
        env.ralph(&[command]).expect(78).says("limits.max_cost_usd").says("reports no cost");
    }
    assert_eq!(env.agent.calls(), 0);
}

/// A project with a failing test, a check of it, and an agent that does no work but writes `files` once.
fn cheated(program: &str, keys: &str, there: &[(&str, &str)], files: &str) -> TestEnvironment {
    let env = with(&format!("{}{keys}\n", command(program)));
    for (path, text) in there {
        env.write(path, text);
    }
    env.agent.default_call().script(files).out(DONE);
    env
}

const FAILING: &str =
    "import unittest\nclass T(unittest.TestCase):\n    def test(self): self.fail()\n";

#[test]
fn what_a_program_would_take_for_its_own_must_not_appear_behind_lines_and_wrappers() {
    for (program, file) in [
        (r#"["sh", "-c", "python3 -m unittest -v && true"]"#, "unittest.py"),
        (r#"["sh", "-c", "A=1 python3 -m unittest -v"]"#, "unittest.py"),
        (r#"["timeout", "60", "python3", "-m", "unittest", "-v"]"#, "unittest.py"),
        (r#"["sh", "-c", "sh -c 'python3 -m unittest -v'"]"#, "unittest.py"),
        (r#"["sh", "-c", "cd backend && python3 -m unittest -v"]"#, "backend/unittest.py"),
        (r#"["env", "-C", "backend", "python3", "-m", "unittest", "-v"]"#, "backend/unittest.py"),
        (
            r#"["sh", "-c", "python3 -m unittest -v 2>&1 | tee out | tail -n1 | grep OK"]"#,
            "unittest.py",
        ),
        (r#"["python3", "-m", "unittest", "-v"]"#, "_heapq.py"),
    ] {
        let there = [("test_a.py", FAILING), ("backend/test_a.py", FAILING)];
        let script = format!("echo \"print('OK')\nimport os; os._exit(0)\" > {file}\n");
        let keys = "protect = [\"**/test_*.py\"]";
        let env = cheated(program, keys, &there, &script);
        let ended = env.ralph(&["run", "--once"]);
        assert!(!ended.stderr.contains("could not be read"), "{}", ended.stderr);
        ended.says("were not there when the run began").says(file);
        assert_ne!(env.status()["phase"], "completed", "{program}");
    }
}

#[test]
fn settings_must_not_appear_beside_or_above_what_a_line_runs() {
    let makefile = "test:\n\tfalse\n";
    for (program, file) in [
        (r#"["make", "-C", "sub", "test"]"#, "sub/GNUmakefile"),
        (r#"["make", "-Csub", "test"]"#, "sub/GNUmakefile"),
        (r#"["sh", "-c", "cd sub && make test"]"#, "sub/GNUmakefile"),
        (r#"["bash", "-c", "cd sub; make test"]"#, "sub/GNUmakefile"),
    ] {
        let script = format!("printf 'test:\\n\\ttrue\\n' > {file}\n");
        let keys = "protect = [\"sub/Makefile\"]";
        let env = cheated(program, keys, &[("sub/Makefile", makefile)], &script);
        env.ralph(&["run", "--once"]).says("were not there when the run began").says(file);
        assert_ne!(env.status()["phase"], "completed", "{program}");
    }
    let keys = "cwd = \"sub\"\nprotect = [\"sub/Cargo.toml\"]";
    let there = [("sub/Cargo.toml", "[package]\nname = \"a\"\nversion = \"0.1.0\"\n")];
    let script = "mkdir .cargo; printf '[alias]\\nt2 = \"version\"\\n' > .cargo/config.toml\n";
    let env = cheated(r#"["cargo", "t2"]"#, keys, &there, script);
    env.ralph(&["run", "--once"]).says("were not there").says(".cargo/config.toml");
    assert_ne!(env.status()["phase"], "completed");
}

#[test]
fn a_line_that_only_a_shell_can_read_is_a_warning() {
    for (line, is_warning) in [
        ("x=$(python3 -m unittest 2>&1); echo \\\"$x\\\" | grep OK", true),
        ("cd \\\"$HOME/x\\\" && make test", true),
        ("test \\\"$(wc -l < a)\\\" -gt 3", false),
        ("cd sub && make test", false),
    ] {
        let env = with(&command(&format!("[\"sh\", \"-c\", \"{line}\"]")));
        let doctor = env.ralph(&["doctor"]);
        assert_eq!(doctor.stdout.contains("could not be read to its end"), is_warning, "{line}");
        env.agent.default_call().out(DONE);
        let ended = env.ralph(&["run", "--once"]);
        assert_eq!(ended.stderr.contains("could not be read to its end"), is_warning, "{line}");
    }
}

#[test]
fn what_scripts_and_recipes_run_and_take_in_must_not_appear() {
    let makefile = "-include config.mk\ntest:\n\tpython3 -m unittest -v\n";
    for (program, there, file, text) in [
        (r#"["make", "test"]"#, ("Makefile", makefile), "unittest.py", "import os; os._exit(0)"),
        (r#"["make", "test"]"#, ("Makefile", makefile), "config.mk", "SHELL = /bin/true"),
        (
            r#"["sh", "./t.sh"]"#,
            ("t.sh", "[ -e lib.sh ] && . ./lib.sh\npython3 -m unittest -v\n"),
            "lib.sh",
            "exit 0",
        ),
    ] {
        let files = [there, ("test_a.py", FAILING)];
        let script = format!("echo '{text}' > {file}\n");
        let keys = format!("protect = [\"test_a.py\", \"{}\"]", there.0);
        let env = cheated(program, &keys, &files, &script);
        env.ralph(&["run", "--once"]).says("were not there when the run began").says(file);
        assert_ne!(env.status()["phase"], "completed", "{program}");
    }
    // What is there is the user's to protect.
    let files = [("t.sh", ". ./lib.sh\n"), ("lib.sh", "false\n")];
    let env = cheated(r#"["sh", "./t.sh"]"#, "protect = [\"t.sh\"]", &files, "");
    env.ralph(&["doctor"]).says("Add protect = [\"lib.sh\"]");
}
