//! A workspace with one backlog file.

use std::path::Path;

use ralph_orchestrator_backlog::{
    Backlog, BacklogFile, BacklogKind, BacklogSnapshot, NextItem, open_backlog,
};

/// A temporary workspace and the backlog in it.
pub(crate) struct Workspace {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) backlog: Box<dyn Backlog>,
    name: String,
}

impl Workspace {
    pub(crate) fn empty(kind: BacklogKind, name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = BacklogFile::new(folder.path(), Path::new(name)).unwrap();
        Self { backlog: open_backlog(kind, file, None), folder, name: name.to_owned() }
    }

    pub(crate) fn new(kind: BacklogKind, name: &str, content: impl AsRef<[u8]>) -> Self {
        let workspace = Self::empty(kind, name);
        workspace.write(content);
        workspace
    }

    pub(crate) fn json(content: impl AsRef<[u8]>) -> Self {
        Self::new(BacklogKind::Json, "feature-list.json", content)
    }

    pub(crate) fn plan(content: impl AsRef<[u8]>) -> Self {
        Self::new(BacklogKind::PlanMd, "plan.md", content)
    }

    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.folder.path().join(&self.name)
    }

    pub(crate) fn write(&self, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(), content).unwrap();
    }

    pub(crate) fn text(&self) -> String {
        std::fs::read_to_string(self.path()).unwrap()
    }

    pub(crate) fn load(&self) -> BacklogSnapshot {
        self.backlog.load().unwrap()
    }

    /// The id of the next item, or another word.
    pub(crate) fn next(&self) -> String {
        describe_next(&self.backlog.select_next().unwrap())
    }

    pub(crate) fn error(&self) -> String {
        self.backlog.load().unwrap_err().to_string()
    }

    pub(crate) fn ids(&self) -> Vec<String> {
        self.load().items.into_iter().map(|item| item.id).collect()
    }
}

pub(crate) fn describe_next(next: &NextItem) -> String {
    match next {
        NextItem::Item { item } => item.id.clone(),
        NextItem::Complete => "(complete)".to_owned(),
        NextItem::Blocked { waiting } => {
            waiting.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        }
        NextItem::Empty => "(empty)".to_owned(),
    }
}

/// One feature of a feature-list.json, on one line.
pub(crate) fn feature(id: &str, status: &str, priority: i64, depends_on: &[&str]) -> String {
    format!(
        r#"{{"id":"{id}","name":"{id}","description":"","status":"{status}","priority":{priority},"depends_on":{depends_on:?}}}"#
    )
}

pub(crate) fn feature_list(features: &[String]) -> String {
    format!("{{\"project_name\":\"p\",\"features\":[\n{}\n]}}\n", features.join(",\n"))
}
