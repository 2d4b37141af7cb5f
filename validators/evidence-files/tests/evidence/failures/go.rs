//! go test.

use super::Reported;

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

pub(super) const REPORTED: &[Reported] = &[
    ("g.txt", GO, 4, "--- FAIL: TestAdd (0.00s)"),
    ("g.txt", "FAIL\texample.com/add [build failed]\n", 1, "FAIL\\texample.com/add [build failed]"),
    ("g.txt", "# make test\nFAIL\n", 2, "FAIL"),
];

pub(super) const NOT_REPORTED: &[(&str, &str)] = &[
    ("g.txt", GO_OK),
    ("w.txt", "    --- FAIL: TestAdd (0.00s)\n> FAIL\n  FAIL\nFAIL: it was so\n"),
];
