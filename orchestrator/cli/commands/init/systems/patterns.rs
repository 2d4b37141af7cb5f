//! Lines by which test runners say that at least one test has passed.

pub(super) const CARGO: &str = r"test result: ok\. [1-9]\d* passed";
pub(super) const PYTEST: &str = r"\b[1-9]\d* passed\b";
pub(super) const UNITTEST: &str = r"^Ran [1-9]\d* tests? in ";
pub(super) const NODE: &str = r"^(#|ℹ) pass [1-9]";
pub(super) const BUN: &str = r"^\s*[1-9]\d* pass$";
pub(super) const GO: &str = r"^ok\s+\S+\s+(\(cached\)|[0-9.]+s)(\s+coverage:.*)?$";
pub(super) const MAVEN: &str = r"Tests run: [1-9]\d*, Failures: 0, Errors: 0";
pub(super) const GRADLE: &str = r"^> Task :(\S+:)?test( UP-TO-DATE| FROM-CACHE)?$";
pub(super) const SBT: &str = r"Passed: Total [1-9]";
pub(super) const RSPEC: &str = r"^[1-9]\d* examples?, 0 failures";
pub(super) const MINITEST: &str = r"^[1-9]\d* (runs|tests), .*\b0 failures, 0 errors";
pub(super) const MIX: &str = r"\b[1-9]\d* tests?, (.*, )?0 failures";
pub(super) const DOTNET: &str = r"(Passed|succeeded):\s+[1-9]";
pub(super) const DENO: &str = r"^ok \| [1-9]\d* passed";
pub(super) const SWIFT: &str =
    r"(Executed [1-9]\d* tests?, with 0 failures|Test run with [1-9]\d* tests? .*passed)";
pub(super) const CTEST: &str = r"100% tests passed, 0 tests failed out of [1-9]";
pub(super) const MESON: &str = r"^Ok:\s+[1-9]";
pub(super) const PHPUNIT: &str = r"^(OK \([1-9]\d* tests?|Tests: [1-9])";

/// Runners that scripts of a `package.json` name.
pub(super) const OF_SCRIPTS: [(&str, &str); 10] = [
    ("jest", r"^Tests:.*\b[1-9]\d* passed"),
    ("react-scripts", r"^Tests:.*\b[1-9]\d* passed"),
    ("vitest", r"^\s*Tests\s.*\b[1-9]\d* passed"),
    ("mocha", r"^\s*[1-9]\d* passing"),
    ("ava", r"\b[1-9]\d* tests? passed"),
    ("jasmine", r"^[1-9]\d* specs?, 0 failures"),
    ("playwright", r"^\s*[1-9]\d* passed"),
    ("tape", r"^# pass\s+[1-9]"),
    ("uvu", r"^\s*Passed:\s+[1-9]"),
    ("cypress", r"\b[1-9]\d* passing"),
];

/// Those of a command that the user named.
pub(super) fn of_command(program: &[String]) -> Vec<&'static str> {
    let words: Vec<&str> = program.iter().map(String::as_str).collect();
    let has = |word: &str| words.contains(&word);
    let one = match words.as_slice() {
        ["cargo", "test" | "t", ..] => Some(CARGO),
        ["go", "test", ..] => Some(GO),
        ["node", "--test", ..] => Some(NODE),
        ["mix", "test", ..] => Some(MIX),
        ["dotnet", "test", ..] => Some(DOTNET),
        ["deno", "test", ..] => Some(DENO),
        ["swift", "test", ..] => Some(SWIFT),
        ["bun", "test", ..] => Some(BUN),
        _ if has("pytest") => Some(PYTEST),
        _ if has("unittest") => Some(UNITTEST),
        _ if has("rspec") => Some(RSPEC),
        _ => None,
    };
    one.into_iter().collect()
}
