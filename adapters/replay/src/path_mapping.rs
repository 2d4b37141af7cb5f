//! Maps recorded paths to paths in the workspace.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// Maps the folder in which the recorded agent worked to the workspace.
#[derive(Clone, Debug)]
pub(crate) struct PathMapper {
    recorded: Option<PathBuf>,
    workspace: PathBuf,
}

/// Why a path cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PathError {
    #[error("{0} is outside the workspace: a recorded session changes files inside it only")]
    Outside(String),
    #[error("cannot read {path}: {error}")]
    Unreadable { path: String, error: String },
}

impl PathMapper {
    /// `workspace` is absolute and without links.
    pub(crate) fn new(recorded: Option<PathBuf>, workspace: PathBuf) -> Self {
        let recorded = recorded.filter(|path| path.is_absolute() && path.parent().is_some());
        Self { recorded, workspace }
    }

    /// Returns a recorded path in the workspace; reads nothing from disk.
    pub(crate) fn map(&self, recorded: &str) -> PathBuf {
        let path = Path::new(recorded);
        let inside = self.recorded.as_ref().and_then(|cwd| path.strip_prefix(cwd).ok());
        match inside {
            // An empty rest would leave a slash at the end.
            Some(rest) if rest.as_os_str().is_empty() => self.workspace.clone(),
            Some(rest) => self.workspace.join(rest),
            None => self.workspace.join(path),
        }
    }

    /// Returns a mapped path with all links followed.
    ///
    /// # Errors
    /// It is outside the workspace, or a link on the way leads out of it or nowhere.
    pub(crate) fn resolve(&self, mapped: &str) -> Result<PathBuf, PathError> {
        let outside = || PathError::Outside(mapped.to_owned());
        let path = self.workspace.join(mapped);
        let rest = path.strip_prefix(&self.workspace).map_err(|_| outside())?;
        let mut place = self.workspace.clone();
        for part in rest.components() {
            match part {
                Component::Normal(name) => {
                    place.push(name);
                    if let Ok(found) = fs::symlink_metadata(&place)
                        && found.is_symlink()
                    {
                        place = fs::canonicalize(&place).map_err(|error| {
                            let (path, error) = (place.display().to_string(), error.to_string());
                            PathError::Unreadable { path, error }
                        })?;
                    }
                }
                Component::ParentDir => {
                    place.pop();
                }
                Component::CurDir => {}
                Component::RootDir | Component::Prefix(_) => return Err(outside()),
            }
            if !place.starts_with(&self.workspace) {
                return Err(outside());
            }
        }
        Ok(place)
    }

    /// Returns a recorded command with the recorded folder's path replaced wherever it stands as a path.
    pub(crate) fn map_command(&self, command: &str) -> String {
        let Some(recorded) = self.recorded.as_deref().and_then(Path::to_str) else {
            return command.to_owned();
        };
        let workspace = self.workspace.to_string_lossy();
        let mut mapped = String::with_capacity(command.len());
        let mut quote = Quote::None;
        let mut before = None;
        let mut rest = command;
        while let Some(next) = rest.chars().next() {
            let behind = rest.strip_prefix(recorded).filter(|behind| {
                !before.is_some_and(continues_path) && !behind.starts_with(continues_name)
            });
            if let Some(behind) = behind {
                quote.push(&workspace, &mut mapped);
                before = recorded.chars().last();
                rest = behind;
            } else {
                quote = quote.after(before, next);
                mapped.push(next);
                before = Some(next);
                rest = rest.get(next.len_utf8()..).unwrap_or_default();
            }
        }
        mapped
    }
}

/// Before a path, these would make it a part of a longer one.
fn continues_path(character: char) -> bool {
    continues_name(character) || matches!(character, '/' | '.' | '~')
}

/// Behind a path, these would make its last name a longer one.
fn continues_name(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '-')
}

/// The shell's quotes around a place in a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quote {
    None,
    Single,
    Double,
}

impl Quote {
    /// The quotes behind the character `next`, which stands behind `before`.
    fn after(self, before: Option<char>, next: char) -> Self {
        match (self, next) {
            (Self::None | Self::Double, _) if before == Some('\\') => self,
            (Self::None, '\'') => Self::Single,
            (Self::None, '"') => Self::Double,
            (Self::Single, '\'') | (Self::Double, '"') => Self::None,
            (same, _) => same,
        }
    }

