//! `bench mine`: tasks from the commits of a repository.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::process::Signal;
use serde_json::Value;

use super::{add_script, append, environment, names, unmetered};
use crate::environment::{Ended, TestEnvironment};
use crate::git::{git, try_git};

/// Runs each touched test.
const EACH: &str = "for test in {files}; do sh \"$test\" || exit 1; done";

/// A repository `project` with one commit: a tool that says a number, and a test of it. What tests write to `shared` stays.
fn project() -> TestEnvironment {
    let env = environment(&[]);
    fs::create_dir(env.path("project")).unwrap();
    in_project(&env, &["init", "-qb", "trunk"]);
    in_project(&env, &["config", "user.name", "Ada User"]);
    in_project(&env, &["config", "user.email", "ada@example.org"]);
    say(&env, "1");
    commit(&env, "First commit");
    env
}

fn in_project(env: &TestEnvironment, args: &[&str]) -> String {
    git(env, &[&["-C", "project"][..], args].concat())
}

/// Has the tool say something, and the test want it.
fn say(env: &TestEnvironment, text: &str) {
    env.write("project/tool.sh", format!("echo {text}\n"));
    want(env, text);
}

/// Has the test want something. It records each of its runs.
fn want(env: &TestEnvironment, text: &str) {
    let runs = env.path("shared/runs");
    let test = format!("echo run >> '{}'\n[ \"$(sh tool.sh)\" = '{text}' ]\n", runs.display());
    env.write("project/tests/test_tool.sh", test);
}

fn commit(env: &TestEnvironment, message: &str) -> String {
    in_project(env, &["add", "-A"]);
    in_project(env, &["commit", "-qm", message]);
    in_project(env, &["rev-parse", "HEAD"])
}

fn mine(env: &TestEnvironment, more: &[&str]) -> Ended {
    let args = ["bench", "mine", "project", "-o", "mined", "--test", EACH, "--json"];
    env.ralph(&[&args[..], more].concat())
}

fn parse(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap()
}

/// What became of each commit, by its id: the name of its task, or a word.
fn outcomes(report: &Value) -> BTreeMap<String, String> {
    let commits = report["commits"].as_array().unwrap().iter().map(|commit| {
        let outcome = commit["task"].as_str().map(|task| format!("task {task}"));
        let outcome = outcome.or_else(|| commit["dropped"].as_str().map(str::to_owned));
        (commit["commit"].as_str().unwrap().to_owned(), outcome.unwrap())
    });
    commits.collect()
}

/// Every file below a folder, with its bytes and when it was changed.
fn snapshot(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let found = path.symlink_metadata().unwrap();
            let bytes = if found.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
            if found.is_dir() {
                folders.push(path.clone());
            }
            files.insert(path, (bytes, found.modified().unwrap()));
        }
    }
    files
}

fn count_runs(env: &TestEnvironment) -> usize {
    fs::read_to_string(env.path("shared/runs")).unwrap_or_default().lines().count()
}

