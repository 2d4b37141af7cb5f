//! The checkout of a run: what it knows of the start, and the layers that it makes for a validation.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use ralph_orchestrator_contract::LayeredFolder;
use ralph_orchestrator_safe_fs::{is_opaque, remove_layer};

use crate::error::CheckoutError;
use crate::inventory::{Inventory, Stamp};
use crate::layers::{Layer, create_like};
use crate::repository::{GIT, is_shared, is_withheld};

/// In the storage: what the checks wrote before any agent worked.
const BASE: &str = "base";
/// Git's own files as they were at the start.
const REPOSITORY: &str = "repository";
/// What was in the workspace, and in git's folder.
const INVENTORY: &str = "inventory";
const GIT_INVENTORY: &str = "inventory-git";
/// What a validation has; removed with it.
const VALIDATION: &str = "validation";

/// What a run knows of the start of its workspace, kept in a folder of its own.
#[derive(Debug)]
pub struct Checkout {
    pub(crate) storage: PathBuf,
    pub(crate) workspace: PathBuf,
    pub(crate) inventory: Inventory,
    git: Option<GitFiles>,
    digest: String,
    /// Relative to the workspace: what is seen as it is.
    pub(crate) shown: Vec<PathBuf>,
}

/// What a checkout is of.
#[derive(Clone, Debug)]
pub struct CheckoutSource {
    /// The workspace: absolute, without links.
    pub workspace: PathBuf,
    /// The folder with what its repository shares among its worktrees, if it is in one: absolute, without links.
    pub git: Option<PathBuf>,
    /// What checks see as it is, relative to the workspace.
    pub shown: Vec<PathBuf>,
}

/// Git's own files.
#[derive(Debug)]
struct GitFiles {
    folder: PathBuf,
    inventory: Inventory,
}

/// The layers for one validation. They are removed when it is dropped.
#[derive(Debug)]
pub struct PreparedCheckout {
    folder: PathBuf,
    /// What the checks see instead of what is there.
    pub overlays: Vec<LayeredFolder>,
    /// What they do not see, relative to the workspace, folders as a whole: it does not count as work, and is new or not as
    /// it was when the run began.
    pub hidden: Vec<PathBuf>,
    /// What does not count as work and was there when the run began.
    pub gone: Vec<PathBuf>,
}

impl Drop for PreparedCheckout {
    /// What cannot be removed now is before the next validation.
    fn drop(&mut self) {
        let _ = remove_layer(&self.folder);
    }
}

/// What is not as it was at the start.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Files that count, with their times.
    pub(crate) work: Vec<(PathBuf, Stamp)>,
    hidden: Vec<PathBuf>,
    pub(crate) removed: Vec<PathBuf>,
    gone: Vec<PathBuf>,
}

impl Checkout {
    /// Records what is in the workspace, in the folder `storage`, which is made anew.
    ///
    /// # Errors
    /// The workspace cannot be read, or the storage not written.
    pub fn begin(source: CheckoutSource, storage: &Path) -> Result<Self, CheckoutError> {
        remove_layer(storage).map_err(CheckoutError::errno("remove", storage))?;
        fs::create_dir_all(storage).map_err(CheckoutError::io("create", storage))?;
        let CheckoutSource { workspace, git, shown } = source;
        let git = git.map(|folder| GitFiles::take(folder, storage)).transpose()?;
        let inventory = take_inventory(&workspace, &shown)?;
        let files = inventory.to_text();
        let git_files = git.as_ref().map(|git| git.inventory.to_text()).unwrap_or_default();
        for (name, text) in [(INVENTORY, &files), (GIT_INVENTORY, &git_files)] {
            let path = storage.join(name);
            fs::write(&path, text).map_err(CheckoutError::io("write", &path))?;
        }
        let (storage, digest) = (storage.to_owned(), digest_of(&files, &git_files));
        Ok(Self { storage, workspace, inventory, git, digest, shown })
    }

    /// Reads what was recorded when the run began. `digest` is the one that it had then.
    ///
    /// # Errors
    /// It is not as it was.
    pub fn open(
        source: CheckoutSource,
        storage: &Path,
        digest: String,
    ) -> Result<Self, CheckoutError> {
        let damaged = || CheckoutError::Damaged { path: storage.join(INVENTORY) };
        let read = |name: &str| {
            let path = storage.join(name);
            fs::read_to_string(&path).map_err(CheckoutError::io("read", &path))
        };
        let (files, git_files) = (read(INVENTORY)?, read(GIT_INVENTORY)?);
        if digest_of(&files, &git_files) != digest {
            return Err(damaged());
        }
        let inventory = Inventory::from_text(&files).ok_or_else(damaged)?;
        let git_files = Inventory::from_text(&git_files).ok_or_else(damaged)?;
        let CheckoutSource { workspace, git, shown } = source;
        let git = git.filter(|_| !git_files.is_empty());
        let git = git.map(|folder| GitFiles { folder, inventory: git_files });
        Ok(Self { storage: storage.to_owned(), workspace, inventory, git, digest, shown })
    }

