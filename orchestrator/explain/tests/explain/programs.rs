//! Real checks in a folder of their own: Python's unittest, and a shell script.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use ralph_orchestrator_explain::{
    CheckedVariant, ExplainConditions, Explanation, FileContent, PatchVariant, VariantChecker,
    VariantOutcome, WorkFile, explain, summarize,
};
use ralph_orchestrator_test_results::{OutputStream, TestResultsReader};
use tempfile::TempDir;

use crate::fixture::{block_on, files, verdicts};

const UNITTEST: &[&str] = &["python3", "-m", "unittest", "-v"];
const CASE: &str = "import unittest\nfrom calc import *\nclass T(unittest.TestCase):\n";

/// Writes variants to a folder and runs a check there.
struct FolderChecker {
    folder: TempDir,
    command: Vec<String>,
    work: BTreeMap<String, Option<FileContent>>,
    /// The time stamp of the last written file: each one is later than those before.
    stamp: SystemTime,
    started: Instant,
}

impl FolderChecker {
    fn new(command: &[&str], work: &BTreeMap<String, WorkFile>, others: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().unwrap();
        for (path, text) in others {
            fs::write(folder.path().join(path), text).unwrap();
        }
        let work = work.iter().map(|(path, file)| (path.clone(), file.work.clone())).collect();
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        let (stamp, started) = (SystemTime::now(), Instant::now());
        Self { folder, command, work, stamp, started }
    }

    fn write(&mut self, files: &BTreeMap<String, Option<FileContent>>) {
        let _ = fs::remove_dir_all(self.folder.path().join("__pycache__"));
        for (path, content) in files {
            let path = self.folder.path().join(path);
            let _ = fs::remove_file(&path);
            if let Some(FileContent::Regular { bytes, .. }) = content {
                fs::write(&path, bytes).unwrap();
                self.stamp += Duration::from_secs(1);
                fs::File::options()
                    .write(true)
                    .open(&path)
                    .unwrap()
                    .set_modified(self.stamp)
                    .unwrap();
            }
        }
    }

    fn run(&self, limit: Duration) -> VariantOutcome {
        let output = Command::new("timeout")
            .args(["-s", "KILL", &limit.as_secs_f64().to_string()])
            .args(&self.command)
            .current_dir(self.folder.path())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .output();
        let output = match output {
            Ok(output) => output,
            Err(error) => return VariantOutcome::Error(error.to_string()),
        };
        // `timeout` is killed with what it started.
        match output.status.code() {
            Some(0) => return VariantOutcome::Green,
            None | Some(137) => return VariantOutcome::DidNotEnd,
            Some(_) => {}
        }
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let results = {
            let mut reader = TestResultsReader::default();
            reader.push(OutputStream::Stderr, text.as_bytes());
            reader.finish()
        };
        let names = results.iter().flat_map(|results| results.names.iter());
        let failed = names.filter(|(_, counts)| counts.failed > 0).map(|(name, _)| name.to_owned());
        let is_built = !["ImportError", "NameError", "SyntaxError", "ModuleNotFoundError"]
            .iter()
            .any(|error| text.contains(error));
        VariantOutcome::Red { failed: failed.collect(), is_built }
    }
}

