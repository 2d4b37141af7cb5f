//! The checks that `init` writes, where every test is skipped or there is none.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use crate::environment::{Ended, TestEnvironment};

/// A repository, the tool that `init` finds there, and what that prints if all tests are skipped, and if
/// only some are.
struct Runner {
    files: &'static [(&'static str, &'static str)],
    tool: &'static str,
    skipped: &'static str,
    ran: &'static str,
}

const RUNNERS: &[Runner] = &[
    Runner {
        files: &[("Cargo.toml", ""), ("tests/a.rs", "")],
        tool: "cargo",
        skipped: "test result: ok. 0 passed; 0 failed; 3 ignored; 0 measured; 0 filtered out",
        ran: "test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out",
    },
    Runner {
        files: &[("go.mod", ""), ("a_test.go", "")],
        tool: "go",
        skipped: "=== RUN   TestA\n    a_test.go:5: later\n--- SKIP: TestA (0.00s)\nPASS\nok  \ta\t0.002s",
        ran: "--- SKIP: TestA (0.00s)\n--- PASS: TestB (0.00s)\nPASS\nok  \ta\t0.002s",
    },
    Runner {
        files: &[("go.mod", ""), ("a_test.go", "")],
        tool: "go",
        skipped: "testing: warning: no tests to run\nPASS\nok  \ta\t0.002s [no tests to run]",
        ran: "--- PASS: TestB (0.00s)\nPASS\nok  \ta\t(cached)",
    },
    Runner {
        files: &[("pom.xml", "")],
        tool: "mvn",
        skipped: "[WARNING] Tests run: 3, Failures: 0, Errors: 0, Skipped: 3",
        ran: "[WARNING] Tests run: 13, Failures: 0, Errors: 0, Skipped: 3",
    },
    Runner {
        files: &[("build.sbt", "")],
        tool: "sbt",
        skipped: "[info] Passed: Total 0, Failed 0, Errors 0, Passed 0, Ignored 3",
        ran: "[info] Passed: Total 1, Failed 0, Errors 0, Passed 1, Ignored 3",
    },
    Runner {
        files: &[(".rspec", ""), ("spec/a_spec.rb", "")],
        tool: "rspec",
        skipped: "3 examples, 0 failures, 3 pending",
        ran: "3 examples, 0 failures, 1 pending",
    },
    Runner {
        files: &[("Rakefile", ""), ("test/test_a.rb", "")],
        tool: "rake",
        skipped: "3 runs, 0 assertions, 0 failures, 0 errors, 3 skips",
        ran: "3 runs, 2 assertions, 0 failures, 0 errors, 1 skips",
    },
    Runner {
        files: &[("Rakefile", ""), ("test/test_a.rb", "")],
        tool: "rake",
        skipped: "2 tests, 0 assertions, 0 failures, 0 errors, 0 pendings, 2 omissions, 0 notifications",
        ran: "2 tests, 1 assertions, 0 failures, 0 errors, 0 pendings, 1 omissions, 0 notifications",
    },
    Runner {
        files: &[("mix.exs", "")],
        tool: "mix",
        skipped: "3 tests, 0 failures, 3 skipped",
        ran: "3 tests, 0 failures, 1 skipped",
    },
    Runner {
        files: &[("App.sln", "")],
        tool: "dotnet",
        skipped: "Skipped! - Failed:     0, Passed:     0, Skipped:     3, Total:     3",
        ran: "Passed!  - Failed:     0, Passed:     1, Skipped:     3, Total:     4",
    },
    Runner {
        files: &[("deno.json", "{}")],
        tool: "deno",
        skipped: "ok | 0 passed | 0 failed | 3 ignored (1ms)",
        ran: "ok | 1 passed | 0 failed | 3 ignored (1ms)",
    },
    Runner {
        files: &[("Package.swift", "")],
        tool: "swift",
        skipped: "Executed 3 tests, with 3 tests skipped and 0 failures (0 unexpected)\n\
                  Test run with 0 tests passed after 0.001 seconds.",
        ran: "Executed 3 tests, with 1 test skipped and 0 failures (0 unexpected)",
    },
    Runner {
        files: &[("Package.swift", "")],
        tool: "swift",
        skipped: "Test a() skipped.\nTest run with 1 test passed after 0.001 seconds.",
        ran: "Test a() passed after 0.001 seconds.\nTest run with 1 test passed after 0.001 seconds.",
    },
    Runner {
        files: &[("package.json", r#"{"scripts": {"test": "node --test"}}"#)],
        tool: "node",
        skipped: "# tests 3\n# pass 0\n# skipped 3",
        ran: "# tests 3\n# pass 1\n# skipped 2",
    },
    Runner {
        files: &[("package.json", r#"{"scripts": {"test": "jest"}}"#)],
        tool: "npx",
        skipped: "Test Suites: 1 skipped, 0 of 1 total\nTests:       3 skipped, 3 total",
        ran: "Test Suites: 1 passed, 1 total\nTests:       2 skipped, 1 passed, 3 total",
    },
    Runner {
        files: &[("package.json", r#"{"scripts": {"test": "vitest run"}}"#)],
        tool: "npx",
        skipped: " Test Files  1 skipped (1)\n      Tests  3 skipped (3)",
        ran: " Test Files  1 passed (1)\n      Tests  1 passed | 2 skipped (3)",
    },
    Runner {
        files: &[("package.json", r#"{"scripts": {"test": "mocha"}}"#)],
        tool: "npx",
        skipped: "  0 passing (2ms)\n  3 pending",
        ran: "  1 passing (2ms)\n  3 pending",
    },
    Runner {
        files: &[("package.json", r#"{"scripts": {"test": "jasmine"}}"#)],
        tool: "npx",
        skipped: "3 specs, 0 failures, 3 pending specs",
        ran: "3 specs, 0 failures, 1 pending spec",
    },
    Runner {
        files: &[("pyproject.toml", "pytest")],
        tool: "python3",
        skipped: "============ 3 skipped in 0.05s ============",
        ran: "============ 1 passed, 3 skipped in 0.05s ============",
    },
    Runner {
        files: &[("pyproject.toml", "pytest")],
        tool: "python3",
        skipped: "=========== 1 xfailed, 1 xpassed in 0.14s ===========",
        ran: "1 passed in 0.05s",
    },
    Runner {
        files: &[("manage.py", "")],
        tool: "python3",
        skipped: "test_a (a.tests.T.test_a) ... skipped 'later'\nRan 1 test in 0.001s\n\nOK (skipped=1)",
        ran: "test_a (a.tests.T.test_a)\nsays what it does ... ok\nRan 1 test in 0.001s\n\nOK",
    },
    Runner {
        files: &[("tox.ini", "[tox]\n[testenv]\ncommands = python -m unittest\n")],
        tool: "tox",
        skipped: "sss\n----\nRan 3 tests in 0.001s\n\nOK (skipped=3)\n  congratulations :)",
        ran: "s.s\n----\nRan 3 tests in 0.001s\n\nOK (skipped=2)\n  congratulations :)",
    },
    Runner {
        files: &[("Makefile", "all:\n\tcc a.c\ntest: all\n\t@cargo test -q\n")],
        tool: "make",
        skipped: "test result: ok. 0 passed; 0 failed; 3 ignored; 0 measured; 0 filtered out",
        ran: "test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out",
    },
    Runner {
        files: &[("build.gradle", "")],
        tool: "gradle",
        skipped: "> Task :test\n<testsuite name=\"T\" tests=\"3\" skipped=\"3\" failures=\"0\">",
        ran: "> Task :test\n<testsuite name=\"T\" tests=\"3\" skipped=\"2\" failures=\"0\">",
    },
    Runner {
        files: &[("phpunit.xml", ""), ("vendor/bin/phpunit", "#!/bin/sh\ncat out\n")],
        tool: "",
        skipped: "OK, but some tests were skipped!\nTests: 3, Assertions: 0, Skipped: 3.",
        ran: "OK, but some tests were skipped!\nTests: 3, Assertions: 2, Skipped: 1.",
    },
];

/// What `init` says of the check that it wrote, run once.
fn init(runner: &Runner, printed: &str) -> Ended {
    let mut env = TestEnvironment::new();
    fs::remove_file(env.path("ralph.toml")).unwrap();
    for (name, text) in runner.files {
        env.write(name, text);
        env.write_mode(name, 0o755);
    }
    env.write("out", printed);
    let bin = env.root().join("bin");
    fs::create_dir(&bin).unwrap();
    for name in ["sh", "cat", "find", "grep"] {
        let found = ["/bin", "/usr/bin"].map(|at| format!("{at}/{name}"));
        let found = found.iter().find(|path| fs::exists(path).unwrap()).unwrap();
        symlink(found, bin.join(name)).unwrap();
    }
    if !runner.tool.is_empty() {
        let path = bin.join(runner.tool).display().to_string();
        env.write(&path, "#!/bin/sh\ncat out\n").write_mode(&path, 0o755);
    }
    env.var("PATH", &bin.display().to_string());
    env.ralph(&["init"]).expect(0)
}

#[test]
fn skipped_tests_are_no_proof_and_some_that_ran_are() {
    for runner in RUNNERS {
        init(runner, &format!("{}\n", runner.skipped)).says("fails now, as it should");
        init(runner, &format!("{}\n", runner.ran)).says("already passes");
    }
}

/// The verdict of the check that `init` writes, by the real tools.
fn really(tools: &[&str], files: &[(&str, &str)]) -> Ended {
    let mut env = TestEnvironment::new();
    fs::remove_file(env.path("ralph.toml")).unwrap();
    for (name, text) in files {
        env.write(name, text);
    }
    let [program, args @ ..] = tools else { unreachable!() };
    let folder = Command::new(program).args(args).output().unwrap().stdout;
    let folder = String::from_utf8(folder).unwrap();
    env.var("PATH", &format!("{}:/usr/bin:/bin", folder.trim()));
    env.ralph(&["init"]).expect(0)
}

#[test]
fn a_real_unittest_that_skips_all_is_refused() {
    let python = ["python3", "-c", "import sys; print(sys.prefix + '/bin')"];
    let tests = "import sys, unittest\n\nclass T(unittest.TestCase):\n    @unittest.skip('later')\n    \
                 def test_a(self):\n        pass\n";
    let refused = "fails now, as it should (no line of its output matches";
    really(&python, &[("tests/test_a.py", tests)]).says(refused);
    really(&python, &[("tests/test_a.py", "import unittest\n")]).says("fails now, as it should");
    for more in ["pass", "sys.stderr.write('noise\\n')", "'says what it does'"] {
        let tests = format!("{tests}\n    def test_b(self):\n        {more}\n");
        really(&python, &[("tests/test_a.py", &tests)]).says("already passes");
    }
}

#[test]
fn a_real_cargo_test_and_node_test_that_skip_all_are_refused() {
    let cargo = ["sh", "-c", "echo $(rustc --print sysroot)/bin"];
    let manifest =
        ("Cargo.toml", "[package]\nname = \"a\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
    let ignored = "#[test]\n#[ignore]\nfn a() {}\n";
    really(&cargo, &[manifest, ("src/lib.rs", ""), ("tests/a.rs", ignored)])
        .says("fails now, as it should (no line of its output matches");
    let node = ["node", "-p", "require('path').dirname(process.execPath)"];
    let package = ("package.json", r#"{"scripts": {"test": "node --test"}}"#);
    let skipped = "require('node:test').skip('a', () => {});\n";
    really(&node, &[package, ("test/a.test.js", skipped)])
        .says("fails now, as it should (no line of its output matches");
}

#[test]
fn a_runner_that_the_user_named_says_what_it_skips() {
    let env = TestEnvironment::new();
    let init = |check| {
        env.ralph(&["init", "--force", "--no-run", "--test", check]).expect(0);
        env.read("ralph.toml")
    };
    assert!(init("go test ./a").contains(r#"program = ["go", "test", "-v", "./a"]"#));
    assert!(init("python3 -m unittest a").contains(r#"["python3", "-m", "unittest", "a", "-v"]"#));
    assert!(init("go test -v ./a").contains(r#"program = ["go", "test", "-v", "./a"]"#));
}