    /// Adds a path so that the shell reads it as one.
    fn push(self, path: &str, command: &mut String) {
        for character in path.chars() {
            match self {
                Self::Single if character == '\'' => command.push_str(r"'\'"),
                Self::Double if "\"\\$`".contains(character) => command.push('\\'),
                Self::None if !continues_path(character) => command.push('\\'),
                _ => {}
            }
            command.push(character);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn mapper(workspace: &str) -> PathMapper {
        PathMapper::new(Some("/workspace".into()), workspace.into())
    }

    #[test]
    fn recorded_paths_get_their_new_root() {
        let paths = mapper("/new/place");
        for (recorded, mapped) in [
            ("/workspace/a/b.txt", "/new/place/a/b.txt"),
            ("/workspace", "/new/place"),
            ("a/b", "/new/place/a/b"),
            ("/workspace2/a", "/workspace2/a"),
            ("/etc/passwd", "/etc/passwd"),
        ] {
            assert_eq!(paths.map(recorded), Path::new(mapped));
        }
    }

    #[test]
    fn nothing_leaves_the_workspace() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        let workspace = root.join("w");
        fs::create_dir_all(workspace.join("sub")).unwrap();
        fs::write(root.join("secret"), "s").unwrap();
        symlink("..", workspace.join("up")).unwrap();
        symlink("../secret", workspace.join("leak")).unwrap();
        symlink("../absent", workspace.join("dangling")).unwrap();
        symlink("loop", workspace.join("loop")).unwrap();
        symlink("sub", workspace.join("inner")).unwrap();
        let paths = PathMapper::new(Some("/workspace".into()), workspace.clone());
        for bad in [
            "/etc/passwd",
            "../secret",
            "/workspace/../secret",
            "sub/../../secret",
            "up/secret",
            "leak",
            "dangling",
            "loop",
            "/workspace2/x",
            "up/w/a",
            "inner/../../secret",
        ] {
            assert!(paths.resolve(paths.map(bad).to_str().unwrap()).is_err(), "{bad}");
        }
        for (good, place) in [
            ("/workspace/new/deep/file", "new/deep/file"),
            ("sub/../x", "x"),
            ("inner/x", "sub/x"),
            ("./sub/./x", "sub/x"),
        ] {
            let found = paths.resolve(paths.map(good).to_str().unwrap()).unwrap();
            assert_eq!(found, workspace.join(place), "{good}");
        }
    }

    #[test]
    fn a_workspace_below_the_recorded_folder_is_mapped_once_only() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        let workspace = root.join("w");
        let paths = PathMapper::new(Some(root.clone()), workspace.clone());
        let mapped = paths.map(root.join("a").to_str().unwrap());
        assert_eq!(paths.resolve(mapped.to_str().unwrap()).unwrap(), workspace.join("a"));
    }

    #[test]
    fn commands_name_the_new_root_in_every_kind_of_quotes() {
        let plain = mapper("/n/w");
        for (recorded, mapped) in [
            ("cd /workspace && ls", "cd /n/w && ls"),
            ("cat /workspace/a '/workspace/b' \"/workspace\"", "cat /n/w/a '/n/w/b' \"/n/w\""),
            (
                "ls /workspace2 /my/workspace x/workspace /workspace-old",
                "ls /workspace2 /my/workspace x/workspace /workspace-old",
            ),
            ("A=/workspace:/workspace/bin;", "A=/n/w:/n/w/bin;"),
            ("echo é/workspace", "echo é/workspace"),
        ] {
            assert_eq!(plain.map_command(recorded), mapped);
        }
        let spaced = mapper("/my w/it's $x");
        assert_eq!(
            spaced.map_command("cat /workspace/a '/workspace/b' \"/workspace/c\" \\' /workspace"),
            r#"cat /my\ w/it\'s\ \$x/a '/my w/it'\''s $x/b' "/my w/it's \$x/c" \' /my\ w/it\'s\ \$x"#
        );
        let nowhere = PathMapper::new(None, "/n/w".into());
        assert_eq!(nowhere.map_command("ls /workspace"), "ls /workspace");
        // A recording made at the root of the file system says nothing about what belongs to it.
        let root = PathMapper::new(Some("/".into()), "/n/w".into());
        assert_eq!(root.map("/etc/x"), Path::new("/etc/x"));
    }
}