#[async_trait]
impl VariantChecker for FolderChecker {
    async fn check_variant(&mut self, variant: &PatchVariant, limit: Duration) -> CheckedVariant {
        self.write(&variant.files);
        let outcome = self.run(limit);
        let read = |path: &Path| fs::read(path).ok().map(FileContent::from_bytes);
        let is_rewritten =
            |path: &&String| read(&self.folder.path().join(path)) != variant.files[*path];
        let rewritten = variant.files.keys().filter(is_rewritten).cloned().collect();
        let work = self.work.clone();
        self.write(&work);
        CheckedVariant { outcome, rewritten }
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

/// Runs the checks on the base and on the work, then explains it.
fn explain_folder(
    command: &[&str],
    work: &BTreeMap<String, WorkFile>,
    others: &[(&str, &str)],
) -> Explanation {
    let mut checker = FolderChecker::new(command, work, others);
    let base = work.iter().map(|(path, file)| (path.clone(), file.base.clone())).collect();
    let limit = Duration::from_secs(5);
    let base = block_on(checker.check_variant(&PatchVariant { files: base }, limit)).outcome;
    let full = PatchVariant { files: checker.work.clone() };
    let before = Instant::now();
    let green = block_on(checker.check_variant(&full, limit));
    assert_eq!(green.outcome, VariantOutcome::Green);
    let conditions = ExplainConditions {
        base: Some(base),
        green_run: before.elapsed(),
        budget: Duration::from_secs(300),
    };
    block_on(explain(work, &conditions, &mut checker))
}

#[test]
fn tells_a_fix_from_what_else_the_work_changed() {
    let base =
        "# Old.\n\n\ndef add(a, b):\n    return a - b\n\n\ndef double(x):\n    return x + x + x\n";
    let work = base.replace("Old", "New").replace("a - b", "a + b").replace("x + x + x", "x + x");
    let work = work.replace("def double", "def dead():\n    return 0\n\n\ndef double");
    let rows = [("calc.py", base, work.as_str()), ("needless.py", "", "print('x')\n")];
    let test = format!("{CASE}    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n");
    let found = explain_folder(UNITTEST, &files(&rows), &[("test_calc.py", &test)]);
    let said = verdicts(&found, "calc.py");
    assert!(said[1].starts_with("needed ") && said[1].contains("test_add"), "{said:?}");
    let is_unnoticed = said.iter().map(|verdict| verdict == "unnoticed").collect::<Vec<_>>();
    assert_eq!(is_unnoticed, [true, false, true, true]);
    assert_eq!(
        summarize(&found),
        "needed: calc.py (1 of 4 hunks). No check notices if these are gone: calc.py (3 of 4 \
         hunks) at lines 1, 8 and 13, needless.py."
    );
    assert!(found.runs <= 5, "{}", found.runs);
}

#[test]
fn names_two_alternatives() {
    let base = "def a(x):\n    return x\n\n\n\ndef b(x):\n    return x\n";
    let work = "def a(x):\n    return abs(x)\n\n\n\ndef b(x):\n    return abs(x)\n";
    let test = format!("{CASE}    def test_abs(self):\n        self.assertEqual(a(b(-1)), 1)\n");
    let found =
        explain_folder(UNITTEST, &files(&[("calc.py", base, work)]), &[("test_calc.py", &test)]);
    assert_eq!(summarize(&found), "One of these is enough: calc.py:7, calc.py:2.");
    // Together they are the base, whose result is known.
    assert!(found.runs <= 4, "{}", found.runs);
}

#[test]
fn leaves_a_rename_and_its_uses_out_together() {
    let rows = [
        (
            "calc.py",
            "from base import *\ndef use(): return old_name()\n\n\ndef add(a, b): return a - b\n",
            "from base import *\ndef use(): return new_name()\n\n\ndef add(a, b): return a + b\n",
        ),
        ("base.py", "def old_name(): return 1\n", "def new_name(): return 1\n"),
    ];
    let test = format!(
        "{CASE}    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n    def test_use(self):\n        \
         self.assertEqual(use(), 1)\n"
    );
    let found = explain_folder(UNITTEST, &files(&rows), &[("test_calc.py", &test)]);
    assert_eq!(
        summarize(&found),
        "needed: calc.py (1 of 2 hunks). No check notices if these are gone: base.py, calc.py (1 \
         of 2 hunks) at line 2."
    );
}

#[test]
fn ends_a_loop_that_a_part_had_ended() {
    let base =
        "def find(x):\n    while x > 9:\n        pass\n    return 0\n\n\ndef other(): return 1\n";
    let work =
        "def find(x):\n    while x > 9:\n        x -= 1\n    return x\n\n\ndef other(): return 2\n";
    // The middle hunk and the result are apart, so that one without the other is possible.
    let work = work.replace("    return x\n", "    pass\n    return x\n");
    let base = base.replace("    return 0\n", "    pass\n    return 0\n");
    let test = format!("{CASE}    def test_find(self):\n        self.assertEqual(find(12), 9)\n");
    let rows = [("calc.py", base.as_str(), work.as_str())];
    let found = explain_folder(UNITTEST, &files(&rows), &[("test_calc.py", &test)]);
    let said = verdicts(&found, "calc.py");
    assert_eq!(said[0], "endless", "{said:?}");
    assert_eq!(said.last().unwrap(), "unnoticed", "{said:?}");
    let said = summarize(&found);
    assert!(said.contains("The checks do not end within ") && said.contains(" without: calc.py"));
}

#[test]
fn finds_a_flaky_test_unstable() {
    // Fails each second time that it sees the old text; a check of the shell names no test.
    let script = "grep -q fix a || exit 1; grep -q new b && exit 0; \
                  test -e seen && { rm seen; exit 0; }; touch seen; exit 1";
    let rows = [("a", "bug\n", "fix\n"), ("b", "old\n", "new\n")];
    let found = explain_folder(&["sh", "check.sh"], &files(&rows), &[("check.sh", script)]);
    assert_eq!(verdicts(&found, "a"), ["needed "]);
    assert_eq!(verdicts(&found, "b"), ["unstable"]);
}
