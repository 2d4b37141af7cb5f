//! Keeping a process tree to a part of the file system, by Landlock.
//!
//! Landlock only ever grants: a right on a folder holds for all beneath it, and nothing beneath it can
//! be taken out again. So where something is to be left out, the folders that lead to it get no rights
//! of their own; what else lies in them gets them, entry by entry, as it is found when the process
//! starts.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::ops::Bound;
use std::path::{Component, Path, PathBuf};

/// The number of rules that can be added at every start in acceptable time.
const MAX_GRANTS: usize = 100_000;
/// The number of links in a path that the kernel follows.
const MAX_LINKS: usize = 40;

/// The file access of a process tree. Paths may be missing; symlinks in them are followed when the process
/// starts. Paths that are not listed can neither be read nor written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// Paths that may be read and executed, with all beneath.
    pub read: Vec<PathBuf>,
    /// Paths that may also be written. The program itself can always be read, and the folder in its `TMPDIR`
    /// always be written.
    pub write: Vec<PathBuf>,
    /// Paths that can at most be read, wherever they are, and neither be written, removed nor replaced.
    pub keep: Vec<PathBuf>,
    /// Paths that can neither be read nor written, wherever they are.
    pub hide: Vec<PathBuf>,
    /// Folders that a listed folder above them does not open: only they themselves, or what lies in them, can.
    pub private: Vec<PathBuf>,
    /// TCP ports, of whatever host, that cannot be connected to where the kernel can restrict it.
    pub ports: BTreeSet<u16>,
}

impl Sandbox {
    /// Returns the folders between a writable path and an excluded one: nothing new can be created directly
    /// in them.
    ///
    /// # Errors
    /// A folder that leads to what is left out cannot be listed, or there are too many grants.
    pub fn closed_folders(&self) -> io::Result<Vec<PathBuf>> {
        let mut cover = Cover::new(self.keep.iter().chain(&self.hide), &self.private);
        for tree in &self.write {
            cover.add(tree)?;
        }
        Ok(cover.closed.into_iter().collect())
    }

    /// Returns whether a confined process can put something else in the place of the path, or of anything that leads to
    /// it, such as a link.
    #[must_use]
    pub fn can_replace(&self, path: &Path) -> bool {
        let places = self.writable_places();
        steps(path).iter().any(|step| self.is_below(step, &places))
    }

    /// Returns whether the path leads through a link that a confined process can have put there.
    #[must_use]
    pub fn can_redirect(&self, path: &Path) -> bool {
        let places = self.writable_places();
        way(path).iter().any(|step| self.is_below(step, &places))
    }

    /// Returns the real paths that can be written, without those that lead through a link in another of them.
    fn writable_places(&self) -> Vec<PathBuf> {
        let (plain, linked): (Vec<_>, Vec<_>) =
            self.write.iter().partition(|tree| way(tree).is_empty());
        let plain: Vec<PathBuf> = plain.into_iter().map(|tree| real(tree)).collect();
        let is_own = |tree: &&PathBuf| !way(tree).iter().any(|step| self.is_below(step, &plain));
        let linked = linked.into_iter().filter(is_own).map(|tree| real(tree));
        linked.chain(plain.iter().cloned()).collect()
    }

    /// Returns whether a real path lies in one of these trees, and in no private folder that this does not open.
    fn is_below(&self, path: &Path, trees: &[PathBuf]) -> bool {
        let private: Vec<PathBuf> = self.private.iter().map(|folder| real(folder)).collect();
        let is_closed = |tree: &PathBuf| {
            let mut within = private.iter().filter(|own| *own != tree && own.starts_with(tree));
            within.any(|own| path.starts_with(own))
        };
        trees.iter().any(|tree| path.starts_with(tree) && !is_closed(tree))
    }

    /// Returns the readable and the writable paths, which contain nothing excluded.
    ///
    /// # Errors
    /// A folder that leads to what is left out cannot be listed, or there are too many grants.
    pub(crate) fn grants(&self) -> io::Result<(BTreeSet<PathBuf>, BTreeSet<PathBuf>)> {
        let mut readable = Cover::new(&self.hide, &self.private);
        for tree in self.read.iter().chain(&self.write) {
            readable.add(tree)?;
        }
        let mut writable = Cover::new(self.keep.iter().chain(&self.hide), &self.private);
        for tree in &self.write {
            writable.add(tree)?;
        }
        Ok((readable.found, writable.found))
    }
}

