//! Which files of a Harbor task are its tests and its solution.

use std::path::{Path, PathBuf};

use super::super::model::{Oracle, RewardSource, Verification};
use super::super::problem::{Problem, TreeError};
use super::super::tree::{is_plain_file, is_plain_folder};

/// Returns the verification by the folders of tests, later ones over earlier ones.
pub(super) fn find_script(
    folders: &[PathBuf],
    has_bundled_tests: bool,
    errors: &mut Vec<Problem>,
) -> Result<Verification, TreeError> {
    let script = PathBuf::from("test.sh");
    if has_bundled_tests {
        return Ok(of_folders(Vec::new(), script));
    }
    let mut found = Vec::new();
    let mut has_script = false;
    for folder in folders {
        if is_plain_folder(folder)? {
            has_script |= is_plain_file(&folder.join(&script))?;
            found.push(folder.clone());
        }
    }
    // That of Windows makes the task one which cannot be run here, not one that is wrong.
    let mut has_windows_script = false;
    for folder in &found {
        has_windows_script |= is_plain_file(&folder.join("test.bat"))?;
    }
    if !has_script && !has_windows_script {
        let folder = folders.last().map_or(Path::new("tests"), PathBuf::as_path);
        let message = "is missing: the script writes the reward to /logs/verifier/reward.txt";
        errors.push(Problem::new(&folder.join(&script), message));
    }
    Ok(of_folders(found, script))
}

fn of_folders(folders: Vec<PathBuf>, script: PathBuf) -> Verification {
    Verification::Script { folders, files: Vec::new(), script, reward: RewardSource::File }
}

/// Returns the solution in the first of these folders that is there.
pub(super) fn find_oracle(folders: &[PathBuf]) -> Result<Option<Oracle>, TreeError> {
    for folder in folders {
        if is_plain_folder(folder)? {
            let script = PathBuf::from("solve.sh");
            let has_script = is_plain_file(&folder.join(&script))?;
            return Ok(has_script.then(|| Oracle::Script { folder: folder.clone(), script }));
        }
    }
    Ok(None)
}

/// Returns an instruction without the lines at its beginning that mark it for searches in training data.
pub(super) fn strip_canary(text: &str) -> String {
    let is_canary = |line: &str| {
        let line = line.trim().to_lowercase();
        let is_comment =
            (line.starts_with("<!--") && line.ends_with("-->")) || line.starts_with('#');
        is_comment && line.contains("canary")
    };
    let lines = text.split('\n').skip_while(|line| is_canary(line));
    let lines: Vec<&str> = lines.skip_while(|line| line.trim().is_empty()).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_out_canary_lines_at_the_beginning_only() {
        for (text, expected) in [
            ("<!-- a CANARY b -->\n# canary x\n\n\nDo it\n# canary\n", "Do it\n# canary\n"),
            ("\nDo it", "Do it"),
            ("# Title\ncanary", "# Title\ncanary"),
            ("", ""),
        ] {
            assert_eq!(strip_canary(text), expected, "{text}");
        }
    }
}