/// Adds a commit of each kind. Returns each id with what is expected to become of it.
fn add_every_kind(env: &TestEnvironment) -> Vec<(String, &'static str)> {
    let mut kinds = vec![(in_project(env, &["rev-parse", "HEAD"]), "no_parent")];
    let mut add = |message: &str, outcome| kinds.push((commit(env, message), outcome));
    env.write("project/README.md", "read me\n");
    add("Document it", "no_code");
    env.write("project/other.sh", "echo other\n");
    add("Add another tool", "no_tests");
    env.write("project/tests/more.sh", "true\n");
    add("Test more", "tests_only");
    fs::remove_file(env.path("project/tests/more.sh")).unwrap();
    env.write("project/other.sh", "echo others\n");
    add("Test less", "tests_removed");
    say(env, "3");
    add("Fixes #3", "no_prompt");
    say(env, "4");
    want(env, "five");
    add("Say five", "red_fix");
    say(env, "4");
    env.write("project/other.sh", "echo more\n");
    add("Refactor", "green_base");
    let toggle = env.path("shared/toggle");
    let toggle = toggle.display();
    say(env, "flaky");
    let flaky = format!(
        "[ \"$(sh tool.sh)\" = flaky ] || exit 1\n[ ! -e '{toggle}' ] || {{ rm '{toggle}'; exit 1; }}\ntouch '{toggle}'\n"
    );
    env.write("project/tests/test_tool.sh", flaky);
    add("Say something now and then", "flaky");
    say(env, "binary");
    env.write("project/tests/data.bin", b"\0\xff\x01");
    env.write("project/logo.bin", b"\x89\0PNG");
    add("Bring binary files", "task bring-binary-files-");
    let head = in_project(env, &["rev-parse", "HEAD"]);
    say(env, "sub");
    in_project(env, &["add", "-A"]);
    in_project(env, &["update-index", "--add", "--cacheinfo", &format!("160000,{head},lib")]);
    in_project(env, &["commit", "-qm", "Use a library"]);
    kinds.push((in_project(env, &["rev-parse", "HEAD"]), "submodule"));
    fs::create_dir_all(env.path("project/bin")).unwrap();
    in_project(env, &["mv", "tool.sh", "bin/it's one.sh"]);
    env.write("project/tool.sh", "sh \"bin/it's one.sh\"\n");
    env.write("project/bin/it's one.sh", "echo moved\n");
    in_project(env, &["mv", "tests/data.bin", "tests/data two.bin"]);
    want(env, "moved");
    // Its folder is not there, so the library goes, too.
    kinds.push((commit(env, "Move it"), "submodule"));
    kinds
}