/// Covers trees except for the holes in them.
struct Cover {
    /// Excluded real paths.
    holes: BTreeSet<PathBuf>,
    /// Real paths that a tree above them does not cover.
    private: BTreeSet<PathBuf>,
    /// Paths without holes that cover the rest.
    found: BTreeSet<PathBuf>,
    /// Folders that contain a hole.
    closed: BTreeSet<PathBuf>,
}

impl Cover {
    fn new<'a>(holes: impl IntoIterator<Item = &'a PathBuf>, private: &[PathBuf]) -> Self {
        // A link that is to be left out is so under its own name and with what it leads to.
        let names = |hole: &'a PathBuf| [real(hole), real_name(hole)];
        let holes = holes.into_iter().flat_map(names).collect();
        let private = private.iter().map(|folder| real(folder)).collect();
        Self { holes, private, found: BTreeSet::new(), closed: BTreeSet::new() }
    }

    fn add(&mut self, tree: &Path) -> io::Result<()> {
        let Ok(tree) = tree.canonicalize() else { return Ok(()) };
        if tree.ancestors().any(|above| self.holes.contains(above)) {
            return Ok(());
        }
        self.cover(tree)
    }

    fn cover(&mut self, tree: PathBuf) -> io::Result<()> {
        if !self.has_hole(&tree) {
            if self.found.len() >= MAX_GRANTS {
                let message = format!(
                    "more than {MAX_GRANTS} files and folders lie beside what must not be \
                     written; protect whole folders instead of files in many of them"
                );
                return Err(io::Error::other(message));
            }
            self.found.insert(tree);
            return Ok(());
        }
        let listed = fs::read_dir(&tree).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let entries =
            listed.map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", tree.display())))?;
        for entry in entries {
            let path = entry.path();
            // What a link leads to has the rights of where it lies.
            let link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            if !link && !self.holes.contains(&path) && !self.private.contains(&path) {
                self.cover(path)?;
            }
        }
        self.closed.insert(tree);
        Ok(())
    }

    /// Whether a hole lies beneath. Paths sort by their names, so it would be the next one.
    fn has_hole(&self, tree: &Path) -> bool {
        let after = (Bound::Excluded(tree), Bound::Unbounded);
        let mut next = [&self.holes, &self.private].into_iter();
        next.any(|paths| {
            paths.range::<Path, _>(after).next().is_some_and(|path| path.starts_with(tree))
        })
    }
}

/// The path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    real_name(path)
}

/// The path with the links before its last name followed, as far as it exists.
fn real_name(path: &Path) -> PathBuf {
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) if folder != Path::new("") => real(folder).join(name),
        _ => path.to_owned(),
    }
}

/// Returns what resolving a path goes through before it ends, where that really lies: each link, and each folder that
/// `..` leaves.
fn way(path: &Path) -> Vec<PathBuf> {
    let mut steps = steps(path);
    steps.pop();
    steps
}

/// Returns what resolving a path goes through, where that really lies; the real path comes last.
fn steps(path: &Path) -> Vec<PathBuf> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut rest: VecDeque<OsString> = names(&path).collect();
    let (mut at, mut found) = (PathBuf::from("/"), Vec::new());
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            found.push(at.clone());
            at.pop();
            continue;
        }
        at.push(name);
        let Some(target) = fs::read_link(&at).ok().filter(|_| found.len() < MAX_LINKS) else {
            continue;
        };
        found.push(at.clone());
        at.pop();
        if target.is_absolute() {
            at = PathBuf::from("/");
        }
        names(&target).rev().for_each(|name| rest.push_front(name));
    }
    found.push(at);
    found
}

/// Returns the names in a path, `..` included.
fn names(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    let is_name =
        |part: &Component<'_>| matches!(part, Component::Normal(_) | Component::ParentDir);
    path.components().filter(is_name).map(|part| part.as_os_str().to_owned())
}