    /// Returns the digest of what was recorded.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Makes the layers for a validation of the workspace as it is. `is_work` tells what counts as work, now or when the run
    /// began, by the path relative to the workspace.
    ///
    /// # Errors
    /// The workspace cannot be read, or the layers not be written.
    pub fn prepare(
        &self,
        is_work: &dyn Fn(&Path) -> bool,
    ) -> Result<PreparedCheckout, CheckoutError> {
        self.prepare_with(is_work, &|folder, changes| self.write_work(folder, changes))
    }

    /// Makes the layers, that with the work as `write_work` does in this folder.
    pub(crate) fn prepare_with(
        &self,
        is_work: &dyn Fn(&Path) -> bool,
        write_work: &dyn Fn(&Path, &Changes) -> Result<PathBuf, CheckoutError>,
    ) -> Result<PreparedCheckout, CheckoutError> {
        let folder = self.storage.join(VALIDATION);
        remove_layer(&folder).map_err(CheckoutError::errno("remove", &folder))?;
        fs::create_dir(&folder).map_err(CheckoutError::io("create", &folder))?;
        let mut prepared =
            PreparedCheckout { folder, overlays: Vec::new(), hidden: Vec::new(), gone: Vec::new() };
        let changes = self.compare(is_work)?;
        let git_inside = self.git.as_ref().filter(|git| git.folder == self.workspace.join(GIT));
        let mut below = vec![self.workspace.clone()];
        below.insert(0, self.write_hidden(&prepared.folder, &changes, git_inside)?);
        if git_inside.is_some() {
            below.insert(0, self.storage.join(REPOSITORY));
        }
        let base = self.storage.join(BASE);
        if base.exists() {
            below.insert(0, base);
        }
        below.insert(0, write_work(&prepared.folder, &changes)?);
        prepared.add(&self.workspace, below, "")?;
        if let Some(git) = self.git.as_ref().filter(|_| git_inside.is_none()) {
            let hidden = git.write_hidden(&prepared.folder)?;
            let layers = vec![self.storage.join(REPOSITORY).join(GIT), hidden, git.folder.clone()];
            prepared.add(&git.folder, layers, "-git")?;
        }
        prepared.hidden = changes.hidden;
        prepared.gone = changes.gone;
        Ok(prepared)
    }

    /// Keeps what the checks of this validation wrote for all later ones, but for what they did to files that count: those
    /// are as the work has them each time. Only checks that ran before any agent worked can be trusted to have written what
    /// they see again.
    ///
    /// # Errors
    /// It cannot be read, or moved to its place.
    pub fn keep_base(
        &self,
        prepared: &PreparedCheckout,
        is_work: &dyn Fn(&Path) -> bool,
    ) -> Result<(), CheckoutError> {
        let base = self.storage.join(BASE);
        remove_layer(&base).map_err(CheckoutError::errno("remove", &base))?;
        let Some(overlay) = prepared.overlays.first() else { return Ok(()) };
        let upper = &overlay.upper;
        for (path, stamp) in &Inventory::take(upper, &|_| false)?.entries {
            let found = upper.join(path);
            let covers = !stamp.is_folder() || is_opaque(&found);
            if covers && self.has_work_at(path, is_work) {
                remove_layer(&found).map_err(CheckoutError::errno("remove", &found))?;
            }
        }
        fs::rename(upper, &base).map_err(CheckoutError::io("create", &base))
    }

    /// Whether something that counts was at or beneath a path when the run began.
    fn has_work_at(&self, path: &Path, is_work: &dyn Fn(&Path) -> bool) -> bool {
        let from = self.inventory.entries.range(path.to_owned()..);
        let mut beneath = from.take_while(|(known, _)| known.starts_with(path));
        beneath.any(|(known, stamp)| !stamp.is_folder() && is_work(known))
    }

