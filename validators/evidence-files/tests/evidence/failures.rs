//! Evidence that says itself that something failed.
//!
//! Outputs of unittest, cargo test, cargo-nextest, `node --test`, and CPython's tracebacks are as
//! these programs printed them; those of the other tools are written after them.

use orchestrator::contract::Verdict;
use proptest::prelude::*;
use serde_json::json;

use crate::Place;

const UNITTEST: &str = r#"FE.
======================================================================
ERROR: test_err (__main__.T.test_err)
----------------------------------------------------------------------
Traceback (most recent call last):
  File "/tmp/out/test_a.py", line 5, in test_err
    def test_err(self): raise KeyError("x")
                        ^^^^^^^^^^^^^^^^^^^
KeyError: 'x'

======================================================================
FAIL: test_bad (__main__.T.test_bad)
----------------------------------------------------------------------
Traceback (most recent call last):
  File "/tmp/out/test_a.py", line 4, in test_bad
    def test_bad(self): self.assertEqual(1,2)
                        ^^^^^^^^^^^^^^^^^^^^^
AssertionError: 1 != 2

----------------------------------------------------------------------
Ran 3 tests in 0.001s

FAILED (failures=1, errors=1)
"#;

const CARGO: &str = "
running 4 tests
test bad ... FAILED
test boom - should panic ... ok
test good ... ok

failures:

---- bad stdout ----

thread 'bad' (22080) panicked at src/lib.rs:2:20:
assertion `left == right` failed
  left: 1
 right: 2
note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.


failures:
    bad

test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s

error: test failed, to rerun pass `--lib`
";

/// A test that is to panic, run with `--nocapture`.
const CARGO_OK: &str = "
running 1 test

thread 'boom' (22138) panicked at src/lib.rs:1:37:
x
test boom - should panic ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.08s

   Doc-tests rs

running 0 tests

test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

const NEXTEST: &str = "  Cancelling due to test failure: 
────────────
     Summary [   0.129s] 2 tests run: 1 passed, 1 failed, 0 skipped
        FAIL [   0.127s] (2/2) rs bad
error: test run failed
";

const PYTEST: &str =
    "============================= test session starts ==============================
platform linux -- Python 3.12.1, pytest-8.3.4, pluggy-1.5.0
rootdir: /work
collected 5 items

tests/test_a.py ..FFF                                                    [100%]

=================================== FAILURES ===================================
___________________________________ test_bad ___________________________________

    def test_bad():
>       assert 1 == 2
E       assert 1 == 2

tests/test_a.py:5: AssertionError
=========================== short test summary info ============================
FAILED tests/test_a.py::test_bad - assert 1 == 2
========================= 3 failed, 2 passed in 1.20s ==========================
";

const PYTEST_OK: &str =
    "============================= test session starts ==============================
collected 3 items

tests/test_a.py::test_failed_login PASSED                                [ 33%]
tests/test_a.py::test_errors_are_shown PASSED                            [ 66%]
tests/test_a.py::test_later XFAIL (not yet)                              [100%]

=========================== short test summary info ============================
XFAIL tests/test_a.py::test_later - not yet
=================== 2 passed, 1 xfailed, 3 warnings in 0.12s ===================
";

const GO: &str = "=== RUN   TestAdd
=== RUN   TestAdd/negative
    add_test.go:12: got 3, want 4
--- FAIL: TestAdd (0.00s)
    --- FAIL: TestAdd/negative (0.00s)
FAIL
exit status 1
FAIL\texample.com/add\t0.003s
FAIL
";

const GO_OK: &str = "=== RUN   TestFail
--- PASS: TestFail (0.00s)
=== RUN   TestFailing/negative
--- SKIP: TestFailing/negative (0.00s)
PASS
ok  \texample.com/add\t0.003s
?   \texample.com/add/cmd\t[no test files]
";

const JEST: &str = "FAIL src/sum.test.js
  ✕ adds (3 ms)

  ● adds

    expect(received).toBe(expected) // Object.is equality

Test Suites: 1 failed, 1 passed, 2 total
Tests:       1 failed, 2 passed, 3 total
Snapshots:   0 total
Time:        0.512 s
Ran all test suites.
";

const JEST_OK: &str = "PASS src/fail.test.js
  ✓ 1 failed, 2 passed (3 ms)

Test Suites: 2 passed, 2 total
Tests:       1 todo, 3 passed, 4 total
Snapshots:   1 passed, 1 total
Time:        0.512 s
";

