//! TAP, as `node --test` and others print it.

use super::Reported;

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

pub(super) const REPORTED: &[Reported] = &[
    ("t.txt", NODE_TAP, 8, "not ok 2 - bad"),
    ("t.txt", "1..2\nok 1\nnot ok 2 - c # TODOS\n", 3, "not ok 2 - c # TODOS"),
    ("t.txt", "1..2\nok 1\nnot ok\n", 3, "not ok"),
    ("t.txt", "1..2\nok 1\nnot ok 2 - \\# TODO\n", 3, "not ok 2 - \\# TODO"),
    ("t.txt", "1..2\nok 1\nnot ok 2 - C# skip\n", 3, "not ok 2 - C# skip"),
    ("t.txt", "1..9\nok 1\nBail out! no database\n", 3, "Bail out! no database"),
];

pub(super) const NOT_REPORTED: &[(&str, &str)] = &[
    ("t.txt", NODE_TAP_OK),
    ("w.txt", "ok 1\nnot ok 2 - it is no TAP without a plan\n"),
    ("w.txt", "1..2\nok 1 - a\nnot ok 2 - b #3 # TODO soon\n"),
    ("w.txt", "1..2\nok 1 - a\n    not ok 1 - a subtest\nok 2 - b\n"),
];
