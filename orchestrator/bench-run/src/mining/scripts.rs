//! The scripts of a mined task: what verifies work, and what makes the work of the commit.

use ralph_orchestrator_shell_text::{quote_command, quote_word};

use super::tested_project::TestCommand;

/// What stands for the touched tests in a command of the user's.
const FILES: &str = "{files}";
/// The folder of the files that a script brings, beside it.
pub(super) const BROUGHT: &str = "files";
/// The work directory of a trial.
pub(super) const WORKDIR: &str = "/app";

/// What an agent left in the place of a file or of a folder above it, such as a link, is removed. New files are newer than
/// whatever was built before.
const PLACE: &str = r#"place() {
  (cd "$1" && find . -mindepth 1 -type d -print0) | while IFS= read -r -d '' folder; do
    if [ -L "$folder" ] || [ ! -d "$folder" ]; then
      rm -rf -- "$folder"
      mkdir -p -- "$folder"
    fi
  done
  (cd "$1" && find . -mindepth 1 ! -type d -print0) | while IFS= read -r -d '' file; do
    rm -rf -- "$file"
    cp -P -- "$1/$file" "$file"
  done
}
"#;

/// What runs the tests of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VerifierCommands {
    /// A line of shell of the user's.
    Line(String),
    /// What the test systems of the project need.
    Found(Vec<TestCommand>),
}

impl VerifierCommands {
    /// Returns the user's line for these files.
    #[must_use]
    pub fn from_line(line: &str, files: &[String]) -> Self {
        Self::Line(line.replace(FILES, &quote_command(files)))
    }

    /// Whether a line of the user's names the touched tests.
    #[must_use]
    pub fn names_files(line: &str) -> bool {
        line.contains(FILES)
    }

    /// Returns the image in which the tests can run.
    pub(super) fn image(&self) -> &'static str {
        let first = match self {
            Self::Line(_) => None,
            Self::Found(commands) => commands.first(),
        };
        match first.map(|command| command.system.as_str()) {
            Some("cargo") => "rust:1",
            Some("go") => "golang:1",
            Some("pytest" | "unittest" | "django" | "tox" | "nox") => "python:3",
            Some("node") => "node:22",
            Some("ruby") => "ruby:3",
            Some("maven") => "maven:3",
            Some("gradle") => "gradle:8",
            _ => "buildpack-deps:stable",
        }
    }

    /// Returns the lines that run one command each, and how its output has to look.
    fn list(&self) -> Vec<(String, &[String])> {
        match self {
            Self::Line(line) => vec![(line.clone(), &[])],
            Self::Found(commands) => commands
                .iter()
                .map(|command| {
                    let words = quote_command(&command.words);
                    let line = match command.folder.as_str() {
                        "" => words,
                        folder => format!("cd {} &&\n{words}", quote_word(format!("./{folder}"))),
                    };
                    (line, command.must_match.as_slice())
                })
                .collect(),
        }
    }

    /// Returns the script that puts the hidden tests in place, runs those that were touched, and writes the reward.
    #[must_use]
    pub fn write_verifier(&self, removed: &[String]) -> String {
        let mut script = format!(
            "#!/bin/bash\n# Puts the tests of the commit in place and runs those that it touches.\nset -u\n\
             tests=$(cd \"$(dirname \"$0\")\" && pwd)/{BROUGHT}\n{PLACE}cd {WORKDIR} || exit 1\n"
        );
        // What an agent left compiled beside the tests is not run in their place.
        script.push_str("export PYTHONPYCACHEPREFIX=$(mktemp -d)\n");
        script.push_str(&remove_lines(removed));
        script.push_str("place \"$tests\"\nreward=1\noutput=$(mktemp)\n");
        for (line, must_match) in self.list() {
            // The verdict is the exit status, and that a test has passed at all.
            script.push_str(&format!("(\n{line}\n) < /dev/null > \"$output\" 2>&1 || reward=0\n"));
            script.push_str("cat \"$output\"\n");
            for pattern in must_match {
                let pattern = quote_word(pattern);
                script.push_str(&format!("grep -Pq -e {pattern} \"$output\" || reward=0\n"));
            }
        }
        script.push_str("echo \"$reward\" > /logs/verifier/reward.txt\n");
        script
    }
}

/// Returns the script that makes the work of the commit.
pub(super) fn write_solution(removed: &[String]) -> String {
    format!(
        "#!/bin/bash\n# Makes the files what the commit made of them, but for its tests.\nset -eu\n\
         files=$(cd \"$(dirname \"$0\")\" && pwd)/{BROUGHT}\n{PLACE}cd {WORKDIR}\n{}place \"$files\"\n",
        remove_lines(removed)
    )
}

fn remove_lines(removed: &[String]) -> String {
    let line = |path: &String| format!("rm -f -- {}\n", quote_word(format!("./{path}")));
    removed.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_reach_the_shell_as_one_word_each() {
        let files = ["tests/it's.sh".to_owned(), "tests/b c.sh".to_owned()];
        let commands = VerifierCommands::from_line("sh run {files} # {files}", &files);
        let VerifierCommands::Line(line) = &commands else { panic!("{commands:?}") };
        assert!(line.starts_with(r"sh run 'tests/it'\''s.sh' 'tests/b c.sh' #"), "{line}");
        let script = commands.write_verifier(&["-x; y".to_owned()]);
        assert!(script.contains("rm -f -- './-x; y'\n"), "{script}");
    }

    #[test]
    fn a_found_command_runs_in_its_folder_and_has_to_say_that_tests_passed() {
        let commands = VerifierCommands::Found(vec![TestCommand {
            system: "go".to_owned(),
            folder: "a b".to_owned(),
            words: ["go", "test", "./..."].map(str::to_owned).to_vec(),
            must_match: vec![r"^\s*--- PASS: ".to_owned()],
        }]);
        let script = commands.write_verifier(&[]);
        assert!(script.contains("(\ncd './a b' &&\ngo test ./...\n) < /dev/null"), "{script}");
        assert!(
            script.contains(r#"grep -Pq -e '^\s*--- PASS: ' "$output" || reward=0"#),
            "{script}"
        );
        assert_eq!(commands.image(), "golang:1");
    }
}
