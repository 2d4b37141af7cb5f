//! Protected paths while validators run what the agent wrote, and checks that accept before any work.

use crate::environment::TestEnvironment;

/// A check that the agent may not change, run by a script that it may.
fn protected_check(more: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    env.raw_config(&format!(
        "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\nunmetered = true\n\
         [agent.config]\nprogram = [\"@AGENT@\"]\n[limits]\nmax_iterations = 2\n\
         [[validator]]\nkind = \"command\"\nname = \"tests\"\nprogram = [\"sh\", \"./build.sh\"]\n\
         protect = [\"tests/**\"]\n{more}"
    ));
    env.write("tests/check.sh", "test -e done\n");
    env.write("build.sh", "sh ./tests/check.sh\n");
    env
}

const CLAIM: &str = "<promise>COMPLETE: it is there</promise>\n";
const OVERWRITE: &str =
    "cat > build.sh <<'END'\necho true > tests/check.sh; sh ./tests/check.sh\nEND\n";

#[test]
fn a_validator_that_overwrites_a_protected_test_is_not_believed() {
    let env = protected_check("");
    env.check_in_workspace();
    env.agent.call(1).script(OVERWRITE);
    env.agent.default_call().out(CLAIM);
    env.run().expect(1).says("`tests` changed protected paths").says("`tests/check.sh` (modified)");
    assert_eq!(env.status()["latch"]["state"], "claimed");
}

#[test]
fn nor_is_one_that_is_not_required() {
    let env = protected_check(
        "[[validator]]\nkind = \"command\"\nname = \"build\"\nrequired = false\n\
         program = [\"sh\", \"./other.sh\"]\n",
    );
    env.check_in_workspace();
    // What is required runs first, and accepts; then the protected path is changed all the same.
    env.agent.call(1).script("touch done; echo 'echo x >> tests/check.sh' > other.sh\n");
    env.agent.default_call().out(CLAIM);
    env.run().expect(1).says("`build` changed protected paths");
}

#[test]
fn a_protected_test_is_compared_between_repetitions() {
    let env = protected_check("passes_required = 2\n");
    env.check_in_workspace();
    // Changed by the first execution, used and put back by the second.
    env.agent.call(1).script(
        "cat > build.sh <<'END'
if [ -e saved ]; then cp saved tests/check.sh; rm saved; exit 0; fi
cp tests/check.sh saved; echo true > tests/check.sh; exit 0
END
",
    );
    env.agent.default_call().out(CLAIM);
    env.run().expect(1).says("`tests` changed protected paths");
}

#[test]
fn what_is_put_back_is_validated_again_and_believed() {
    let env = protected_check("");
    env.agent.call(1).script(OVERWRITE);
    env.agent.call(2).script(
        "touch done; echo 'test -e done' > tests/check.sh; echo 'sh ./tests/check.sh' > build.sh\n",
    );
    env.agent.default_call().out(CLAIM);
    env.run().expect(0).says("completed");
}

