//! `[memory]`.

use ralph_orchestrator_config::{Memory, MemoryMode, ProgressFormat};

use crate::Project;

fn messages(memory: &str) -> Vec<String> {
    let project = Project::trusting(format!("[memory]\n{memory}\n"));
    let errors = project.load().expect_err(memory);
    errors.errors().iter().map(|error| format!("{}: {}", error.key, error.message)).collect()
}

#[test]
fn without_the_table_nothing_is_written_or_given() {
    let memory = Project::trusting("").loaded().config.memory;
    assert_eq!(memory, Memory::default());
    assert_eq!((memory.mode, memory.progress, memory.errors), (MemoryMode::None, None, None));
    assert_eq!((memory.max_entries, memory.max_bytes, memory.rotate_above), (5, 8192, 256 << 10));
    assert_eq!(memory.format, ProgressFormat::Sessions);
}

#[test]
fn paths_are_relative_to_the_workspace_and_sizes_take_units() {
    let text = "[memory]\nmode = \"full\"\nprogress = \"./notes//progress.md\"\nmax_bytes = \"1MiB\"\n\
                errors = \"errors.log\"\nrotate_above = 7";
    let memory = Project::trusting(text).loaded().config.memory;
    assert_eq!(memory.progress.unwrap(), std::path::Path::new("notes/progress.md"));
    assert_eq!(memory.errors.unwrap(), std::path::Path::new("errors.log"));
    assert_eq!((memory.max_bytes, memory.rotate_above), (1 << 20, 7));
}

#[test]
fn what_cannot_be_is_refused_with_its_key() {
    for path in ["../outside", "/absolute", "", "."] {
        let expected = format!(
            "memory.progress: expected the path of a file inside the workspace, relative to it, found {path:?}"
        );
        assert_eq!(messages(&format!("progress = {path:?}")), [expected]);
    }
    for mode in ["full", "breadcrumbs"] {
        let expected = "memory.mode: this mode needs a progress file";
        assert_eq!(messages(&format!("mode = {mode:?}")), [expected]);
    }
    assert_eq!(
        messages("progress = \"a.md\"\nerrors = \"./a.md\""),
        ["memory.errors: the progress file and the file of errors need names of their own"]
    );
    assert_eq!(
        messages("max_entries = 0\nrecent_commits = 101\nrotate_above = \"65 MiB\""),
        [
            "memory.max_entries: expected a whole number from 1 to 1000, found 0",
            "memory.recent_commits: expected a whole number from 0 to 100, found 101",
            "memory.rotate_above: expected at most \"64 MiB\": the file is read whole after each iteration",
        ]
    );
    assert_eq!(
        messages("max_bytes = 0"),
        [
            "memory.max_bytes: expected a number of bytes, at least 1, or a string such as \"8 KiB\", found 0"
        ]
    );
    assert_eq!(
        messages("mode = \"some\""),
        [
            "memory.mode: expected \"none\" or \"structured\" or \"breadcrumbs\" or \"full\", found \"some\""
        ]
    );
}

#[test]
fn the_file_of_the_backlog_is_not_written_to() {
    let text = "progress = \"plan.md\"\n[backlog]\nkind = \"plan-md\"\npath = \"./plan.md\"";
    assert_eq!(messages(text), ["memory.progress: this is the file of the backlog"]);
}

#[test]
fn what_is_no_file_for_entries_is_not_written_to() {
    for path in ["src/main.py", "ralph.toml", ".git/HEAD", ".git/notes.txt", "Makefile"] {
        let found = messages(&format!("progress = {path:?}"));
        assert!(found[0].contains("whose name ends in .txt, .md or .log"), "{path}: {found:?}");
        assert_eq!(messages(&format!("errors = {path:?}")).len(), 1, "{path}");
    }
    let found = messages("progress = \"PROMPT.md\"");
    assert_eq!(found, ["memory.progress: this is the prompt file"]);
}