/// Adds commits with messages of every kind.
fn add_messages(env: &TestEnvironment, kinds: &mut Vec<(String, &'static str)>) {
    fs::create_dir_all(env.path("project/deep")).unwrap();
    in_project(env, &["mv", "bin/it's one.sh", "deep/it's two.sh"]);
    env.write("project/tool.sh", "sh \"deep/it's two.sh\"\n");
    env.write("project/deep/it's two.sh", "echo deep\n");
    in_project(env, &["mv", "tests/data two.bin", "tests/data three.bin"]);
    want(env, "deep");
    kinds.push((commit(env, "Rename it"), "task rename-it-"));
    in_project(env, &["checkout", "-qb", "side"]);
    env.write("project/tool.sh", "echo side\n");
    commit(env, "Say side (#12)");
    want(env, "side");
    commit(env, "Test it");
    in_project(env, &["checkout", "-q", "trunk"]);
    in_project(env, &["merge", "-q", "--no-ff", "-m", "Merge branch 'side'", "side"]);
    kinds.push((in_project(env, &["rev-parse", "HEAD"]), "task say-side-"));
    say(env, "latin");
    env.write("message", b"Gr\xfc\xdfe\n");
    in_project(env, &["add", "-A"]);
    let encoding = "i18n.commitEncoding=ISO-8859-1";
    in_project(env, &["-c", encoding, "commit", "-qF", "../message"]);
    kinds.push((in_project(env, &["rev-parse", "HEAD"]), "task gr-e-"));
    say(env, "large");
    env.write("message", format!("Say much\n\n{}", "word ".repeat(200_000)));
    in_project(env, &["add", "-A"]);
    in_project(env, &["commit", "-qF", "../message"]);
    kinds.push((in_project(env, &["rev-parse", "HEAD"]), "task say-much-"));
    let earlier = in_project(env, &["rev-parse", "HEAD"]);
    say(env, "last");
    let later = in_project(env, &["hash-object", "tool.sh"]);
    let message = format!(
        "Say last (#7)\n\nUnlike {} it is {later} ({}).\n\nFixes #12 (abc1234)\nSigned-off-by: A <a@b>\nCo-authored-by: C <c@d>",
        earlier.get(..9).unwrap(),
        later.get(..7).unwrap()
    );
    kinds.push((commit(env, &message), "task say-last-"));
}

#[test]
fn commits_with_code_and_tests_become_tasks_and_the_repository_stays_as_it_was() {
    let env = project();
    let mut kinds = add_every_kind(&env);
    add_messages(&env, &mut kinds);
    in_project(&env, &["tag", "-a", "v1", "-m", "release"]);
    in_project(&env, &["pack-refs", "--all"]);
    env.write("project/tool.sh", "uncommitted\n").write("project/untracked.sh", "new\n");
    let before = snapshot(&env.path("project"));
    let ended = mine(&env, &[]).expect(0);
    assert_eq!(snapshot(&env.path("project")), before, "{}", ended.stderr);
    let report = parse(&ended);
    let found = outcomes(&report);
    for (commit, expected) in &kinds {
        let outcome = &found[commit];
        let is_it = outcome == expected || expected.ends_with('-') && outcome.starts_with(expected);
        assert!(is_it, "{commit}: {outcome}, expected {expected}\n{}", ended.stderr);
    }
    assert_eq!(report["looked_at"], kinds.len());
    assert_eq!(report["dropped"]["flaky"], 1);
    let reasons = report["commits"].to_string();
    assert!(reasons.contains("with it, its tests pass once and fail once"), "{reasons}");
    let mut wanted = vec!["mine.jsonl".to_owned()];
    let tasks = kinds.iter().filter_map(|(commit, _)| found[commit].strip_prefix("task "));
    wanted.extend(tasks.map(str::to_owned));
    wanted.sort();
    assert_eq!(names(&env.path("mined")), wanted, "nothing else is left");
    for (commit, _) in kinds.iter().filter(|(_, outcome)| outcome.starts_with("task ")) {
        let task = found[commit].strip_prefix("task ").unwrap();
        expect_base(&env, &format!("mined/{task}"), commit);
    }
    expect_prompts(&env, &wanted);
    expect_tasks_work(&env);

    // What is known is not found out again, and neither a limit nor a day changes what there is.
    let runs = count_runs(&env);
    let ended = env.ralph(&["bench", "mine", "project", "-o", "mined", "--test", EACH]).expect(0);
    ended.says("taken      6 tasks").says("1  flaky").says("`bench run --tasks mined`");
    let most = parse(&mine(&env, &["--max", "2"]).expect(0));
    assert_eq!((most["taken"].as_u64(), most["looked_at"].as_u64()), (Some(2), Some(2)));
    let none = parse(&mine(&env, &["--since", "2999-01-01"]).expect(1));
    assert_eq!(none["looked_at"], 0);
    assert_eq!(count_runs(&env), runs);
}

/// The history of a task ends at the parent of its commit, and its tree is that one's.
fn expect_base(env: &TestEnvironment, task: &str, commit: &str) {
    let base = in_project(env, &["rev-parse", &format!("{commit}^")]);
    let copied = env.path(&format!("{task}/environment/git"));
    let at = format!("--git-dir={}", copied.display());
    let in_task = |args: &[&str]| git(env, &[&[at.as_str()][..], args].concat());
    assert_eq!(in_task(&["rev-parse", "HEAD"]), base);
    let all = ["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"];
    let all = in_task(&all);
    let mut wanted: Vec<String> = in_project(env, &["rev-list", "--objects", &base])
        .lines()
        .map(|line| line.split(' ').next().unwrap().to_owned())
        .collect();
    wanted.sort();
    assert_eq!(all.lines().collect::<Vec<_>>(), wanted, "{task}");
    assert_eq!(in_task(&["for-each-ref", "--format=%(refname)"]), "refs/heads/main");
    assert_eq!(in_task(&["remote"]), "");
    assert!(!copied.join("logs").exists() && !copied.join("packed-refs").exists());
    let tree = format!("--work-tree={}", env.path(&format!("{task}/environment/tree")).display());
    assert_eq!(in_task(&[&tree, "status", "--porcelain"]), "", "{task}");
    let instruction = env.read(&format!("{task}/instruction.md"));
    assert!(!instruction.contains(commit.get(..7).unwrap()), "{instruction}");
}

fn expect_prompts(env: &TestEnvironment, tasks: &[String]) {
    let prompt = |start: &str| {
        let task = tasks.iter().find(|task| task.starts_with(start)).unwrap();
        env.read(&format!("mined/{task}/instruction.md"))
    };
    let last = prompt("say-last-");
    assert!(last.contains("Say last\n\nUnlike "), "{last}");
    assert!(last.ends_with(" it is [commit].\n"), "{last}");
    assert!(prompt("gr-e-").ends_with("\n\nGrüße\n"));
    assert!(prompt("say-side-").ends_with("\n\nSay side\n\nTest it\n"));
    let much = prompt("say-much-");
    assert!(much.len() < 20_000 && much.ends_with("…\n"), "{}", much.len());
}

/// All tasks are accepted, solved by their own solutions and by nothing else, and an agent finds a clean history.
fn expect_tasks_work(env: &TestEnvironment) {
    let looks = "cd /app && git log --format=%s > \"$shared/log\" && git status --porcelain > \"$shared/status\"\n";
    add_script(env, "looks", looks);
    append(env, &unmetered("looks"));
    env.ralph(&["bench", "check", "--agents", "oracle,nop", "--tasks", "mined"]).expect(0);
    let run = ["bench", "run", "--agents", "oracle,nop,looks", "--tasks", "mined", "--out", "job"];
    env.ralph(&run).expect(0);
    let trials = super::trial_files(env, "job");
    assert_eq!(trials.len(), 18);
    for trial in trials {
        let reward = if trial["agent"] == "oracle" { 1.0 } else { 0.0 };
        assert_eq!(trial["rewards"]["reward"], reward, "{trial:#}");
    }
    assert!(env.read("shared/log").ends_with("First commit\n"));
    assert_eq!(env.read("shared/status"), "");
}

#[test]
fn hidden_tests_are_put_in_place_whatever_an_agent_left_there() {
    let env = project();
    say(&env, "2");
    env.write("project/tests/in/data.txt", "data\n");
    want(&env, "2");
    commit(&env, "Say two");
    parse(&mine(&env, &[]).expect(0));
    // Each would have the tests accept the work, or keep them from being read, if it stayed.
    let cheats = "cd /app && mkdir -p elsewhere && echo exit 0 > elsewhere/test_tool.sh && rm -rf tests && ln -s elsewhere tests\n";
    let removes = "cd /app && rm -rf tests && touch tests\n";
    for (name, script) in [("cheats", cheats), ("removes", removes)] {
        add_script(&env, name, script);
        append(&env, &unmetered(name));
        let solves = format!("{script}echo echo 2 > tool.sh\n");
        add_script(&env, &format!("{name}-and-solves"), &solves);
        append(&env, &unmetered(&format!("{name}-and-solves")));
    }
    let agents = "cheats,removes,cheats-and-solves,removes-and-solves";
    env.ralph(&["bench", "run", "--agents", agents, "--tasks", "mined", "--out", "job"]).expect(0);
    for trial in super::trial_files(&env, "job") {
        let agent = trial["agent"].as_str().unwrap();
        let reward = if agent.ends_with("-solves") { 1.0 } else { 0.0 };
        assert_eq!(trial["rewards"]["reward"], reward, "{trial:#}");
    }
}

#[test]
fn what_cannot_be_walked_is_refused_and_bare_and_shallow_repositories_are_not() {
    let env = project();
    for text in ["2", "3"] {
        say(&env, text);
        commit(&env, &format!("Say {text}"));
    }
    let try_on = |repository: &str, more: &[&str]| {
        let args = ["bench", "mine", repository, "-o", "none", "--test", EACH];
        env.ralph(&[&args[..], more].concat())
    };
    fs::create_dir(env.path("../outside")).unwrap();
    let outside = env.path("../outside").canonicalize().unwrap();
    try_on(outside.to_str().unwrap(), &[]).expect(78).says("expected a git repository");
    try_on("nowhere", &[]).expect(70).says("nowhere").says("No such file");
    git(&env, &["init", "-q", "empty"]);
    try_on("empty", &[]).expect(78).says("expected a repository with commits");
    try_on("project", &["--since", "yesterday"]).expect(64).says("2026-01-31");
    try_on("project", &["--max", "0"]).expect(64);
    try_on("project", &["--isolation", "none"]).expect(78).says("--isolation namespace");
    try_on("project", &["--issues", "ralph.toml"]).expect(64).says("ralph.toml: expected");
    env.write("issues.json", "{}");
    try_on("project", &["--issues", "issues.json"]).expect(64).says("gh issue list");
    assert!(names(&env.path("none")).iter().all(|name| name == "mine.jsonl"));

    // No task can have a link that leads outside.
    git(&env, &["clone", "-q", "project", "linked"]);
    std::os::unix::fs::symlink("/etc/passwd", env.path("linked/link")).unwrap();
    env.write("linked/tool.sh", "echo 4\n").write("linked/tests/test_tool.sh", "true\n");
    git(&env, &["-C", "linked", "add", "-A"]);
    let user = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"];
    git(&env, &[&["-C", "linked"][..], &user, &["commit", "-qm", "Say four"]].concat());
    let linked = ["bench", "mine", "linked", "-o", "linked-tasks", "--test", EACH];
    env.ralph(&linked).expect(0).says("no task can be made of it here").says("/etc/passwd");

    git(&env, &["clone", "-q", "--bare", "project", "bare.git"]);
    let source = format!("file://{}", env.path("project").display());
    git(&env, &["clone", "-q", "--depth=2", &source, "shallow"]);
    for (repository, tasks, looked_at) in [("bare.git", 2, 3), ("shallow", 1, 2)] {
        let out = format!("of-{repository}");
        let args = ["bench", "mine", repository, "-o", &out, "--test", EACH, "--json"];
        let ended = env.ralph(&args).expect(0);
        let report = parse(&ended);
        assert_eq!((&report["taken"], &report["looked_at"]), (&tasks.into(), &looked_at.into()));
        assert_eq!(ended.stderr.contains("is cut off"), repository == "shallow");
        let run = ["bench", "validate", &out, "--out", &format!("job-{repository}")];
        env.ralph(&run).expect(0);
    }
    // Other settings would make other tasks.
    let other = ["bench", "mine", "bare.git", "-o", "of-bare.git", "--test", "sh {files}"];
    env.ralph(&other).expect(64).says("other values of `--test`").says("-o");
}

#[test]
fn an_interrupt_leaves_finished_tasks_only_and_the_same_command_continues() {
    for signal in [Signal::INT, Signal::KILL] {
        let env = project();
        let [entered, release] = ["entered", "release"].map(|name| {
            let path = env.path("shared").join(name);
            assert!(env.program(Path::new("mkfifo")).arg(&path).status().unwrap().success());
            path
        });
        let hold = env.path("shared/hold");
        fs::write(&hold, "").unwrap();
        // Of the older commit the test waits as long as there is a file.
        say(&env, "2");
        let test = env.read("project/tests/test_tool.sh");
        let waits = format!(
            "[ ! -e '{}' ] || {{ echo > '{}'; cat '{}'; }}\n{test}",
            hold.display(),
            entered.display(),
            release.display()
        );
        env.write("project/tests/test_tool.sh", waits);
        commit(&env, "Say two");
        say(&env, "3");
        commit(&env, "Say three");
        let args = ["bench", "mine", "project", "-o", "mined", "--test", EACH];
        append(&env, "concurrency = 1\n");
        let mut running = env.start(&args);
        fs::read(&entered).unwrap();
        env.ralph(&args).expect(64).says("another `bench mine`");
        let runs = count_runs(&env);
        running.signal(signal);
        if signal == Signal::INT {
            running.says("stopping");
            fs::write(&release, "").unwrap();
            running.wait().expect(130).says("the same command continues");
            assert!(!env.path("mined/.mine").exists());
        } else {
            drop(running.wait());
            assert!(env.path("mined/.mine").exists());
        }
        let tasks = names(&env.path("mined"));
        let is_task = |name: &&String| name.starts_with("say-three-");
        assert_eq!(tasks.iter().filter(is_task).count(), 1, "{tasks:?}");
        assert!(!tasks.iter().any(|name| name.starts_with("say-2")), "{tasks:?}");
        fs::remove_file(&hold).unwrap();
        crate::environment::eventually("the next walk", || {
            let ended = mine(&env, &[]);
            ended.code == Some(0) && parse(&ended)["taken"] == 2
        });
        assert!(!env.path("mined/.mine").exists());
        // Only the trials of the older commit were performed.
        assert!(count_runs(&env) <= runs + 5, "{runs} {}", count_runs(&env));
    }
}

#[test]
fn tests_and_dependencies_are_found_as_by_init_and_issues_are_the_prompt() {
    let env = environment(&[]);
    let at = |path: &str| format!("project/{path}");
    env.write(&at("package.json"), r#"{"name":"p","version":"1.0.0","scripts":{"test":"node --test"},"dependencies":{"dep":"file:./dep"}}"#)
        .write(&at("package-lock.json"), r#"{"name":"p","version":"1.0.0","lockfileVersion":3,"requires":true,"packages":{"":{"name":"p","version":"1.0.0","dependencies":{"dep":"file:./dep"}},"dep":{"version":"1.0.0"},"node_modules/dep":{"resolved":"dep","link":true}}}"#)
        .write(&at("dep/package.json"), r#"{"name":"dep","version":"1.0.0"}"#)
        .write(&at("dep/index.js"), "module.exports = 20;\n")
        .write(&at(".gitignore"), "node_modules\n")
        .write(&at("index.js"), "module.exports = require('dep');\n");
    in_project(&env, &["init", "-qb", "main"]);
    in_project(&env, &["config", "user.name", "Ada User"]);
    in_project(&env, &["config", "user.email", "ada@example.org"]);
    commit(&env, "First commit");
    env.write(&at("index.js"), "module.exports = require('dep') + 1;\n").write(
        &at("test/sum.test.js"),
        "require('node:test')('sum', () => require('node:assert').equal(require('../index.js'), 21));\n",
    );
    commit(&env, "Fix the sum (#3)\n\nCloses #2");
    env.write(
        "issues.json",
        r#"[{"number":2,"title":"The sum is wrong","body":"It should be 21."}]"#,
    );
    let args = ["bench", "mine", "project", "-o", "mined", "--issues", "issues.json"];
    let ended = env.ralph(&[&args[..], &["--setup", "no-network"]].concat()).expect(0);
    ended.says("taken      1 task").says("`bench run --setup=no-network --tasks mined`");
    let task = names(&env.path("mined")).into_iter().find(|name| name != "mine.jsonl").unwrap();
    assert!(task.starts_with("the-sum-is-wrong-"), "{task}");
    let read = |path: &str| env.read(&format!("mined/{task}/{path}"));
    assert!(read("instruction.md").ends_with("\n\nThe sum is wrong\n\nIt should be 21.\n"));
    assert!(read("environment/Dockerfile").contains("RUN npm ci\n"));
    assert!(read("tests/test.sh").contains("node --test test/sum.test.js\n"));
    env.ralph(&["bench", "validate", "mined", "--setup=no-network", "--out", "job"]).expect(0);
    // Without what is installed the tests cannot run.
    let ended = env.ralph(&["bench", "mine", "project", "-o", "other", "--setup", "off"]).expect(1);
    ended.says("its tests fail with it");
    // The repository of the tests is no other one than before.
    assert!(try_git(&env, &["-C", "project", "fsck"]).status.success());
}