/// Whoever runs protected Python tests has bytecode written beside them.
#[test]
fn bytecode_beside_protected_tests_is_no_change_and_is_not_believed() {
    let env = TestEnvironment::new();
    env.raw_config(
        "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\nunmetered = true\n\
         [agent.config]\nprogram = [\"@AGENT@\"]\n[limits]\nmax_iterations = 2\n\
         [[validator]]\nkind = \"command\"\nname = \"tests\"\n\
         program = [\"python3\", \"-m\", \"unittest\", \"discover\", \"-s\", \"tests\"]\n\
         protect = [\"tests/**\"]\n",
    );
    env.write("tests/helper.py", "def wanted():\n    return 1\n");
    env.write(
        "tests/test_it.py",
        "import unittest, helper, os\nclass T(unittest.TestCase):\n    def test(self):\n        \
         self.assertEqual(helper.wanted(), int(os.path.exists(\"done\")))\n",
    );
    // Bytecode of another helper, which says that nothing is wanted.
    let poison = "python3 - <<'END'
import os, py_compile, importlib.util
path = 'tests/helper.py'; real = open(path).read(); stat = os.stat(path)
open(path, 'w').write(real.replace('1', '0')); os.utime(path, (stat.st_atime, stat.st_mtime))
py_compile.compile(path, importlib.util.cache_from_source(path))
open(path, 'w').write(real); os.utime(path, (stat.st_atime, stat.st_mtime))
END
(cd tests && python3 -c 'import helper; assert helper.wanted() == 0, \"the bytecode is believed\"')
";
    env.agent.call(1).script(poison);
    env.agent.call(2).script("touch done; (cd tests && python3 -c 'import test_it' || true)\n");
    env.agent.default_call().out(CLAIM);
    let ended = env.run().expect(0);
    ended.says("rejected by tests").says("completed: 2 iterations");
    assert!(!ended.stderr.contains("protected path"), "{}", ended.stderr);
}

/// What is run puts something else in the place of a protected test, uses it, and puts it back.
#[test]
fn a_protected_test_that_is_exchanged_and_put_back_is_not_believed() {
    for put_back in ["cp -p saved tests/check.sh", "mv saved tests/check.sh"] {
        let env = protected_check("");
        env.check_in_workspace();
        env.agent.call(1).script(&format!(
            "cat > build.sh <<'END'
cp -p tests/check.sh saved; echo true > tests/check.sh; sh ./tests/check.sh
{put_back}; touch -r ralph.toml tests/check.sh; rm -f saved
END
"
        ));
        env.agent.default_call().out(CLAIM);
        let ended = env.run().expect(1);
        ended.says(
            "`tests` wrote to protected paths while the work was validated, and put them back",
        );
    }
}

/// What is run puts another folder in the place of that of a protected test, or of one above it, and puts it back; or
/// a file that the check would load, which removes itself.
#[test]
fn what_is_put_into_the_place_of_protected_folders_and_taken_away_is_not_believed() {
    for (replace, names) in [
        ("mv tests .t; mkdir tests; echo 'rm -rf tests; mv .t tests' > tests/check.sh", "`tests`"),
        (
            "mv tests .t; ln -s fake tests; mkdir fake; echo 'rm tests; mv .t tests' > fake/check.sh",
            "`tests`",
        ),
        ("echo true > tests/new.sh; rm tests/new.sh; touch done", "`tests/new.sh`"),
    ] {
        let env = protected_check("");
        env.check_in_workspace();
        env.agent
            .call(1)
            .script(&format!("cat > build.sh <<'END'\n{replace}\nsh ./tests/check.sh\nEND\n"));
        env.agent.default_call().out(CLAIM);
        let ended = env.run().expect(1);
        ended.says(
            "`tests` wrote to protected paths while the work was validated, and put them back",
        );
        ended.says(names);
    }
}

/// A check of the user's own beside the workspace, which an agent of the same user can write as well: before the check,
/// by a link, and from what the check runs.
#[test]
fn a_check_outside_of_the_workspace_that_is_changed_is_not_believed() {
    for (agent, program) in [
        ("printf '#!/bin/sh\\n' > ../acceptance/run.sh", "[\"../acceptance/run.sh\"]"),
        ("printf '#!/bin/sh\\n' > ../acceptance/run.sh", "[\"sh\", \"../acceptance/run.sh\"]"),
        (
            "cp ../acceptance/run.sh .; ln -sf /bin/true ../acceptance/run.sh",
            "[\"../acceptance/run.sh\"]",
        ),
        (
            "echo 'echo exit 0 > ../acceptance/run.sh; exit 0' > build.sh",
            "[\"../acceptance/run.sh\"]",
        ),
    ] {
        let env = TestEnvironment::new();
        env.raw_config(&format!(
            "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\nunmetered = true\n\
             [agent.config]\nprogram = [\"@AGENT@\"]\n[limits]\nmax_iterations = 2\n\
             [[validator]]\nkind = \"command\"\nname = \"acceptance\"\nprogram = {program}\n"
        ));
        env.write("build.sh", "test -e done\n");
        env.write("../acceptance/run.sh", "#!/bin/sh\nsh ./build.sh\n");
        env.write_mode("../acceptance/run.sh", 0o755);
        env.agent.call(1).script(&format!("{agent}\n"));
        env.agent.default_call().out(CLAIM);
        env.run().expect(1).says("acceptance/run.sh");
        assert_eq!(env.status()["latch"]["state"], "claimed", "{agent}");
    }
}

