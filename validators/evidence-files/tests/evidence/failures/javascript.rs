//! jest, vitest, mocha, and the default output of `node --test`.

use super::Reported;

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

pub(super) const REPORTED: &[Reported] = &[
    ("j.txt", JEST, 8, "Test Suites: 1 failed, 1 passed, 2 total"),
    ("j.txt", "Tests:       1 failed, 2 passed, 3 total", 1, "Tests:       1 failed, 2 passed"),
    ("v.txt", VITEST, 4, "Test Files  1 failed | 1 passed (2)"),
    ("v.txt", "      Tests  1 failed | 2 passed (3)\n", 1, "Tests  1 failed | 2 passed (3)"),
    ("v.txt", "     Errors  1 error\n", 1, "Errors  1 error"),
    ("m.txt", MOCHA, 8, "2 failing"),
    ("s.txt", NODE_SPEC, 6, "ℹ fail 1"),
];

pub(super) const NOT_REPORTED: &[(&str, &str)] = &[
    ("j.txt", JEST_OK),
    ("v.txt", VITEST_OK),
    ("s.txt", NODE_SPEC_OK),
    ("m.txt", "  2 passing (5ms)\n  0 failing\n"),
    ("m.txt", "  2 failing\n"),
    ("m.txt", "  1 passing (5ms)\nmocha said:   2 failing\n 2 failing\n"),
    ("w.txt", "Tests:       3 passed, 3 total\nTests: 1 failed\n"),
    ("w.txt", "Tests  1 failed, 2 passed (3)\n"),
];