    /// Returns what is not as it was when the run began.
    pub(crate) fn compare(
        &self,
        is_work: &dyn Fn(&Path) -> bool,
    ) -> Result<Changes, CheckoutError> {
        let now = take_inventory(&self.workspace, &self.shown)?;
        let before = &self.inventory.entries;
        let mut changes = Changes::default();
        let mut other = Vec::new();
        let mut with_work = BTreeSet::new();
        for (path, stamp) in &now.entries {
            if before.get(path).is_some_and(|known| known.is_same(stamp)) {
                continue;
            }
            if !stamp.is_folder() && is_work(path) {
                with_work.extend(path.ancestors().map(Path::to_owned));
                changes.work.push((path.clone(), *stamp));
            } else {
                other.push((path, stamp.is_folder()));
            }
        }
        for (path, is_folder) in other {
            // In the order of their paths: a folder comes before what is in it.
            let is_hidden = changes.hidden.last().is_some_and(|last| path.starts_with(last));
            let holds_work = is_folder && with_work.contains(path);
            if !is_hidden && !holds_work {
                changes.hidden.push(path.clone());
            }
        }
        let missing = before.iter().filter(|(path, _)| !now.entries.contains_key(*path));
        for (path, _) in missing {
            let is_named = changes.removed.last().is_some_and(|last| path.starts_with(last));
            if !is_named {
                changes.removed.push(path.clone());
            }
        }
        let is_gone = |path: &&PathBuf| !self.has_work_at(path, is_work);
        changes.gone = changes.removed.iter().filter(is_gone).cloned().collect();
        Ok(changes)
    }

    /// Writes the layer with the work. What changed at once keeps its order.
    fn write_work(&self, folder: &Path, changes: &Changes) -> Result<PathBuf, CheckoutError> {
        let mut layer = Layer::create(folder.join("work"), &self.workspace)?;
        let mut files: Vec<&(PathBuf, Stamp)> = changes.work.iter().collect();
        files.sort_by_key(|(_, stamp)| stamp.modified_ns());
        let now = now_ns();
        for (number, (path, _)) in (0_i64..).zip(files) {
            layer.copy(path, now.saturating_add(number))?;
        }
        self.hide_removed(&mut layer, changes)?;
        layer.finish()
    }

    /// Hides what is gone: only a layer of the orchestrator's own can have what is no longer in the workspace.
    pub(crate) fn hide_removed(
        &self,
        layer: &mut Layer<'_>,
        changes: &Changes,
    ) -> Result<(), CheckoutError> {
        let base = self.storage.join(BASE);
        for path in &changes.removed {
            if fs::symlink_metadata(base.join(path)).is_ok() {
                layer.hide(path)?;
            }
        }
        Ok(())
    }

    fn write_hidden(
        &self,
        folder: &Path,
        changes: &Changes,
        git: Option<&GitFiles>,
    ) -> Result<PathBuf, CheckoutError> {
        let mut layer = Layer::create(folder.join("hidden"), &self.workspace)?;
        for path in &changes.hidden {
            layer.hide(path)?;
        }
        if let Some(git) = git {
            for path in git.find_new()? {
                layer.hide(&Path::new(GIT).join(path))?;
            }
        }
        layer.finish()
    }
}

impl PreparedCheckout {
    /// Adds an overlay over a folder; what is written there lands in a folder of this name's end.
    fn add(&mut self, target: &Path, layers: Vec<PathBuf>, end: &str) -> Result<(), CheckoutError> {
        let upper = create_like(self.folder.join(format!("upper{end}")), target)?;
        let work = create_like(self.folder.join(format!("kernel{end}")), target)?;
        self.overlays.push(LayeredFolder { target: target.to_owned(), layers, upper, work });
        Ok(())
    }
}

impl GitFiles {
    /// Records git's own files, and copies them.
    fn take(folder: PathBuf, storage: &Path) -> Result<Self, CheckoutError> {
        let inventory = Self::take_inventory(&folder)?;
        let root = storage.join(REPOSITORY);
        fs::create_dir(&root).map_err(CheckoutError::io("create", &root))?;
        let mut copies = Layer::create(root.join(GIT), &folder)?;
        for (path, stamp) in &inventory.entries {
            if !stamp.is_folder() {
                copies.copy(path, stamp.modified_ns())?;
            }
        }
        copies.finish()?;
        Ok(Self { folder, inventory })
    }

    fn take_inventory(folder: &Path) -> Result<Inventory, CheckoutError> {
        Inventory::take(folder, &|path| is_shared(path) || is_withheld(path))
    }