const VITEST: &str = " ❯ src/sum.test.ts (3)
   × adds

 Test Files  1 failed | 1 passed (2)
      Tests  1 failed | 2 passed (3)
   Start at  12:00:00
   Duration  312ms
";

const VITEST_OK: &str = " ✓ src/fail.test.ts (3)

 Test Files  2 passed (2)
      Tests  3 passed | 1 skipped (4)
Type Errors  no errors
   Duration  312ms
";

const MOCHA: &str = "

  sum
    ✔ adds
    1) subtracts

  1 passing (5ms)
  2 failing

  1) sum
       subtracts:
     AssertionError [ERR_ASSERTION]: 1 == 2
";

const NODE_TAP: &str = "TAP version 13
# Subtest: good
ok 1 - good
  ---
  duration_ms: 1.514303
  ...
# Subtest: bad
not ok 2 - bad
  ---
  duration_ms: 1.214722
  failureType: 'testCodeFailure'
  error: '1 == 2'
  ...
1..2
# tests 2
# pass 1
# fail 1
";

const NODE_TAP_OK: &str = "TAP version 13
# Subtest: good
ok 1 - good
# Subtest: later
not ok 2 - later # TODO
  ---
  error: '1 == 2'
  ...
# Subtest: off
not ok 3 - off # skip no network
ok 4 - not ok 4 - bad
1..4
# tests 4
# pass 2
# fail 0
";

const NODE_SPEC: &str = "✔ good (1.2ms)
✖ bad (1.1ms)
ℹ tests 2
ℹ suites 0
ℹ pass 1
ℹ fail 1
ℹ cancelled 0
";

const NODE_SPEC_OK: &str = "✔ fail 1 (1.2ms)
ℹ tests 1
ℹ pass 1
ℹ fail 0
ℹ cancelled 0
";

const NODE_JUNIT: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<testsuites>
	<testcase name="good" time="0.001267" classname="test"/>
	<testcase name="bad" time="0.001139" classname="test" failure="1 == 2">
		<failure type="testCodeFailure" message="1 == 2">
[Error [ERR_TEST_FAILURE]: 1 == 2] {
}
		</failure>
	</testcase>
	<!-- tests 2 -->
</testsuites>
"#;

/// What is to be done later may fail.
const NODE_JUNIT_OK: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<testsuites>
	<testcase name="good" time="0.001267" classname="test"/>
	<testcase name="later" time="0.000194" classname="test" failure="1 == 2">
		<skipped type="todo" message="true"/>
		<failure type="testCodeFailure" message="1 == 2">
		</failure>
	</testcase>
	<!-- fail 1 <failure/> -->
</testsuites>
"#;

const JUNIT: &str = r#"<?xml version="1.0"?>
<!-- by pytest -->
<testsuites name='all > none'>
  <testsuite name="a > b" tests='3'
      errors = "0" failures='1' time="0.1">
    <testcase name="x"><failure message="no"/></testcase>
  </testsuite>
</testsuites>
"#;

const JUNIT_OK: &str = r#"<?xml version="1.0"?>
<!DOCTYPE testsuites [<!ENTITY failures "3">]>
<testsuites name='failures="3"' failures="0" errors="">
  <testsuite name="failure" tests="1" failures="0" errors="0" data-failures="2">
    <properties><property name="failures" value="7"/></properties>
    <testcase name="error"><system-out><![CDATA[
FAILED (failures=1)
<testsuite failures="9">
test result: FAILED. 0 passed; 1 failed; 0 ignored
]]></system-out>
<system-err>
Traceback (most recent call last):
  File "a.py", line 1, in f
KeyError: 1
</system-err></testcase>
  </testsuite>
</testsuites>
"#;

const TRACEBACK: &str = r#"starting
Traceback (most recent call last):
  File "/app/main.py", line 3, in <module>
    raise RuntimeError("multi\nline") from e
    ~~~~~^^^^^^^^^^
RuntimeError: multi
line
"#;

const RECURSION: &str = r#"Traceback (most recent call last):
  File "<stdin>", line 10, in <module>
  File "<stdin>", line 9, in r
  [Previous line repeated 996 more times]
RecursionError: maximum recursion depth exceeded
"#;

const SYNTAX: &str = r#"Traceback (most recent call last):
  File "<stdin>", line 17, in <module>
  File "x.py", line 1
    a b
      ^
SyntaxError: invalid syntax
"#;