/// What tools keep for themselves beside protected tests, and what lies beside the folders, may come and go.
#[test]
fn caches_and_other_files_may_come_and_go_beside_protected_ones() {
    let env = protected_check("");
    env.agent.call(1).script(
        "touch done; cat > build.sh <<'END'
mkdir -p tests/.pytest_cache/v tests/__pycache__; touch tests/__pycache__/a.pyc tests/.pytest_cache/v/b
rm -r tests/.pytest_cache tests/__pycache__; touch beside; rm beside; sh ./tests/check.sh
END
",
    );
    env.agent.default_call().out(CLAIM);
    env.run().expect(0).says("completed: 1 iteration");
}

/// One check leaves bytecode where another one would find it.
#[test]
fn bytecode_of_one_check_is_not_found_by_another() {
    let env = TestEnvironment::new();
    env.raw_config(
        "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\nunmetered = true\n\
         [agent.config]\nprogram = [\"@AGENT@\"]\n[limits]\nmax_iterations = 2\n\
         [[validator]]\nkind = \"command\"\nname = \"build\"\nprogram = [\"python3\", \"build.py\"]\n\
         [[validator]]\nkind = \"command\"\nname = \"tests\"\n\
         program = [\"python3\", \"-m\", \"unittest\", \"discover\", \"-s\", \"tests\"]\n\
         protect = [\"tests/**\"]\n",
    );
    env.write("build.py", "pass\n");
    env.write(
        "tests/test_it.py",
        "import unittest, os\nclass T(unittest.TestCase):\n    def test(self):\n        \
         self.assertTrue(os.path.exists(\"done\"))\n",
    );
    let plant = "cat > build.py <<'END'
import importlib._bootstrap_external as b, marshal, os, sys
source = os.path.abspath('tests/test_it.py')
code = compile('import unittest\\nclass T(unittest.TestCase):\\n  def test(self): pass\\n', source, 'exec')
stat = os.stat(source)
path = importlib_cache = __import__('importlib.util', fromlist=['x']).cache_from_source(source)
os.makedirs(os.path.dirname(path), exist_ok=True)
open(path, 'wb').write(b._code_to_timestamp_pyc(code, int(stat.st_mtime), stat.st_size))
END
";
    env.agent.call(1).script(plant);
    env.agent.default_call().out(CLAIM);
    env.run().expect(1);
    assert_eq!(env.status()["latch"]["state"], "claimed");
}

/// What lies in a tool's folder below a protected glob counts, unless it is the tool's own.
#[test]
fn code_in_the_folder_of_a_tool_is_no_cache() {
    for file in
        ["tests/__pycache__/evil.py", "tests/.pytest_cache/conftest.py", "tests/__pycache__/a/b.so"]
    {
        let env = protected_check("");
        let folder = std::path::Path::new(file).parent().unwrap().display().to_string();
        env.agent.call(1).script(&format!("touch done; mkdir -p {folder}; touch {file}\n"));
        env.agent.default_call().out(CLAIM);
        env.run().expect(0).says("the checks did not see these").says(file);
    }
}

