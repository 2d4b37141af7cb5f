//! Every command in the pages for users is run, with a scripted agent in the place of the real one.
//!
//! The fence of a block says what it is: `sh` is a script, `console` has commands after `$ ` and what they
//! print, as it was printed when the page was last updated. Further words of the fence:
//!
//! - `status=N`: the last command ends with this status,
//! - `not-run=WHY`: it cannot be run here; the reasons are in [`NOT_RUN`],
//! - `pending`: it needs what this tree does not have yet. It has to fail; as soon as it does not,
//!   scripts/update-docs takes the word out.
//!
//! Blocks of a page run one after the other in one folder, which is a repository with tests that fail.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

use crate::generated::{compare, is_update};
use crate::scratch::{Scratch, expect, repository};

/// Why a block cannot be run here, and how many there may be.
const NOT_RUN: [(&str, usize); 4] = [
    ("builds", 2),     // compiles for minutes
    ("network", 4),    // needs a release on the network
    ("containers", 4), // needs a container engine
    ("system", 8),     // changes the system; scripts/test-package runs the installation
];

/// What is on the disk of whoever reads the pages.
const PROGRAMS: [&str; 4] = ["claude", "codex", "cargo", "editor"];

struct Block {
    /// The line of its fence, from 0.
    line: usize,
    words: Vec<String>,
    text: Vec<String>,
}

impl Block {
    fn has(&self, word: &str) -> bool {
        self.words.iter().any(|known| known == word)
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    fn language(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut is_inside = false;
    for (line, text) in page.lines().enumerate() {
        match text.trim_start().strip_prefix("```") {
            Some(_) if is_inside => is_inside = false,
            Some(words) => {
                is_inside = true;
                let words = words.split_whitespace().map(str::to_owned).collect();
                blocks.push(Block { line, words, text: Vec::new() });
            }
            None if is_inside => blocks.last_mut().unwrap().text.push(text.to_owned()),
            None => {}
        }
    }
    assert!(!is_inside, "a block does not end");
    blocks
}

/// The README and all pages for users.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![repository().join("README.md")];
    let mut folders = vec![repository().join("docs/user")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

/// A reader's machine.
struct Reader {
    scratch: Scratch,
}

impl Reader {
    fn new() -> Self {
        let scratch = Scratch::new();
        for name in PROGRAMS {
            let path = repository().join("tests/docs/programs").join(name);
            scratch.program(name, &fs::read_to_string(path).unwrap());
        }
        let tests = repository().join("examples/hello/template/test.sh");
        scratch.write("test.sh", &fs::read_to_string(tests).unwrap());
        scratch.write("README.md", "# A program that greets\n");
        let reader = Self { scratch };
        // Beside the project: what an archive has, and the clone.
        let copy = format!(
            "mkdir ../ralph-orchestrator; cp -r '{0}/examples' '{0}/ralph.toml' ../ralph-orchestrator; \
             cp -r '{0}/examples' '{0}/ralph.toml' ..; git init -q; git add -A; git commit -qm 'Begin'",
            repository().display()
        );
        let (status, output) = reader.run(&copy);
        assert_eq!(status, 0, "{output}");
        reader
    }

    /// Runs a script where the one before ended, with its variables. What it printed, in its order.
    fn run(&self, script: &str) -> (i32, String) {
        let root = self.scratch.root();
        let (state, out) = (root.join("state"), root.join("out"));
        let whole = format!(
            "exec >'{out}' 2>&1\nif [ -e '{state}' ]; then . '{state}'; fi\n\
             trap 'code=$?; {{ export -p; printf \"cd %q\\n\" \"$PWD\"; }} >'\"'{state}'\"'; exit $code' EXIT\n\
             set -euo pipefail\n{script}\n",
            out = out.display(),
            state = state.display(),
        );
        let mut command = self.scratch.command("bash");
        command
            .arg("-c")
            .arg(whole)
            .env("EDITOR", "editor")
            // Claude Code wants to know if root is to let it do everything, and tests may be run by root.
            .env("RALPH_ENV__SET__IS_SANDBOX", "1")
            // A server of its own, which ends with its session.
            .env("TMUX_TMPDIR", &root)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_AUTHOR_NAME", "A")
            .env("GIT_AUTHOR_EMAIL", "a@localhost")
            .env("GIT_COMMITTER_NAME", "A")
            .env("GIT_COMMITTER_EMAIL", "a@localhost");
        let output = self.scratch.output(command);
        let printed = fs::read(&out).unwrap_or_default();
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&printed).into_owned())
    }

    /// What was printed, without what differs from run to run.
    fn normalised(&self, printed: &str) -> String {
        let root = self.scratch.root().display().to_string();
        let mut text = printed.replace(&format!("{root}/project"), "~/project");
        text = text.replace(&format!("{root}/home"), "~").replace(&root, "~");
        let rules = [
            (
                r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}",
                "01a204a5-b3c9-7531-ba82-a39260ac40db",
            ),
            (r"\b\d+(\.\d+)? ?(ms|s)\b", "0.1 s"),
            (r"\bproject-[0-9a-f]{12}\b", "project-4f6d1c0b2a97"),
            (
                r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|[+-]\d\d:?\d\d)?",
                "2026-11-22T21:15:00Z",
            ),
            (r"\bpid \d+", "pid 4711"),
            (
                r"\b[0-9a-f]{64}\b",
                "9f64a747e1b97f131fabb6b447296c9b6f0201e79fb3c5356e6c77e89b6a806a",
            ),
        ];
        for (pattern, with) in rules {
            text = Regex::new(pattern).unwrap().replace_all(&text, with).into_owned();
        }
        text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
    }

    /// Runs a block. What it should look like now, or what went wrong.
    fn perform(&self, block: &Block) -> Result<Vec<String>, String> {
        let expected: i32 = block.value("status").map_or(0, |status| status.parse().unwrap());
        if block.language() == "sh" {
            let (status, printed) = self.run(&block.text.join("\n"));
            return if status == expected {
                Ok(block.text.clone())
            } else {
                Err(format!("status {status} instead of {expected}:\n{printed}"))
            };
        }
        let mut text = Vec::new();
        let commands: Vec<&String> =
            block.text.iter().filter(|line| line.starts_with("$ ")).collect();
        for (index, line) in commands.iter().enumerate() {
            let (status, printed) = self.run(&line[2..]);
            let expected = if index + 1 == commands.len() { expected } else { 0 };
            if status != expected {
                return Err(format!("`{line}`: status {status} instead of {expected}:\n{printed}"));
            }
            text.push((*line).clone());
            text.extend(self.normalised(&printed).lines().map(str::to_owned));
        }
        Ok(text)
    }
}

