//! Paths by their text, and where they lead.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

/// As many links as the system follows in one path.
const MOST_LINKS: usize = 40;

/// A link at which a path is followed no further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoppingLink {
    /// The link, whose folder's path is without links.
    pub link: PathBuf,
    /// What it leads to, as it is written.
    pub target: PathBuf,
    /// The whole path, of which no link before this one is left.
    pub path: PathBuf,
}

/// Returns the bytes of a path.
#[must_use]
pub fn path_bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// Returns the path without `.` and `..`, by its text alone: links are not followed, nothing has to
/// exist.
#[must_use]
pub fn normalize_lexically(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            other => clean.push(other),
        }
    }
    clean
}

/// Returns the absolute path without links; of what does not exist yet, as far as it exists.
#[must_use]
pub fn real_path(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let real = absolute.ancestors().find_map(|ancestor| {
        let real = ancestor.canonicalize().ok()?;
        let rest = absolute.strip_prefix(ancestor).ok()?;
        // What does not exist is no link, so `..` leads back the way the path came.
        Some(normalize_lexically(&real.join(rest)))
    });
    real.unwrap_or(absolute)
}

/// Returns whether a path is in one of these places, by its text or by where it leads.
#[must_use]
pub fn leads_into(path: &Path, places: &[PathBuf]) -> bool {
    let (lexical, real) = (normalize_lexically(path), real_path(path));
    places.iter().any(|place| lexical.starts_with(place) || real.starts_with(place))
}

/// Returns the absolute path without links as [`real_path`] does, link by link, as long as each may be followed: `may_follow`
/// is given the link, and the whole path by its name.
///
/// # Errors
/// Returns the first link that may not be followed, or that is one too many.
pub fn follow_links(
    path: &Path,
    mut may_follow: impl FnMut(&Path, &Path) -> bool,
) -> Result<PathBuf, StoppingLink> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut real = PathBuf::from("/");
    let mut rest: Vec<OsString> = parts_reversed(&absolute);
    let mut count = 0;
    while let Some(part) = rest.pop() {
        if part == ".." {
            real.pop();
            continue;
        }
        let next = real.join(&part);
        let Ok(target) = fs::read_link(&next) else {
            real = next;
            continue;
        };
        let whole = normalize_lexically(
            &rest.iter().rev().fold(next.clone(), |path, part| path.join(part)),
        );
        count += 1;
        if count > MOST_LINKS || !may_follow(&next, &whole) {
            return Err(StoppingLink { link: next, target, path: whole });
        }
        if target.is_absolute() {
            real = PathBuf::from("/");
        }
        rest.extend(parts_reversed(&target));
    }
    Ok(real)
}

/// Returns the names in a path, the last first, with each `..`.
fn parts_reversed(path: &Path) -> Vec<OsString> {
    let parts = path.components().rev().filter_map(|part| match part {
        Component::Normal(_) | Component::ParentDir => Some(part.as_os_str().to_owned()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_until_one_may_not_be() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/b")).unwrap();
        let link = |to: &str, at: &str| std::os::unix::fs::symlink(to, root.join(at)).unwrap();
        link("a", "one");
        link("../one/b", "a/two");
        link("round", "round");
        let all = |path: &str| follow_links(&root.join(path), |_, _| true);
        for path in ["one/two/x/y", "a/b/../two", "none/../x", "a/two/../b"] {
            assert_eq!(all(path).unwrap(), real_path(&root.join(path)), "{path}");
        }
        assert!(all("round/x").is_err());
        let stopped = follow_links(&root.join("one/two/x"), |link, whole| {
            assert!(whole.starts_with(link));
            !link.ends_with("a/two")
        });
        let stopped = stopped.unwrap_err();
        assert_eq!(stopped.link, root.join("a/two"));
        assert_eq!(stopped.target, Path::new("../one/b"));
        assert_eq!(stopped.path, root.join("a/two/x"));
    }

    #[test]
    fn a_path_leads_into_a_place_by_its_text_or_by_a_link() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("place")).unwrap();
        std::os::unix::fs::symlink("place", root.join("link")).unwrap();
        let places = [root.join("place")];
        for (path, expected) in [
            ("place", true),
            ("place/none", true),
            ("link", true),
            ("link/none/x", true),
            ("x/../place", true),
            ("place/..", false),
            ("placebo", false),
            ("none", false),
        ] {
            assert_eq!(leads_into(&root.join(path), &places), expected, "{path}");
        }
    }

    #[test]
    fn real_path_follows_what_exists_and_cleans_the_rest() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/b")).unwrap();
        std::os::unix::fs::symlink(root.join("a/b"), root.join("link")).unwrap();
        for (path, real) in [
            ("link", "a/b"),
            ("link/..", "a"),
            ("link/x/y", "a/b/x/y"),
            ("none/../x", "x"),
            ("link/none/../../x", "a/x"),
            ("./a/./none/", "a/none"),
        ] {
            assert_eq!(real_path(&root.join(path)), root.join(real), "{path}");
        }
        assert_eq!(normalize_lexically(Path::new("/a/./b/../../c/..")), Path::new("/"));
    }
}