const GROUP: &str = r#"  + Exception Group Traceback (most recent call last):
  |   File "<stdin>", line 5, in <module>
  |   File "/usr/lib/python3.11/asyncio/runners.py", line 190, in run
  |     return runner.run(main)
  |            ^^^^^^^^^^^^^^^^
  | ExceptionGroup: many (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | ValueError: a
    +------------------------------------
"#;

/// A passing test of an error path logs what it caught.
const UNITTEST_OK: &str = r#"ERROR:root:as expected
Traceback (most recent call last):
  File "/work/test_a.py", line 4, in test_errors
    raise KeyError("x")
KeyError: 'x'
.
----------------------------------------------------------------------
Ran 1 test in 0.001s

OK
"#;

const CURL: &str = "HTTP/1.1 503 Service Unavailable\r
content-type: application/json\r
\r
{}\r
";

const CURL_OK: &str = "> GET /error/500 HTTP/1.1
< HTTP/1.1 200 OK
< content-length: 2
GET /error 200
GET /HTTP/1.1 500 times
";

/// Name, content, the line that is named, and its text.
type Reported = (&'static str, &'static str, usize, &'static str);

const REPORTED: &[Reported] = &[
    ("u.txt", UNITTEST, 23, "FAILED (failures=1, errors=1)"),
    ("u.txt", "FAILED (unexpected successes=1)", 1, "FAILED (unexpected successes=1)"),
    ("u.txt", "FAILED (errors=1, skipped=2)\r\n", 1, "FAILED (errors=1, skipped=2)"),
    ("c.txt", CARGO, 21, "test result: FAILED. 2 passed; 1 failed; 0 ignored"),
    ("n.txt", NEXTEST, 3, "Summary [   0.129s] 2 tests run: 1 passed, 1 failed, 0 skipped"),
    ("p.txt", PYTEST, 18, "========================= 3 failed, 2 passed in 1.20s"),
    ("p.txt", "1 failed, 4 passed in 0.02s", 1, "1 failed, 4 passed in 0.02s"),
    ("p.txt", "=== 1 failed, 1 error in 62.01s (0:01:02) ===", 1, "=== 1 failed, 1 error"),
    ("p.txt", "=== 5 passed, 2 warnings, 1 error in 3.1 seconds ===", 1, "=== 5 passed"),
    ("p.txt", "ok\n=== FAILURES ===\n...", 2, "=== FAILURES ==="),
    ("p.txt", "=== ERRORS ===\n", 1, "=== ERRORS ==="),
    (
        "p.txt",
        "!!!!!!!!! Interrupted: 1 error during collection !!!!!!!!!!",
        1,
        "!!!!!!!!! Interrupted: 1 error",
    ),
    (
        "p.txt",
        "=== short test summary info ===\nERROR tests/test_b.py - ImportError: x\n",
        2,
        "ERROR tests/test_b.py - ImportError: x",
    ),
    ("g.txt", GO, 4, "--- FAIL: TestAdd (0.00s)"),
    ("g.txt", "FAIL\texample.com/add [build failed]\n", 1, "FAIL\\texample.com/add [build failed]"),
    ("g.txt", "# make test\nFAIL\n", 2, "FAIL"),
    ("j.txt", JEST, 8, "Test Suites: 1 failed, 1 passed, 2 total"),
    ("j.txt", "Tests:       1 failed, 2 passed, 3 total", 1, "Tests:       1 failed, 2 passed"),
    ("v.txt", VITEST, 4, "Test Files  1 failed | 1 passed (2)"),
    ("v.txt", "      Tests  1 failed | 2 passed (3)\n", 1, "Tests  1 failed | 2 passed (3)"),
    ("v.txt", "     Errors  1 error\n", 1, "Errors  1 error"),
    ("m.txt", MOCHA, 8, "2 failing"),
    ("t.txt", NODE_TAP, 8, "not ok 2 - bad"),
    ("t.txt", "1..2\nok 1\nnot ok 2 - c # TODOS\n", 3, "not ok 2 - c # TODOS"),
    ("t.txt", "1..2\nok 1\nnot ok\n", 3, "not ok"),
    ("t.txt", "1..2\nok 1\nnot ok 2 - \\# TODO\n", 3, "not ok 2 - \\# TODO"),
    ("t.txt", "1..2\nok 1\nnot ok 2 - C# skip\n", 3, "not ok 2 - C# skip"),
    ("t.txt", "1..9\nok 1\nBail out! no database\n", 3, "Bail out! no database"),
    ("s.txt", NODE_SPEC, 6, "ℹ fail 1"),
    ("x.xml", NODE_JUNIT, 5, "<failure type=\"testCodeFailure\" message=\"1 == 2\">"),
    ("x.txt", NODE_JUNIT, 5, "<failure type="),
    ("x.xml", JUNIT, 4, "<testsuite name=\"a > b\" tests='3'"),
    ("x.xml", "<testsuite tests=\"1\" errors=\"2\"/>", 1, "<testsuite tests="),
    (
        "x.xml",
        "<testsuite><testcase name='a'><error/></testcase></testsuite>",
        1,
        "<testsuite><testcase name='a'><error/>",
    ),
    ("t.txt", TRACEBACK, 6, "RuntimeError: multi"),
    ("t.txt", RECURSION, 5, "RecursionError: maximum"),
    ("t.txt", SYNTAX, 6, "SyntaxError: invalid syntax"),
    ("t.txt", GROUP, 6, "| ExceptionGroup: many (2 sub-exceptions)"),
    (
        "r.txt",
        "thread 'main' panicked at src/main.rs:2:5:\nboom\n",
        1,
        "thread 'main' panicked at src/main.rs:2:5:",
    ),
    ("r.txt", "thread '<unnamed>' panicked at 'boom', src/main.rs:2:5\n", 1, "thread '<unnamed>'"),
    ("r.txt", "thread 'a' (77) panicked at /x y/b.rs:2:5:\nboom\n", 1, "thread 'a' (77)"),
    ("h.txt", CURL, 1, "HTTP/1.1 503 Service Unavailable"),
    ("h.txt", "HTTP/2 502 \n", 1, "HTTP/2 502"),
    ("h.txt", "* TLS\n< HTTP/1.1 500 Internal Server Error\n", 2, "< HTTP/1.1 500"),
    ("i.txt", "$ ./test.sh\nFAILED: 12 tests failed\n", 2, "FAILED: 12 tests failed"),
    ("i.txt", "FAILED: 1 test failed", 1, "FAILED: 1 test failed"),
    ("a.json", "{\"status\":\"fail\"}", 1, "{\"status\":\"fail\"}"),
    (
        "a.json",
        "{\n \"n\": 3,\n \"Status\": 1,\n \"status\" : \"FAILED\"\n}",
        4,
        "\"status\" : \"FAILED\"",
    ),
    ("a.json", "\u{feff}{\"status\":\"Error\"}", 1, ""),
    ("a.json", "{\"status\":\"failure\"}", 1, ""),
    ("a.json", "{\"status\": 500, \"a\": [1, 2]}", 1, ""),
    ("a.json", "{\"a\": {\"ok\": true}, \"status_code\": 599}", 1, ""),
    ("a.json", "{\"statusCode\":503}", 1, ""),
    ("a.json", "{\"st\\u0061tus\":\"f\\u0061il\"}", 1, ""),
    ("a.json", "{\"ok\":false}", 1, ""),
    ("a.json", "{\"success\" :\nfalse\n}", 1, ""),
    ("a.json", "{\"passed\":false,\"a\":\"}\"}", 1, ""),
    ("a.json", "{\"ok\":true,\"ok\":false}", 1, ""),
    ("a.txt", "{\"status\":\"fail\"}\n", 1, ""),
    (
        "c.txt",
        "\u{1b}[31m\u{1b}[1m=== \u{1b}[31m\u{1b}[1m3 failed\u{1b}[0m, \u{1b}[32m2 passed\u{1b}[0m\u{1b}[31m in 1.20s\u{1b}[0m\u{1b}[31m ===\u{1b}[0m\r\n",
        1,
        "=== 3 failed, 2 passed in 1.20s ===",
    ),
    ("c.txt", "\u{feff}FAIL\r\n", 1, "FAIL"),
    ("c.txt", "1 %\r50 %\rFAILED (errors=1)", 1, "FAILED (errors=1)"),
    (
        "c.txt",
        "test result: \u{1b}[31mFAILED\u{1b}(B\u{1b}[m. 0 passed; 1 failed; 0 ignored",
        1,
        "",
    ),
];

const NOTHING_REPORTED: &[(&str, &str)] = &[
    ("p.txt", PYTEST_OK),
    ("c.txt", CARGO_OK),
    ("g.txt", GO_OK),
    ("j.txt", JEST_OK),
    ("v.txt", VITEST_OK),
    ("t.txt", NODE_TAP_OK),
    ("s.txt", NODE_SPEC_OK),
    ("x.xml", NODE_JUNIT_OK),
    ("x.xml", JUNIT_OK),
    ("u.txt", UNITTEST_OK),
    ("h.txt", CURL_OK),
    ("m.txt", "  2 passing (5ms)\n  0 failing\n"),
    ("m.txt", "  2 failing\n"),
    ("m.txt", "  1 passing (5ms)\nmocha said:   2 failing\n 2 failing\n"),
    ("w.txt", "errors: 0\n0 failed\n0 failing\nfailures: 0\n"),
    ("w.txt", "GET /error 200\nGET /status/500 200 3ms\n"),
    ("w.txt", "error error ERROR Error: the word alone says nothing\nFAILED\nfailed\nFATAL\n"),
    ("w.txt", "test_failed_login PASSED\ntest failed_login ... ok\n"),
    (
        "w.txt",
        "Fixed: the server no longer answers 500 or prints `Traceback (most recent call last):`",
    ),
    ("w.txt", "WARN 3 failed, 2 passed in 1.2s was the result of last week\n"),
    (
        "w.txt",
        "FAILED: 0 tests failed\nPASSED: 12 tests\nFAILED: 12 tests failed in June, none today\n",
    ),
    ("w.txt", "=== 5 passed, 1 warning in 0.02s ===\n0 failed, 5 passed in 0.02s\n"),
    ("w.txt", "=== 0 errors in 0.02s ===\n"),
    ("w.txt", "FAILED tests/test_a.py::test_bad - was so before\n"),
    ("w.txt", "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n"),
    ("w.txt", "     Summary [   0.129s] 2 tests run: 2 passed, 0 failed, 1 skipped\n"),
    ("w.txt", "Ran 3 tests in 0.001s\n\nOK (skipped=1, expected failures=1)\n"),
    ("w.txt", "FAILED (skipped=1)\nFAILED (failures=0, errors=0)\n"),
    ("w.txt", "Tests:       3 passed, 3 total\nTests: 1 failed\n"),
    ("w.txt", "Tests  1 failed, 2 passed (3)\n"),
    ("w.txt", "ok 1\nnot ok 2 - it is no TAP without a plan\n"),
    ("w.txt", "1..2\nok 1 - a\nnot ok 2 - b #3 # TODO soon\n"),
    ("w.txt", "1..2\nok 1 - a\n    not ok 1 - a subtest\nok 2 - b\n"),
    ("w.txt", "    --- FAIL: TestAdd (0.00s)\n> FAIL\n  FAIL\nFAIL: it was so\n"),
    (
        "w.txt",
        "> Traceback (most recent call last):\n>   File \"a.py\", line 1, in f\n> KeyError: 1\n",
    ),
    ("w.txt", "Traceback (most recent call last):\nis what it printed before.\n"),
    ("w.txt", "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nand so on\n"),
    ("w.txt", "Traceback (most recent call last):\n  in my notes\nKeyError: 1\n"),
    ("w.txt", "it said: thread 'main' panicked at src/main.rs:2:5:\nthread 'main' panicked\n"),
    (
        "w.txt",
        "HTTP/1.1 200 OK\nHTTP/1.1 404 Not Found\nHTTP/1.1 5000\nHTTP/1.1 5xx\n  HTTP/1.1 500\n",
    ),
    ("a.json", "{\"status\":\"ok\",\"errors\":0,\"failed\":0,\"error\":null}"),
    ("a.json", "{\"result\":{\"status\":\"fail\",\"ok\":false}}"),
    ("a.json", "[{\"status\":\"fail\"}]"),
    ("a.json", "{\"cases\":[{\"ok\":false}],\"ok\":true}"),
    ("a.json", "{\"a\":\"\\\"status\\\":\\\"fail\\\"\",\"b\":\"{\",\"status\":\"passed\"}"),
    ("a.json", "{\"status\":200,\"status_code\":404,\"statusCode\":5000}"),
    ("a.json", "{\"status\":\"failover\",\"success\":null,\"passed\":0}"),
    ("a.json", "{\"status\":[\"fail\"],\"ok\":{\"a\":false}}"),
    ("a.json", "\"FAIL\""),
    ("a.txt", "{\"status\":\"fail\"} was the answer last week, now it is ok"),
    ("x.xml", "<report failures=\"3\"><testsuite failures=\"2\"/></report>"),
    ("x.xml", "<testsuite failures=\"none\" errors='-1'><failure/></testsuite>"),
    ("x.xml", "<testsuitex failures=\"3\"/>"),
];

fn config() -> serde_json::Value {
    json!({"min_files": 1, "extensions": ["txt", "json", "xml", "md"]})
}

#[test]
fn names_the_line_that_reports_a_failure() {
    let mut wrong = Vec::new();
    for (name, content, line, text) in REPORTED {
        let place = Place::new();
        place.write(name, content);
        let start = format!("`{name}` line {line} reports a failure");
        let told = match place.verdict(config()) {
            Verdict::Rejected { reasons } => reasons,
            verdict => vec![format!("{verdict:?}")],
        };
        if told.len() != 1 || !told[0].starts_with(&start) || !told[0].contains(text) {
            wrong.push(format!("{content}\n  expected {start}: {text}\n  told {told:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), REPORTED.len(), wrong.join("\n\n"));
}

#[test]
fn takes_no_word_for_a_report() {
    let mut wrong = Vec::new();
    for (name, content) in NOTHING_REPORTED {
        let place = Place::new();
        place.write(name, content);
        let verdict = place.verdict(config());
        if !verdict.is_accepted() {
            wrong.push(format!("{content}\n  {verdict:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn a_passing_run_with_the_same_words_takes_its_place() {
    let place = Place::new();
    place.write_three().write("more.txt", PYTEST);
    let reasons = place.reasons(json!({}));
    assert_eq!(reasons.len(), 1, "{reasons:?}");
    assert!(reasons[0].contains("pytest") && reasons[0].contains("reports_failure"), "{reasons:?}");
    place.write("more.txt", PYTEST_OK);
    assert!(place.verdict(json!({})).is_accepted());
}

#[test]
fn may_be_allowed() {
    let place = Place::new();
    place.write("a.txt", UNITTEST).write("b.json", "{\"ok\":false}").write("c.txt", CARGO);
    assert_eq!(place.reasons(json!({})).len(), 3);
    assert!(place.verdict(json!({"reports_failure": "allow"})).is_accepted());
    assert!(!place.verdict(json!({"reports_failure": "reject"})).is_accepted());
}

#[test]
fn stale_evidence_reports_nothing() {
    let place = Place::new();
    place.write_three().write("old.txt", UNITTEST).seen(UNITTEST, 0);
    assert!(place.verdict(json!({})).is_accepted());
}

#[test]
fn the_quoted_line_is_cut_and_harmless() {
    let place = Place::new();
    let long = format!("FAILED (failures=1{})", ", skipped=1".repeat(100));
    place.write("a.txt", format!("{long}\n"));
    let reason = &place.reasons(config())[0];
    let quoted = reason.split('`').nth(3).unwrap();
    assert_eq!(quoted.chars().count(), 121, "{quoted}");
    assert!(quoted.ends_with('…') && reason.contains("again"), "{reason}");

    place.write("a.txt", "HTTP/1.1 500 \u{202e}dlo\u{7}\n");
    let reason = &place.reasons(config())[0];
    assert!(reason.contains("HTTP/1.1 500 \\u{202e}dlo"), "{reason}");
    assert!(!reason.chars().any(char::is_control), "{reason:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Pieces of all the forms, in any order and damaged anywhere.
    #[test]
    fn any_text_is_survived(
        picks in prop::collection::vec((0..REPORTED.len(), any::<prop::sample::Index>(), any::<char>()), 1..6),
        name in "[a-z]{1,5}\\.(txt|xml|md)",
    ) {
        let mut text = String::from("x");
        for (pick, at, c) in picks {
            let mut piece: Vec<char> = REPORTED[pick].1.chars().collect();
            let at = at.index(piece.len());
            piece[at] = if c == '\0' { '<' } else { c };
            text.extend(piece);
        }
        let place = Place::new();
        place.write(name, &text);
        let checked = !matches!(place.verdict(config()), Verdict::Error { .. });
        prop_assert!(checked);
    }

    /// What stands before and after a report, on lines of its own, does not hide it.
    #[test]
    fn a_report_is_found_among_other_lines(
        before in "([a-z ]{0,20}\n){0,5}", after in "(\n[a-z ]{0,20}){0,5}",
        pick in 0..3_usize,
    ) {
        let report = ["FAILED (failures=1)", "3 failed, 1 passed in 0.10s", "FAIL\tpkg\t0.1s"][pick];
        let place = Place::new();
        place.write("a.txt", format!("{before}{report}{after}"));
        let reasons = place.reasons(config());
        let line = before.matches('\n').count() + 1;
        prop_assert!(reasons[0].starts_with(&format!("`a.txt` line {line} reports")), "{reasons:?}");
    }
}