/// Runs all blocks of a page. The page as it should be.
fn check(path: &Path) -> String {
    let page = fs::read_to_string(path).unwrap();
    let mut lines: Vec<String> = page.lines().map(str::to_owned).collect();
    let reader = Reader::new();
    // Lines before a block may become more or fewer while it is looked at.
    let mut replaced: Vec<(usize, usize, Vec<String>)> = Vec::new();
    for block in blocks(&page) {
        if !["sh", "console"].contains(&block.language()) || block.value("not-run").is_some() {
            continue;
        }
        let place = format!("{}:{}", path.display(), block.line + 1);
        let mut fence = lines[block.line].clone();
        match (reader.perform(&block), block.has("pending")) {
            (Err(_), true) => continue,
            (Err(wrong), false) => panic!("{place}: {wrong}"),
            (Ok(text), is_pending) => {
                if is_pending && !is_update() {
                    panic!(
                        "{place}: it can be run now: run scripts/update-docs, which takes `pending` out"
                    );
                }
                fence = fence.replace(" pending", "");
                let mut new = vec![fence];
                new.extend(text);
                replaced.push((block.line, block.line + block.text.len(), new));
            }
        }
    }
    for (first, last, new) in replaced.into_iter().rev() {
        lines.splice(first..=last, new);
    }
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

#[test]
fn every_command_runs() {
    let pages = pages();
    let checked: Vec<std::thread::Result<(PathBuf, String)>> = std::thread::scope(|scope| {
        let (mut running, mut done) = (Vec::new(), Vec::new());
        for page in &pages {
            running.push(scope.spawn(move || (page.clone(), check(page))));
            if running.len() == 4 {
                done.push(running.remove(0).join());
            }
        }
        done.extend(running.into_iter().map(std::thread::ScopedJoinHandle::join));
        done
    });
    let mut failed = 0;
    for one in checked {
        match one {
            Ok((path, text)) => compare(&path, &text),
            Err(_) => failed += 1,
        }
    }
    assert_eq!(failed, 0, "{failed} pages failed, see above");
}

#[test]
fn few_blocks_cannot_be_run_and_each_says_why() {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut run = 0;
    for page in pages() {
        for block in blocks(&fs::read_to_string(&page).unwrap()) {
            let place = format!("{}:{}", page.display(), block.line + 1);
            let known =
                ["sh", "console", "toml", "text", "json", "yaml", "dockerfile", "ini", "markdown"];
            assert!(known.contains(&block.language()), "{place}: a block of which kind?");
            for word in block.words.iter().skip(1) {
                let name = word.split('=').next().unwrap();
                assert!(
                    ["status", "not-run", "pending", "fragment", "user"].contains(&name),
                    "{place}: {word}"
                );
            }
            if !["sh", "console"].contains(&block.language()) {
                continue;
            }
            match block.value("not-run") {
                Some(reason) => *reasons.entry(reason.to_owned()).or_default() += 1,
                None => run += 1,
            }
        }
    }
    for (reason, count) in &reasons {
        let known = NOT_RUN.iter().find(|(known, _)| known == reason);
        let (_, most) = known.unwrap_or_else(|| panic!("`not-run={reason}` is no known reason"));
        assert!(
            count <= most,
            "{count} blocks cannot be run because of `{reason}`, at most {most}"
        );
    }
    let not_run: usize = reasons.values().sum();
    assert!(run > 3 * not_run, "{run} blocks are run, {not_run} are not");
}

/// Tables of `ralph.toml`, or of the user's own configuration, in the pages: each is a configuration, or a part of one, that
/// is accepted.
#[test]
fn every_table_is_accepted() {
    let scratch = Scratch::new();
    scratch.write("PROMPT.md", "Do it.\n").write("work/PROMPT.md", "Do it.\n");
    // What the program itself does not look at without the agent: the keys of adapters.
    let schema = expect(&scratch.ralph(&["config", "schema"]), 0);
    let schema = serde_json::from_str(&schema).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let mut count = 0;
    for page in pages() {
        for block in blocks(&fs::read_to_string(&page).unwrap()) {
            if block.language() != "toml" || block.has("fragment") {
                continue;
            }
            let place = format!("{}:{}", page.display(), block.line + 1);
            let mut text = block.text.join("\n");
            if !text.contains("[[validator]]") && !text.contains("trust_agent") {
                text.push_str("\n[[validator]]\nkind = \"command\"\nprogram = [\"true\"]\n");
            }
            let (of_user, of_workspace) =
                if block.has("user") { (text.as_str(), "") } else { ("", text.as_str()) };
            scratch.write("../home/.config/ralph-orchestrator/config.toml", of_user);
            scratch.write("ralph.toml", of_workspace);
            let output = scratch.ralph(&["config", "show"]);
            let mut said = String::from_utf8_lossy(&output.stderr).into_owned();
            let table: toml::Table =
                text.parse().unwrap_or_else(|error| panic!("{place}: {error}"));
            let table = serde_json::to_value(table).unwrap();
            schema.iter_errors(&table).for_each(|error| said.push_str(&error.to_string()));
            let accepted = output.status.success() && schema.is_valid(&table);
            match (accepted, block.has("pending")) {
                (false, false) => panic!("{place}: {said}"),
                (true, true) if is_update() => {
                    let page_text = fs::read_to_string(&page).unwrap();
                    let mut lines: Vec<String> = page_text.lines().map(str::to_owned).collect();
                    lines[block.line] = lines[block.line].replace(" pending", "");
                    fs::write(&page, lines.join("\n") + "\n").unwrap();
                }
                (true, true) => panic!("{place}: it is accepted now: run scripts/update-docs"),
                _ => {}
            }
            count += 1;
        }
    }
    assert!(count > 10, "{count}");
}

/// The scripts of the workflow in docs/user/ci.md, by the names of their steps.
fn workflow_steps(page: &str) -> Vec<(String, String)> {
    let workflow = blocks(page).into_iter().find(|block| block.language() == "yaml").unwrap();
    let (mut steps, mut name): (Vec<(String, String)>, String) = (Vec::new(), String::new());
    let mut indent = None;
    for line in &workflow.text {
        let depth = line.len() - line.trim_start().len();
        if indent.is_some_and(|indent| depth > indent || line.trim().is_empty()) {
            let script = &mut steps.last_mut().unwrap().1;
            script.push_str(line.trim_start());
            script.push('\n');
            continue;
        }
        indent = None;
        if let Some(found) = line.trim().strip_prefix("- name: ") {
            found.clone_into(&mut name);
        } else if line.trim() == "run: |" {
            indent = Some(depth);
            steps.push((name.clone(), String::new()));
        } else if let Some(script) = line.trim().strip_prefix("run: ") {
            steps.push((name.clone(), script.to_owned()));
        }
    }
    steps
}

#[test]
fn the_workflow_runs() {
    let page = fs::read_to_string(repository().join("docs/user/ci.md")).unwrap();
    let steps = workflow_steps(&page);
    let names: Vec<&str> = steps.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["Install", "Check", "Run", "Report"]);
    let reader = Reader::new();
    // What is in the repository.
    let (status, printed) = reader.run("ralph-orchestrator init; $EDITOR PROMPT.md");
    assert_eq!(status, 0, "{printed}");
    let summary = reader.scratch.root().join("summary");
    for (name, script) in &steps {
        // What the first installs is there already.
        if name == "Install" {
            continue;
        }
        let script = format!("export GITHUB_STEP_SUMMARY='{}'\n{script}", summary.display());
        let (status, printed) = reader.run(&script);
        assert_eq!(status, 0, "{name}: {printed}");
    }
    assert!(fs::read_to_string(summary).unwrap().contains("completed"));
}

#[test]
fn the_readme_is_short_and_for_users() {
    let readme = fs::read_to_string(repository().join("README.md")).unwrap();
    assert!(readme.lines().count() < 200, "{} lines", readme.lines().count());
    assert!(readme.contains("Not related to the public project"), "it does not say what it is not");
    assert!(readme.contains("docs/user/session.svg"), "it has no picture");
    for word in ["claim", "validator", "limit", "cost", "stop"] {
        assert!(readme.contains(word), "it says nothing of {word}");
    }
}