/// The environment of the checks is as frozen as they are, also over a restart.
#[test]
fn an_agent_cannot_give_the_checks_another_environment() {
    let env = TestEnvironment::new();
    env.config("[limits]\nmax_iterations = 1\n");
    env.write("bin/test", "#!/bin/sh\nexit 0\n").write_mode("bin/test", 0o755);
    let path = format!("{}:/usr/bin:/bin", env.path("bin").display());
    env.agent
        .call(1)
        .script(&format!("printf '\\n[env]\\nset = {{ PATH = \"{path}\" }}\\n' >> ralph.toml\n"))
        .out(CLAIM);
    env.run().expect(1);
    let config = env.read("ralph.toml").replace("max_iterations = 1", "max_iterations = 2");
    env.write("ralph.toml", config);
    env.agent.default_call().out(CLAIM);
    env.run().expect(1).says("detectors, validators or their [env] were changed");
    assert_eq!(env.status()["latch"]["state"], "claimed");
}

/// A check that writes where it protects: no claim could ever be accepted.
#[test]
fn a_check_that_writes_below_its_own_protection_is_named_before_any_work() {
    let env = protected_check("");
    env.check_in_workspace();
    env.write("build.sh", "date > tests/out.log; sh ./tests/check.sh\n");
    env.agent.default_call().out(CLAIM);
    env.run()
        .expect(78)
        .says("nothing could be accepted: `tests` changed protected paths")
        .says("tests/out.log");
    assert_eq!(env.agent.calls(), 0);
}

/// It may be what the task makes, so that the run begins all the same.
#[test]
fn a_check_that_is_not_there_is_said_loudly_before_any_work() {
    let env = TestEnvironment::new();
    env.config(
        "\n[[validator]]\nkind = \"command\"\nname = \"missing\"\nprogram = [\"./nope.sh\"]\n",
    );
    env.agent
        .call(1)
        .script("touch done; printf '#!/bin/sh\\n' > nope.sh; chmod +x nope.sh\n")
        .out(CLAIM);
    let ended = env.run().expect(0);
    ended
        .says("warning: NOTHING CAN BE ACCEPTED as long as the check `missing` comes to no verdict")
        .says("`./nope.sh` could not be run");
}

#[test]
fn a_check_that_accepts_before_any_work_is_a_warning_and_said_at_the_end() {
    let env = TestEnvironment::new();
    env.write("done", "");
    env.agent.default_call().out(CLAIM);
    let ended = env.run().expect(0);
    ended
        .says("baseline: tests accepts the unchanged workspace")
        .says("a claim would complete the run at once");
    ended.says("completed: 1 iteration").says("every check had accepted the unchanged workspace");
    assert_eq!(env.records("baseline")[0]["accepted"], true);
}

#[test]
fn a_check_that_fails_before_any_work_is_as_it_should_be() {
    let env = TestEnvironment::new();
    env.agent.default_call().script("touch done\n");
    env.agent.default_call().out(CLAIM);
    let ended = env.run().expect(0);
    ended.says("baseline: tests rejects the unchanged workspace, as it should");
    assert!(!ended.stderr.contains("warning"), "{}", ended.stderr);
    assert_eq!(env.records("baseline")[0]["accepted"], false);
}

#[test]
fn baseline_must_fail_starts_no_agent_and_off_runs_no_check() {
    let env = TestEnvironment::new();
    env.config("[completion]\nbaseline = \"must_fail\"\n");
    env.write("done", "");
    env.agent.default_call().out(CLAIM);
    let ended = env.run().expect(78);
    ended.says("passes already, before any work, so it proves nothing; no agent was started");
    ended.says("next: correct what the check runs until it fails without the work");
    assert_eq!(env.agent.calls(), 0);
    // The check is mended; here, by what it looks at.
    std::fs::remove_file(env.path("done")).unwrap();
    env.agent.call(1).script("touch done\n");
    env.run().expect(0).says("completed");

    let env = TestEnvironment::new();
    env.config("[completion]\nbaseline = \"off\"\n");
    env.agent.default_call().script("touch done\n");
    env.agent.default_call().out(CLAIM);
    env.run().expect(0);
    assert!(env.records("baseline").is_empty());
}