    /// Returns what was not there when the run began, and what no check is to see. What was there is covered by copies.
    fn find_new(&self) -> Result<Vec<PathBuf>, CheckoutError> {
        let all = Inventory::take(&self.folder, &is_shared)?;
        let mut new: Vec<PathBuf> = Vec::new();
        for (path, stamp) in &all.entries {
            let is_named = new.last().is_some_and(|last| path.starts_with(last));
            let known = self.inventory.entries.get(path);
            let is_known = known.is_some_and(|known| known.is_folder() == stamp.is_folder());
            if !is_named && !is_known {
                new.push(path.clone());
            }
        }
        Ok(new)
    }

    fn write_hidden(&self, folder: &Path) -> Result<PathBuf, CheckoutError> {
        let mut layer = Layer::create(folder.join("hidden-git"), &self.folder)?;
        for path in self.find_new()? {
            layer.hide(&path)?;
        }
        layer.finish()
    }
}

/// Records what is in a workspace. Repositories within it are seen as they are.
pub(crate) fn take_inventory(
    workspace: &Path,
    shown: &[PathBuf],
) -> Result<Inventory, CheckoutError> {
    Inventory::take(workspace, &|path| {
        path.file_name().is_some_and(|name| name == GIT)
            || shown.iter().any(|shown| path.starts_with(shown))
    })
}

fn digest_of(files: &str, git_files: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(files.as_bytes()).update(&[0]).update(git_files.as_bytes());
    hasher.finalize().to_hex().to_string()
}