/// Adds the program, with what it is installed with, and the temporary folder of a process to its sandbox.
pub(crate) fn for_process(mut sandbox: Sandbox, program: &Path, tmp: Option<&str>) -> Sandbox {
    // Whoever can exchange the program must not open what it likes by that.
    if !sandbox.can_replace(program) {
        sandbox.read.extend(installation(program));
    }
    sandbox.write.extend(tmp.filter(|tmp| !tmp.is_empty()).map(PathBuf::from));
    sandbox
}

/// Returns the program and what it needs beside it: all packages of npm that are installed together, or the libraries
/// of the folder that its `bin` is in.
fn installation(program: &Path) -> Vec<PathBuf> {
    let real = real(program);
    let mut paths = vec![program.to_owned()];
    let packages = |folder: &&Path| folder.file_name() == Some(OsStr::new("node_modules"));
    // The outermost: packages use what lies beside them.
    if let Some(packages) = real.ancestors().filter(packages).last() {
        paths.push(packages.to_owned());
        return paths;
    }
    let Some(bin) = real.parent().filter(|folder| folder.ends_with("bin")) else { return paths };
    let beside = bin.parent().into_iter();
    let libraries = ["lib", "lib64", "libexec", "pyvenv.cfg"];
    paths.extend(beside.flat_map(|prefix| libraries.map(|name| prefix.join(name))));
    paths.push(bin.to_owned());
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with these files.
    fn files(names: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in names {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        (folder, root)
    }

    fn covered(root: &Path, tree: &str, holes: &[&str]) -> Vec<String> {
        let holes: Vec<PathBuf> = holes.iter().map(|hole| root.join(hole)).collect();
        let mut cover = Cover::new(&holes, &[]);
        cover.add(&root.join(tree)).unwrap();
        let name = |path: &PathBuf| path.strip_prefix(root).unwrap().display().to_string();
        cover.found.iter().map(name).collect()
    }

    #[test]
    fn a_tree_without_holes_is_granted_whole() {
        let (_folder, root) = files(&["a/x", "ab/y"]);
        assert_eq!(covered(&root, "a", &["ab", "a.b", "b/a"]), ["a"]);
        assert_eq!(covered(&root, "a", &[]), ["a"]);
    }

    #[test]
    fn around_a_hole_everything_else_is_granted() {
        let (_folder, root) = files(&["h/.local/state/ralph/key", "h/.local/share/x", "h/code/y"]);
        fs::write(root.join("h/.local/state/ralph-not"), "").unwrap();
        let found = covered(&root, "h", &["h/.local/state/ralph"]);
        assert_eq!(found, ["h/.local/share", "h/.local/state/ralph-not", "h/code"]);
    }

    #[test]
    fn a_tree_in_a_hole_and_one_that_is_not_there_are_not_granted() {
        let (_folder, root) = files(&["a/b/x"]);
        assert!(covered(&root, "a/b", &["a"]).is_empty());
        assert!(covered(&root, "a", &["a"]).is_empty());
        assert!(covered(&root, "nowhere", &[]).is_empty());
    }

    #[test]
    fn a_hole_that_is_not_there_yet_is_left_out_all_the_same() {
        let (_folder, root) = files(&["a/b/x"]);
        assert_eq!(covered(&root, "a", &["a/c/later"]), ["a/b"]);
    }

    #[test]
    fn links_are_never_followed_into_a_hole() {
        let (_folder, root) = files(&["a/hole/key", "b/y"]);
        std::os::unix::fs::symlink(root.join("a/hole"), root.join("b/way")).unwrap();
        std::os::unix::fs::symlink(root.join("a"), root.join("a/up")).unwrap();
        assert_eq!(covered(&root, "a", &["a/hole"]), <[&str; 0]>::default());
        // The hole is named by a link, and the tree is.
        assert_eq!(covered(&root, "a/up", &["b/way"]), <[&str; 0]>::default());
        assert_eq!(covered(&root, "b", &["b/way"]), ["b/y"]);
    }

    #[test]
    fn a_private_folder_is_opened_by_what_lies_in_it_and_not_from_above() {
        let (_folder, root) = files(&["h/me/.ssh/key", "h/me/.cargo/bin/x", "h/you/y"]);
        let found = |trees: &[&str]| {
            let mut cover = Cover::new(&[], &[root.join("h/me")]);
            trees.iter().for_each(|tree| cover.add(&root.join(tree)).unwrap());
            let name = |path: &PathBuf| path.strip_prefix(&root).unwrap().display().to_string();
            cover.found.iter().map(name).collect::<Vec<_>>()
        };
        assert_eq!(found(&["h"]), ["h/you"]);
        assert_eq!(found(&["h", "h/me/.cargo"]), ["h/me/.cargo", "h/you"]);
        assert_eq!(found(&["h/me"]), ["h/me"]);
    }

    #[test]
    fn a_program_that_the_agent_can_exchange_opens_nothing() {
        let (_folder, root) = files(&["w/x", "private/bin/tool", "private/lib/key"]);
        std::os::unix::fs::symlink(root.join("private/bin"), root.join("w/bin")).unwrap();
        let sandbox = Sandbox { write: vec![root.join("w")], ..Sandbox::default() };
        let read = |program: &str| for_process(sandbox.clone(), &root.join(program), None).read;
        assert_eq!(read("w/bin/tool"), <[PathBuf; 0]>::default());
        assert!(read("private/bin/tool").contains(&root.join("private/lib")));
    }

    #[test]
    fn a_link_that_a_confined_process_can_have_made_is_known_wherever_it_is_on_the_way() {
        let (_folder, root) = files(&["w/build/x", "own/d/x", "other/x", "home/me/x"]);
        let link = |to: &str, name: &str| {
            std::os::unix::fs::symlink(root.join(to), root.join(name)).unwrap();
        };
        link("other", "w/link");
        link("other", "own/link");
        link("w/link", "outside");
        link("own", "mine");
        link("w", "workspace");
        link("other", "home/me/link");
        let sandbox = Sandbox {
            // The last is what an agent made of a listed folder: it claims everything.
            write: ["w", "mine", "home", "w/all"].map(|name| root.join(name)).into(),
            private: vec![root.join("home/me")],
            ..Sandbox::default()
        };
        std::os::unix::fs::symlink("/", root.join("w/all")).unwrap();
        let cases = [
            ("w/link", true),
            ("w/link/x", true),
            ("own/link", true),
            ("mine/link/x", true),
            ("outside", true),
            ("workspace/link", true),
            ("w/build/../../other", true),
            ("w/build/x", false),
            ("workspace", false),
            ("workspace/build", false),
            ("mine/d", false),
            ("home/me/link", false),
            ("other/none", false),
        ];
        for (path, is_redirected) in cases {
            assert_eq!(sandbox.can_redirect(&root.join(path)), is_redirected, "{path}");
        }
    }

    #[test]
    fn a_program_comes_with_what_it_is_installed_with() {
        let (_folder, root) = files(&[
            "npm/lib/node_modules/@a/agent/node_modules/b/cli.js",
            "venv/bin/agent",
            "venv/lib/x",
            "agent.sh",
        ]);
        fs::create_dir(root.join("bin")).unwrap();
        let link = root.join("bin/agent");
        let inner = root.join("npm/lib/node_modules/@a/agent/node_modules/b/cli.js");
        std::os::unix::fs::symlink(&inner, &link).unwrap();
        let there = |program: &Path| {
            let paths = installation(program).into_iter().filter(|path| path.exists());
            paths.collect::<Vec<_>>()
        };
        assert_eq!(there(&link), [link.clone(), root.join("npm/lib/node_modules")]);
        let [program, lib, bin] =
            ["venv/bin/agent", "venv/lib", "venv/bin"].map(|name| root.join(name));
        assert_eq!(there(&program), [program.clone(), lib, bin]);
        assert_eq!(there(&root.join("agent.sh")), [root.join("agent.sh")]);
    }

    #[test]
    fn the_folders_that_lead_to_what_is_kept_are_closed() {
        let (_folder, root) = files(&["w/ralph.toml", "w/tests/unit/a", "w/src/b"]);
        let sandbox = Sandbox {
            write: vec![root.join("w")],
            keep: vec![root.join("w/ralph.toml"), root.join("w/tests/unit/a")],
            ..Sandbox::default()
        };
        let closed = ["w", "w/tests", "w/tests/unit"].map(|name| root.join(name));
        assert_eq!(sandbox.closed_folders().unwrap(), closed);
        let (_, writable) = sandbox.grants().unwrap();
        assert_eq!(Vec::from_iter(writable), [root.join("w/src")]);
    }
}
