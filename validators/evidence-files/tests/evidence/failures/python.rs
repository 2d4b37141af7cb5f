//! unittest, pytest, and tracebacks of CPython.

use super::Reported;

pub(super) const UNITTEST: &str = r#"FE.
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

pub(super) const PYTEST: &str =
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

pub(super) const PYTEST_OK: &str =
    "============================= test session starts ==============================
collected 3 items

tests/test_a.py::test_failed_login PASSED                                [ 33%]
tests/test_a.py::test_errors_are_shown PASSED                            [ 66%]
tests/test_a.py::test_later XFAIL (not yet)                              [100%]

=========================== short test summary info ============================
XFAIL tests/test_a.py::test_later - not yet
=================== 2 passed, 1 xfailed, 3 warnings in 0.12s ===================
";

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

pub(super) const REPORTED: &[Reported] = &[
    ("u.txt", UNITTEST, 23, "FAILED (failures=1, errors=1)"),
    ("u.txt", "FAILED (unexpected successes=1)", 1, "FAILED (unexpected successes=1)"),
    ("u.txt", "FAILED (errors=1, skipped=2)\r\n", 1, "FAILED (errors=1, skipped=2)"),
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
    ("t.txt", TRACEBACK, 6, "RuntimeError: multi"),
    ("t.txt", RECURSION, 5, "RecursionError: maximum"),
    ("t.txt", SYNTAX, 6, "SyntaxError: invalid syntax"),
    ("t.txt", GROUP, 6, "| ExceptionGroup: many (2 sub-exceptions)"),
];

pub(super) const NOT_REPORTED: &[(&str, &str)] = &[
    ("p.txt", PYTEST_OK),
    ("u.txt", UNITTEST_OK),
    ("w.txt", "=== 5 passed, 1 warning in 0.02s ===\n0 failed, 5 passed in 0.02s\n"),
    ("w.txt", "=== 0 errors in 0.02s ===\n"),
    ("w.txt", "FAILED tests/test_a.py::test_bad - was so before\n"),
    ("w.txt", "Ran 3 tests in 0.001s\n\nOK (skipped=1, expected failures=1)\n"),
    ("w.txt", "FAILED (skipped=1)\nFAILED (failures=0, errors=0)\n"),
    (
        "w.txt",
        "> Traceback (most recent call last):\n>   File \"a.py\", line 1, in f\n> KeyError: 1\n",
    ),
    ("w.txt", "Traceback (most recent call last):\nis what it printed before.\n"),
    ("w.txt", "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nand so on\n"),
    ("w.txt", "Traceback (most recent call last):\n  in my notes\nKeyError: 1\n"),
];
