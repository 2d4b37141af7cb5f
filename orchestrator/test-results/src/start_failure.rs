//! Finds why a check failed before it ran a test: the runner, its project or a module is missing, or a file with tests
//! cannot be parsed.
//!
//! What work is still to make is no such failure: code that does not compile yet, or a name that cannot be imported.

use std::sync::LazyLock;

use ralph_orchestrator_text::{escape_line, truncate};
use regex::RegexSet;

use crate::lines::{LineSplitter, Piece};
use crate::reader::OutputStream;
use crate::results::TestResults;

/// Characters of the line that are shown.
const MAX_SHOWN: usize = 160;

/// The lines by which programs say that they cannot begin, each with whose it is.
const LINES: &[(&str, &str)] = &[
    ("the shell", r"^\S+: (?:(?:line )?\d+: )?\S+: (?:command )?not found$"),
    ("the shell", r"^\S+: command not found: \S+$"),
    ("env", r"^(?:/usr/bin/)?env: .+: No such file or directory$"),
    ("make", r"^make(?:\[\d+\])?: \*\*\* No (?:rule to make target|targets specified)"),
    ("make", r"^make(?:\[\d+\])?: \S+: No such file or directory$"),
    ("just", r"^error: (?:No justfile found|Justfile does not contain recipe)"),
    ("python", r"^\S*python[\d.]*: No module named \S+$"),
    ("python", r"^\S*python[\d.]*: can't open file .+: \[Errno 2\]"),
    ("python", r"^\s*(?:E\s+)?(?:SyntaxError|IndentationError|TabError): "),
    ("pytest", r"^ERROR: (?:file or directory not found|not found): "),
    ("pytest", r"^ImportError while loading conftest "),
    ("unittest", r"^ImportError: Start directory is not importable: "),
    ("uv", r"^error: Failed to spawn: "),
    ("poetry", r"^Poetry could not find a pyproject\.toml "),
    ("cargo", r"^error: could not find `Cargo\.toml` "),
    ("cargo", r"^error: no such (?:sub)?command: "),
    ("cargo", r"^error: no test target named "),
    ("npm", r"^npm (?:ERR!|error) Missing script: "),
    ("npm", r"^npm (?:ERR!|error) enoent Could not read package\.json"),
    ("npm", r"^npm (?:ERR!|error) could not determine executable to run"),
    ("pnpm", r"\bERR_PNPM_(?:NO_SCRIPT|NO_IMPORTER_MANIFEST_FOUND|RECURSIVE_EXEC_FIRST_FAIL)\b"),
    ("yarn", r#"^error (?:Couldn't find a package\.json|Command "[^"]+" not found)"#),
    ("yarn", r"^Usage Error: Couldn't find a script named "),
    ("node", r"^SyntaxError: "),
    ("bun", r#"^error: (?:Script not found|Module not found) ""#),
    ("deno", r"^error: (?:Task not found|Module not found)"),
    ("go", r"^go: (?:go\.mod file not found|cannot find main module)"),
    ("go", r"^no Go files in "),
    ("ctest", r"^No test configuration file found!"),
    ("maven", r"there is no POM in this directory"),
    ("gradle", r"does not contain a Gradle build"),
    ("gradle", r"Could not find or load main class org\.gradle\.wrapper"),
    ("dotnet", r"\bMSB1003\b"),
    ("bundler", r"^(?:Could not locate Gemfile|bundler: command not found: )"),
    ("rake", r"^Don't know how to build task "),
    ("php", r"^Could not open input file: "),
    ("composer", r"^Composer could not find a composer\.json "),
    ("mix", r"^\*\* \(Mix\) (?:The task .+ could not be found|Could not find a Mix\.Project)"),
];

static PATTERNS: LazyLock<Option<RegexSet>> =
    LazyLock::new(|| RegexSet::new(LINES.iter().map(|(_, pattern)| pattern)).ok());

/// Why a check failed before it ran a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartFailure {
    /// The program that says so.
    pub program: &'static str,
    /// What it says.
    pub line: String,
}

impl StartFailure {
    /// Describes the failure in a short clause.
    #[must_use]
    pub fn describe(&self) -> String {
        let line = truncate(&escape_line(self.line.trim()), MAX_SHOWN);
        format!("{} says `{line}`", self.program)
    }

    /// Whether a program is missing that is no part of the project: work that is still to be made is not the cause.
    #[must_use]
    pub fn is_missing_tool(&self) -> bool {
        let line = self.line.trim();
        let says = |text: &str| line.contains(text);
        match self.program {
            "the shell" | "env" => {
                let end = [": command not found", ": not found", ": No such file or directory"];
                let named = end.iter().find_map(|end| line.strip_suffix(end)).unwrap_or(line);
                let name = named.rsplit(": ").next().unwrap_or_default();
                !name.contains('/')
            }
            "python" => says("No module named"),
            "uv" => true,
            "cargo" => says("no such"),
            "npm" => says("could not determine executable"),
            "yarn" => says("error Command \""),
            "bundler" => says("command not found"),
            _ => false,
        }
    }
}

/// Finds in the output of a check, as it comes, why it ran no test.
#[derive(Debug, Default)]
pub struct StartFailureReader {
    stdout: LineSplitter,
    stderr: LineSplitter,
    found: Option<StartFailure>,
}

impl StartFailureReader {
    /// Takes output as it arrives, in pieces of any size.
    pub fn push(&mut self, stream: OutputStream, bytes: &[u8]) {
        let splitter = match stream {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
        };
        let found = &mut self.found;
        splitter.push(bytes, |piece| read_piece(found, piece));
    }

    /// Returns what was found, unless `results`, read from the same output, has a test that ran: tests may print anything.
    #[must_use]
    pub fn finish(mut self, results: Option<&TestResults>) -> Option<StartFailure> {
        for mut splitter in [self.stdout, self.stderr] {
            splitter.finish(|piece| read_piece(&mut self.found, piece));
        }
        let has_run = |results: &TestResults| {
            let mut names = results.names.iter();
            results.counts.passed > 0 || names.any(|(_, counts)| counts.ran() > 0)
        };
        self.found.filter(|_| !results.is_some_and(has_run))
    }
}

/// Keeps the first line that a program prints when it cannot begin.
fn read_piece(found: &mut Option<StartFailure>, piece: Piece) {
    let Piece::Line(line) = piece else { return };
    if found.is_some() {
        return;
    }
    // Nearly no line matches, which is told faster than which pattern does.
    let patterns = PATTERNS.as_ref().filter(|patterns| patterns.is_match(&line));
    let matching = patterns.and_then(|patterns| patterns.matches(&line).iter().next());
    if let Some((program, _)) = matching.and_then(|index| LINES.get(index)) {
        *found = Some(StartFailure { program, line });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_test_results;

    fn find(output: &str) -> Option<StartFailure> {
        let mut reader = StartFailureReader::default();
        reader.push(OutputStream::Stderr, output.as_bytes());
        reader.finish(read_test_results(output.as_bytes()).as_ref())
    }

    #[test]
    fn a_tool_that_is_missing_is_told_from_what_is_still_to_be_made() {
        for (line, expected) in [
            ("/bin/sh: 1: pytest: not found", true),
            ("check.sh: line 3: pytest: command not found", true),
            ("zsh:1: command not found: pytest", true),
            ("/usr/bin/env: 'pytest': No such file or directory", true),
            ("/usr/bin/python3: No module named pytest", true),
            ("error: no such command: `nextest`", true),
            ("sh: 1: ./accept.sh: not found", false),
            ("bash: line 1: target/debug/app: command not found", false),
            ("make: *** No rule to make target 'test'.  Stop.", false),
            ("E     SyntaxError: '(' was never closed", false),
            ("error: could not find `Cargo.toml` in `/w` or any parent directory", false),
            ("npm error Missing script: \"test\"", false),
        ] {
            assert_eq!(find(line).unwrap().is_missing_tool(), expected, "{line}");
        }
    }

    #[test]
    fn what_a_program_says_that_cannot_begin_is_found() {
        for (program, line) in [
            ("the shell", "sh: 1: pytest: not found"),
            ("the shell", "check.sh: line 3: pytest: command not found"),
            ("the shell", "zsh:1: command not found: pytest"),
            ("env", "/usr/bin/env: 'pytest': No such file or directory"),
            ("make", "make: *** No rule to make target 'test'.  Stop."),
            ("make", "make: *** No targets specified and no makefile found.  Stop."),
            ("make", "make: pytest: No such file or directory"),
            ("python", "/usr/bin/python3: No module named pytest"),
            (
                "python",
                "python3: can't open file '/w/test.py': [Errno 2] No such file or directory",
            ),
            ("python", "E     SyntaxError: '(' was never closed"),
            ("pytest", "ERROR: file or directory not found: tests"),
            ("unittest", "ImportError: Start directory is not importable: 'tests'"),
            ("cargo", "error: could not find `Cargo.toml` in `/w` or any parent directory"),
            ("cargo", "error: no such command: `nextest`"),
            ("npm", "npm error Missing script: \"test\""),
            ("npm", "npm ERR! Missing script: \"test\""),
            ("npm", "npm error enoent Could not read package.json: Error: ENOENT"),
            ("go", "go: go.mod file not found in current directory or any parent directory"),
            ("bundler", "Could not locate Gemfile or .bundle/ directory"),
            ("gradle", "Directory '/w' does not contain a Gradle build."),
        ] {
            let found = find(&format!("$ check\n{line}\nexit\n")).unwrap();
            assert_eq!((found.program, found.line.as_str()), (program, line));
        }
    }

    #[test]
    fn what_work_is_still_to_make_is_not_found() {
        for output in [
            "",
            "error[E0425]: cannot find function `slug` in this scope\nerror: could not compile `a`\n",
            "E   ImportError: cannot import name 'slug' from 'slug'\n",
            "FAIL: works\n",
        ] {
            assert_eq!(find(output), None, "{output}");
        }
    }

    #[test]
    fn what_tests_print_that_ran_is_no_failure() {
        let line = "sh: 1: gizmo: not found\n";
        assert_eq!(find(&format!("{line}1 passed in 0.01s\n")), None);
        let verbose = "t.py::a FAILED [100%]\n=== 1 failed in 0.01s ===\n";
        assert_eq!(find(&format!("{line}{verbose}")), None);
        let nothing = find(&format!("{line}no tests ran in 0.01s\n"));
        assert_eq!(nothing.unwrap().describe(), "the shell says `sh: 1: gizmo: not found`");
    }

    #[test]
    fn a_file_of_unittest_with_a_syntax_error_is_a_failure_to_begin() {
        let output = "test_a (unittest.loader._FailedTest.test_a) ... ERROR\n\n\
            ======================================================================\n\
            ERROR: test_a (unittest.loader._FailedTest.test_a)\n\
            ----------------------------------------------------------------------\n\
            ImportError: Failed to import test module: test_a\n    def x(:\n          ^\n\
            SyntaxError: invalid syntax\n\n\n\
            ----------------------------------------------------------------------\n\
            Ran 1 test in 0.000s\n\nFAILED (errors=1)\n";
        assert_eq!(find(output).unwrap().program, "python");
    }
}
