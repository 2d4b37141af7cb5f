//! cargo test, cargo-nextest, and panics.

use super::Reported;

pub(super) const CARGO: &str = "
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

pub(super) const REPORTED: &[Reported] = &[
    ("c.txt", CARGO, 21, "test result: FAILED. 2 passed; 1 failed; 0 ignored"),
    ("n.txt", NEXTEST, 3, "Summary [   0.129s] 2 tests run: 1 passed, 1 failed, 0 skipped"),
    (
        "r.txt",
        "thread 'main' panicked at src/main.rs:2:5:\nboom\n",
        1,
        "thread 'main' panicked at src/main.rs:2:5:",
    ),
    ("r.txt", "thread '<unnamed>' panicked at 'boom', src/main.rs:2:5\n", 1, "thread '<unnamed>'"),
    ("r.txt", "thread 'a' (77) panicked at /x y/b.rs:2:5:\nboom\n", 1, "thread 'a' (77)"),
];

pub(super) const NOT_REPORTED: &[(&str, &str)] = &[
    ("c.txt", CARGO_OK),
    ("w.txt", "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n"),
    ("w.txt", "     Summary [   0.129s] 2 tests run: 2 passed, 0 failed, 1 skipped\n"),
    ("w.txt", "it said: thread 'main' panicked at src/main.rs:2:5:\nthread 'main' panicked\n"),
];
