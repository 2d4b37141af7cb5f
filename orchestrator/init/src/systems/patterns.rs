//! Lines by which test runners say that at least one test has passed, and not that all were skipped.
//!
//! Where a runner counts skipped tests among those that it ran, the groups `ran` and `skipped` have both
//! numbers, which the validator compares.

pub(crate) const CARGO: &str = r"test result: ok\. [1-9]\d* passed";
const NEXTEST: &str = r"^\s*Summary \[.*\]\s+\d+(/\d+)? tests? run: [1-9]\d* passed";
pub(crate) const PYTEST: &str = r"\b[1-9]\d* passed\b";
/// A test of a verbose run, or the dots of one that is not. `OK (skipped=3)` may be all that there was.
pub(crate) const UNITTEST: &str = r"(^|\.\.\. )ok$|^[.sxu]*\.[.sxu]*$";
pub(crate) const NODE: &str = r"^(#|ℹ) pass [1-9]";
pub(crate) const BUN: &str = r"^\s*[1-9]\d* pass$";
/// Only a verbose run says which tests were skipped.
pub(crate) const GO: &str = r"^\s*--- PASS: ";
/// A package whose tests ended well; they may have been skipped.
const GO_PACKAGE: &str = r"^ok\s+\S+\s+(\(cached\)|[0-9.]+s)(\s+coverage:.*)?$";
pub(crate) const MAVEN: &str =
    r"Tests run: (?<ran>[1-9]\d*), Failures: 0, Errors: 0, Skipped: (?<skipped>\d+)";
/// Before Gradle 4.7 without the words in front.
pub(crate) const GRADLE: &str = r"^(> Task )?:(\S+:)?test( UP-TO-DATE| FROM-CACHE)?$";
/// The head of a report of Gradle: it prints no numbers.
pub(crate) const GRADLE_REPORT: &str =
    r#"<testsuite .*\btests="(?<ran>[1-9]\d*)" skipped="(?<skipped>\d+)""#;
pub(crate) const SBT: &str = r"Passed: Total .*\bPassed [1-9]";
pub(crate) const RSPEC: &str =
    r"^(?<ran>[1-9]\d*) examples?, 0 failures(, (?<skipped>\d+) pending)?";
pub(crate) const MINITEST: &str = r"^(?<ran>[1-9]\d*) (runs|tests), .*\b0 failures, 0 errors(.*\b(?<skipped>\d+) (skips|omissions)\b)?";
pub(crate) const MIX: &str =
    r"\b(?<ran>[1-9]\d*) tests?, (.*, )?0 failures(.*\b(?<skipped>\d+) (skipped|excluded))?";
pub(crate) const DOTNET: &str = r"(Passed|succeeded):\s+[1-9]";
pub(crate) const DENO: &str = r"^ok \| [1-9]\d* passed";
pub(crate) const SWIFT: &str = r#"Executed (?<ran>[1-9]\d*) tests?, with ((?<skipped>\d+) tests? skipped and )?0 failures|Test ("|\w+\().* passed after"#;
pub(crate) const CTEST: &str = r"^\s*\d+/\d+ Test\s+#\d+: .*\bPassed\b";
pub(crate) const MESON: &str = r"^Ok:\s+[1-9]";
pub(crate) const PHPUNIT: &str =
    r"^(OK \([1-9]\d* tests?|Tests: (?<ran>[1-9]\d*)(.*\b(Skipped|Incomplete): (?<skipped>\d+))?)";

pub(crate) const PEST: &str = r"^\s*Tests:\s.*\b[1-9]\d* passed";
/// It counts examples that are pending or skipped, too.
pub(crate) const PHPSPEC: &str =
    r"^(?<ran>[1-9]\d*) examples? \((?:(?<skipped>\d+) (?:skipped|pending), )?[1-9]\d* passed";

/// Runners that scripts of a `package.json` name.
pub(crate) const OF_SCRIPTS: [(&str, &str); 10] = [
    ("jest", r"^Tests:.*\b[1-9]\d* passed"),
    ("react-scripts", r"^Tests:.*\b[1-9]\d* passed"),
    ("vitest", r"^\s*Tests\s.*\b[1-9]\d* passed"),
    ("mocha", r"^\s*[1-9]\d* passing"),
    ("ava", r"\b[1-9]\d* tests? passed"),
    ("jasmine", r"^(?<ran>[1-9]\d*) specs?, 0 failures(, (?<skipped>\d+) pending)?"),
    ("playwright", r"^\s*[1-9]\d* passed"),
    ("tape", r"^# pass\s+[1-9]"),
    ("uvu", r"^\s*Passed:\s+[1-9]"),
    ("cypress", r"\b[1-9]\d* passing"),
];

/// Whether this is the name of a runner that scripts name.
pub(crate) fn is_script_runner(word: &str) -> bool {
    OF_SCRIPTS.iter().any(|(runner, _)| *runner == word)
}

/// Those of a command that the user named.
pub(crate) fn of_command<S: AsRef<str>>(program: &[S]) -> Vec<&'static str> {
    let words: Vec<&str> = program.iter().map(|word| file_name(word.as_ref())).collect();
    let has = |word: &str| words.contains(&word);
    let one = match words.as_slice() {
        ["cargo", "test" | "t", ..] => Some(CARGO),
        ["cargo", "nextest", ..] => Some(NEXTEST),
        ["hatch", "test", ..] => Some(PYTEST),
        ["go", "test", ..] => Some(if has("-v") { GO } else { GO_PACKAGE }),
        ["node", "--test", ..] => Some(NODE),
        ["mix", "test", ..] => Some(MIX),
        ["dotnet", "test", ..] => Some(DOTNET),
        ["deno", "test", ..] => Some(DENO),
        ["swift", "test", ..] => Some(SWIFT),
        ["bun", "test", ..] => Some(BUN),
        _ if has("pytest") => Some(PYTEST),
        _ if has("unittest") => Some(UNITTEST),
        _ if has("rspec") => Some(RSPEC),
        _ if has("pest") => Some(PEST),
        _ if has("phpspec") => Some(PHPSPEC),
        _ => None,
    };
    one.into_iter().collect()
}

/// Returns the name of a program that a word gives by its path, such as `.venv/bin/pytest`.
pub(crate) fn file_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Those of the commands in lines of a script or of a recipe, whose output is printed.
pub(crate) fn of_script(text: &str) -> Vec<&'static str> {
    let lines = text.lines().filter(|line| !line.contains(['>', '|', '&', ';', '$']));
    let words = lines.map(|line| {
        let line = line.trim_start().trim_start_matches(['@', '-']);
        line.split_whitespace().collect::<Vec<_>>()
    });
    let mut patterns: Vec<&str> = words.flat_map(|words| of_command(&words)).collect();
    patterns.dedup();
    patterns
}