#[test]
fn a_validator_that_cannot_check_is_reported_to_the_user_and_stops_the_run() {
    let env = TestEnvironment::new();
    env.raw_config(
        "[run]\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\nunmetered = true\n\
         [agent.config]\nprogram = [\"@AGENT@\"]\n[[validator]]\nkind = \"command\"\nname = \"tests\"\n\
         program = [\"sh\", \"-c\", \"./installed --all\"]\n",
    );
    env.agent.default_call().script("echo $n >> work\n");
    env.agent.default_call().out(CLAIM);
    let ended = env.run().expect(2);
    ended.says("warning: the validator `tests` reached no verdict").says("not found");
    ended.says("needs_human: the validator `tests` reached no verdict 3 times in a row");
    let warnings = ended.stderr.lines().filter(|line| line.trim_start().starts_with("warning:"));
    // One before any work, and one for each iteration.
    assert!(warnings.clone().count() == 4, "{}", ended.stderr);
    assert!(warnings.into_iter().all(|line| !line.contains("not found")), "said with the verdict");
    assert_eq!(env.agent.calls(), 3, "not thirty");
    let reported = String::from_utf8(env.agent.stdin(2)).unwrap();
    assert!(reported.contains("your work may not be the cause"), "{reported}");
    let why = env.ralph(&["why"]).expect(0);
    assert_eq!(why.stdout.matches("fix the validator `tests`").count(), 1, "{}", why.stdout);

    // Once it is mended, the run goes on, and the claim is validated first.
    env.write("installed", "#!/bin/sh\nexit 0\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(env.path("installed"), mode).unwrap();
    env.run().expect(0).says("completed");
    assert_eq!(env.agent.calls(), 3, "the claim was still pending");
}

#[test]
fn the_doctor_says_whether_checks_accept_before_any_work() {
    let env = TestEnvironment::new();
    let doctor = || env.ralph(&["doctor"]);
    doctor().expect(0).says("`tests` rejects the unchanged workspace, as it should");
    env.write("done", "");
    doctor()
        .expect(0)
        .says("accepted by tests, although nothing is done yet: a claim would complete");
    env.config("[completion]\nbaseline = \"must_fail\"\n");
    doctor().expect(78).says("FAIL  baseline").says("\"must_fail\"` lets no run begin");
    env.config("[completion]\nbaseline = \"off\"\n");
    doctor().expect(0).says("skip  baseline").says("the checks were not run");
    assert!(!env.has_state(), "nothing was begun");
}

#[test]
fn a_protected_file_that_a_person_changed_between_two_starts_is_named_and_nothing_is_started() {
    let env = protected_check("");
    env.agent.default_call().script("echo $n > x\n").out(CLAIM);
    env.write("tests/check.sh", "exit 1\n");
    let test = env.read("tests/check.sh");
    let unchanged = env.ralph(&["run", "--once"]).expect(0);
    assert!(!unchanged.stderr.contains("protected paths are not as they were"));
    // What a person asks of the run is no work of its agent.
    env.ralph(&["limits", "--max-iterations", "2"]).expect(0);
    for (kind, text) in [("modified", Some("true\n")), ("removed", None)] {
        match text {
            Some(text) => std::fs::write(env.path("tests/check.sh"), text).unwrap(),
            None => std::fs::remove_file(env.path("tests/check.sh")).unwrap(),
        }
        for arguments in [["run", "--dry-run"], ["run", "--once"]] {
            let refused = env.ralph(&arguments).expect(78);
            refused.says(&format!("`tests/check.sh` ({kind}); restore what was changed"));
            refused.says("if the change is yours, `run --restart`");
        }
        let why = env.ralph(&["why"]).expect(0);
        why.says(&format!("`tests/check.sh` ({kind}); restore what was changed"));
        why.says("yours, `run --restart`").says("once they are back:");
        env.write("tests/check.sh", &test);
    }
    assert_eq!(env.agent.calls(), 1);
    env.ralph(&["run", "--once"]).expect(1).says("max_iterations");
    assert_eq!(env.agent.calls(), 2);
}

#[test]
fn a_protected_file_that_changed_while_an_agent_worked_is_named_where_a_limit_ends_the_run() {
    let env = protected_check("");
    env.agent.default_call().script("echo $n > x; echo true > tests/check.sh\n").out(CLAIM);
    env.run().expect(1).says("next: put back what is protected as it was when the run began");
    env.ralph(&["why"]).expect(0).says("put back what is protected").says("tests/check.sh");
    env.ralph(&["limits", "--max-iterations", "4"]).expect(0);
    env.ralph(&["doctor"]).expect(0).says("warn  run").says("`tests/check.sh` (modified)");
}

#[test]
fn a_protected_file_that_the_agent_changed_is_named_when_the_run_goes_on() {
    let env = protected_check("");
    let config = env.read("ralph.toml").replace("max_iterations = 2", "max_stagnant = 2");
    env.write("ralph.toml", config);
    env.agent.call(1).script("echo $n > x; echo true > tests/check.sh\n").out(CLAIM);
    env.agent.default_call().script("echo $n > x\n").out(CLAIM);
    env.write("tests/check.sh", "exit 1\n");
    env.ralph(&["run", "--once"]).expect(0);
    let ended = env.run().expect(1);
    let (before, after) = ended.stderr.split_once("Iteration 2").unwrap();
    assert!(before.contains("`tests/check.sh` (modified); restore what was changed"), "{before}");
    let next = "put back what is protected as it was when the run began";
    assert!(after.contains(next), "{after}");
    ended.says(
        "if the change is yours, `ralph-orchestrator run --restart` begins a new run with it",
    );
    env.ralph(&["why"]).expect(0).says("put back what is protected");
    env.ralph(&["run", "--dry-run"]).expect(1).says("no iteration");
}

#[test]
fn an_agent_is_told_what_is_protected_although_its_command_shows_how_to_claim() {
    let env = TestEnvironment::new();
    env.write("tests/a.sh", "exit 1\n");
    env.raw_config(
        r#"
run = { prompt = "PROMPT.md", delay = "0s" }
limits = { max_iterations = 1 }
agent = { adapter = "command", unmetered = true, config = { program = ["sh", "-c", "cat > given; echo '<promise>COMPLETE: x</promise>'"] } }
validator = [{ kind = "command", program = ["sh", "tests/a.sh"], protect = ["tests/**"] }]
"#,
    );
    env.run().expect(1);
    let given = env.read("given");
    assert!(given.contains("do not change, add or remove any of them: tests/**"), "{given}");
    assert!(!given.contains("<promise>"), "{given}");
}

#[test]
fn what_was_added_is_to_be_removed_and_the_rest_restored() {
    for (script, remedy) in [
        ("echo x > checks/b.sh", "checks/b.sh (added); remove what was added"),
        (
            "echo x >> checks/a.sh; echo x > checks/b.sh",
            "checks/a.sh (modified), checks/b.sh (added); restore what was changed, and remove what was added",
        ),
    ] {
        let env = TestEnvironment::new();
        env.write("checks/a.sh", "test -e done\n");
        env.config(
            "[limits]\nmax_iterations = 1\n[validation]\nwhere = \"workspace\"\n[[validator]]\nkind = \"command\"\nname = \"t\"\n\
             program = [\"sh\", \"checks/a.sh\"]\nprotect = [\"checks/**\"]\n",
        );
        env.agent
            .default_call()
            .script(&format!("touch done; {script}\n"))
            .out("<promise>COMPLETE: x</promise>\n");
        env.run().expect(1).says(remedy);
    }
}