pub(crate) fn now_ns() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};

    use super::*;

    struct Place {
        _temp: tempfile::TempDir,
        workspace: PathBuf,
        storage: PathBuf,
    }

    impl Place {
        fn new(files: &[&str]) -> Self {
            let temp = tempfile::tempdir().unwrap();
            let root = temp.path().canonicalize().unwrap();
            let place =
                Self { workspace: root.join("w"), storage: root.join("state/c"), _temp: temp };
            for file in files {
                place.write(file, "base");
            }
            place
        }

        fn write(&self, file: &str, text: &str) {
            let path = self.workspace.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn source(&self) -> CheckoutSource {
            let git = [".git", "../.git"].map(|name| self.workspace.join(name));
            let git = git.into_iter().find_map(|git| git.canonicalize().ok());
            let (workspace, shown) = (self.workspace.clone(), vec!["proof".into()]);
            CheckoutSource { workspace, git, shown }
        }

        fn begin(&self) -> Checkout {
            Checkout::begin(self.source(), &self.storage).unwrap()
        }
    }

    /// What is in `src` counts, as after an ignore file that names the rest.
    fn is_work(path: &Path) -> bool {
        path.starts_with("src") || path == Path::new("top")
    }

    /// Returns the files of a layer: whiteouts with a minus.
    fn files(layer: &Path) -> Vec<String> {
        let inventory = Inventory::take(layer, &|_| false).unwrap();
        let files = inventory.entries.iter().filter(|(_, stamp)| !stamp.is_folder());
        let name = |(path, _): (&PathBuf, &Stamp)| {
            let found = fs::symlink_metadata(layer.join(path)).unwrap();
            let is_whiteout = found.file_type().is_char_device();
            format!("{}{}", if is_whiteout { "-" } else { "" }, path.display())
        };
        files.map(name).collect()
    }

    #[test]
    fn what_changed_is_work_or_hidden_and_everything_else_is_seen() {
        let place = Place::new(&[
            "src/kept",
            "src/whole/a",
            "src/changed",
            "src/gone",
            "venv/kept",
            "venv/changed",
        ]);
        place.write("venv/gone", "");
        place.write("old/gone", "");
        let checkout = place.begin();
        place.write("src/changed", "work");
        place.write("src/new/a", "work");
        place.write("venv/changed", "forged");
        place.write("venv/new", "forged");
        place.write("target/debug/test", "forged");
        // A folder with work in it is not hidden as a whole.
        place.write("src/new/b", "work");
        place.write("proof/shown", "");
        place.write("top", "work");
        for gone in ["src/gone", "venv/gone"] {
            fs::remove_file(place.workspace.join(gone)).unwrap();
        }
        fs::remove_dir_all(place.workspace.join("old")).unwrap();
        fs::remove_dir_all(place.workspace.join("src/whole")).unwrap();
        fs::set_permissions(place.workspace.join("src"), fs::Permissions::from_mode(0o750))
            .unwrap();
        let prepared = checkout.prepare(&is_work).unwrap();
        let [overlay] = prepared.overlays.as_slice() else { panic!("{prepared:?}") };
        let [work, hidden, workspace] = overlay.layers.as_slice() else { panic!("{overlay:?}") };
        assert_eq!(files(work), ["src/changed", "src/new/a", "src/new/b", "top"]);
        assert_eq!(files(hidden), ["-target", "-venv/changed", "-venv/new"]);
        assert_eq!((workspace, &overlay.target), (&place.workspace, &place.workspace));
        assert_eq!(fs::metadata(work.join("src")).unwrap().mode() & 0o777, 0o750);
        let names = |paths: &[PathBuf]| -> Vec<String> {
            paths.iter().map(|path| path.display().to_string()).collect()
        };
        assert_eq!(names(&prepared.hidden), ["target", "venv/changed", "venv/new"]);
        assert_eq!(names(&prepared.gone), ["old", "venv/gone"]);
        drop(prepared);
        assert!(!place.storage.join(VALIDATION).exists());
    }

    #[test]
    fn what_changed_is_newer_than_anything_built_and_keeps_its_order() {
        let place = Place::new(&["src/gram.y", "src/gram.c"]);
        let checkout = place.begin();
        for (file, time) in [("src/gram.c", 2_000), ("src/gram.y", 1_000)] {
            place.write(file, "work");
            let file = fs::File::options().write(true).open(place.workspace.join(file)).unwrap();
            file.set_modified(UNIX_EPOCH + std::time::Duration::from_secs(time)).unwrap();
        }
        let before = SystemTime::now();
        let prepared = checkout.prepare(&is_work).unwrap();
        let time = |file: &str| {
            fs::metadata(prepared.overlays[0].layers[0].join(file)).unwrap().modified().unwrap()
        };
        let (source, product) = (time("src/gram.y"), time("src/gram.c"));
        assert!(before <= source && source < product);
    }

    #[test]
    fn what_checks_wrote_first_is_seen_later_below_the_work() {
        let place = Place::new(&["src/lock", "src/gone"]);
        let checkout = place.begin();
        let prepared = checkout.prepare(&is_work).unwrap();
        let upper = prepared.overlays[0].upper.clone();
        fs::create_dir(upper.join("src")).unwrap();
        for file in ["src/lock", "src/gone", "src/product", "built"] {
            fs::write(upper.join(file), "by the check").unwrap();
        }
        checkout.keep_base(&prepared, &is_work).unwrap();
        drop(prepared);
        place.write("src/lock", "work");
        fs::remove_file(place.workspace.join("src/gone")).unwrap();
        let digest = checkout.digest().to_owned();
        let again = Checkout::open(place.source(), &place.storage, digest).unwrap();
        let prepared = again.prepare(&is_work).unwrap();
        let layers = &prepared.overlays[0].layers;
        assert_eq!(files(&layers[0]), ["src/lock"]);
        // What it did to the work is undone.
        assert_eq!(files(&layers[1]), ["built", "src/product"]);
        assert!(prepared.overlays[0].upper.read_dir().unwrap().next().is_none());
    }

    #[test]
    fn a_record_that_was_changed_is_not_believed() {
        let place = Place::new(&["src/a"]);
        let checkout = place.begin();
        let digest = checkout.digest().to_owned();
        let open = || Checkout::open(place.source(), &place.storage, digest.clone());
        open().unwrap();
        fs::write(place.storage.join(INVENTORY), "").unwrap();
        assert!(matches!(open(), Err(CheckoutError::Damaged { .. })));
    }

    #[test]
    fn git_is_as_it_was_at_the_start_but_for_its_objects() {
        for is_inside in [true, false] {
            let git = if is_inside { ".git" } else { "../.git" };
            let file = |name: &str| format!("{git}/{name}");
            let place = Place::new(&["src/a"]);
            for name in ["HEAD", "refs/heads/main", "objects/ab/cd", "hooks/pre-commit"] {
                place.write(&file(name), "base");
            }
            let checkout = place.begin();
            for name in ["HEAD", "refs/heads/agent", "objects/ef/gh", "index.lock", "hooks/x"] {
                place.write(&file(name), "agent");
            }
            let prepared = checkout.prepare(&is_work).unwrap();
            let overlay = prepared.overlays.last().unwrap();
            let at = |name: &str| if is_inside { format!(".git/{name}") } else { name.to_owned() };
            let [.., copies, hidden, _] = overlay.layers.as_slice() else { panic!() };
            let copies = if is_inside { copies.clone() } else { overlay.layers[0].clone() };
            assert_eq!(files(&copies), [at("HEAD"), at("refs/heads/main")]);
            assert_eq!(fs::read_to_string(copies.join(at("HEAD"))).unwrap(), "base");
            let expected = ["hooks", "index.lock", "refs/heads/agent"];
            assert_eq!(files(hidden), expected.map(|name| format!("-{}", at(name))));
        }
    }
}
