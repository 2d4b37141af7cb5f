//! The checkout of a run: what it knows of the start, and the layers that it makes for a validation.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

use ralph_orchestrator_contract::LayeredFolder;
use ralph_orchestrator_safe_fs::{has_overlay_mark, is_opaque, remove_layer};
use serde::{Deserialize, Serialize};

use crate::content_digests::{ContentDigests, StartContents};
use crate::error::CheckoutError;
use crate::git_files::{self, SeenGit};
use crate::inventory::{Inventory, Stamp};
use crate::kept_layers::{KeptLayer, KeptLayers, KeptRecord};
use crate::layers::{Layer, create_like};
use crate::repository::{GIT, REPOSITORY, is_other_repository};
use crate::work_content::WorkContent;

/// Larger files, and more in all, are not kept as they were before.
const MOST_BEFORE: u64 = 256 * 1024 * 1024;
/// In the storage: what a validation has; removed with it.
const VALIDATION: &str = "validation";
/// The same of one that sees everything, beside it.
const UNHIDDEN: &str = "unhidden";

/// What a run knows of the start of its workspace, with layers in a folder of its own.
#[derive(Debug)]
pub struct Checkout {
    pub(crate) storage: PathBuf,
    pub(crate) source: CheckoutSource,
    pub(crate) start: StartRecord,
    pub(crate) kept: KeptLayers,
    contents: StartContents,
}

/// What was there when the run began: to be stored where nobody else can write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartRecord {
    pub(crate) files: Inventory,
    /// Of git's own files, if the workspace is in a repository.
    git: Option<Inventory>,
}

impl StartRecord {
    /// Whether there was something else than a folder at a path.
    #[must_use]
    pub fn had(&self, path: &Path) -> bool {
        self.files.entries.get(path).is_some_and(|stamp| !stamp.is_folder())
    }
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
    /// Of that, what an agent may have made.
    pub made: Vec<PathBuf>,
    /// What checks never see, relative to the workspace, with all beneath.
    pub hidden: Vec<PathBuf>,
}

/// What checks see of files that do not count as work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// Those that are as they were when the run began, what the setup made, and what the first checks wrote: quick, but a build
    /// that takes what is there for what it would make hides that it cannot make it.
    Warm,
    /// The same without what the first checks wrote.
    Cold,
    /// All, as they are: what is accepted with them proves nothing.
    All,
    /// The same, and git's own files as they are.
    AllWithGit,
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
    /// Whether what the setup made before the first checks was there until now, and was changed from outside.
    pub has_lost_setup: bool,
    /// What counts as work and is new or not as it was, or was there when the run began; what is gone, folders as a whole.
    pub work: Vec<PathBuf>,
    /// Git's own files that say where its branches are and what is to be committed, and are not as they were when the run began:
    /// checks see those.
    pub git_changes: Inventory,
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
    /// Records what is in the workspace. The layers are in the folder `storage`, which is made anew.
    ///
    /// # Errors
    /// The workspace cannot be read, or the storage not written.
    pub fn begin(source: CheckoutSource, storage: &Path) -> Result<Self, CheckoutError> {
        remove_layer(storage).map_err(CheckoutError::errno("remove", storage))?;
        fs::create_dir_all(storage).map_err(CheckoutError::io("create", storage))?;
        let git = source.git.as_deref().filter(|_| !source.shows_git());
        let git = git.map(|git| git_files::copy(git, storage)).transpose()?;
        let mut files = take_inventory(&source.workspace, &source.shown)?;
        files.entries.retain(|path, _| !source.hides(path));
        let checkout =
            Self::open(source, storage, StartRecord { files, git }, KeptRecord::default());
        checkout.kept.record_layers()?;
        Ok(checkout)
    }

    /// Goes on with what was recorded: of the start, and, later, of the layers that are kept.
    #[must_use]
    pub fn open(
        source: CheckoutSource,
        storage: &Path,
        start: StartRecord,
        kept: KeptRecord,
    ) -> Self {
        let (storage, kept) = (storage.to_owned(), KeptLayers::new(storage.to_owned(), kept));
        Self { storage, source, start, kept, contents: StartContents::default() }
    }

    /// Deletes all layers.
    ///
    /// # Errors
    /// They cannot be deleted.
    pub fn discard(&self) -> Result<(), CheckoutError> {
        remove_layer(&self.storage).map_err(CheckoutError::errno("remove", &self.storage))
    }

    /// Waits, where it is to be told whether a file holds what it held when the run began, until that is
    /// [set](Self::set_contents). To be called before another thread [reads](Self::read_contents) it.
    pub fn await_contents(&self) {
        self.contents.begin();
    }

    /// Reads what is as it was when the run began and does not count as work, until `stop`.
    #[must_use]
    pub fn read_contents(
        &self,
        is_work: &dyn Fn(&Path) -> bool,
        stop: &AtomicBool,
    ) -> ContentDigests {
        let is_wanted = |path: &Path| !is_work(path);
        ContentDigests::read(&self.source.workspace, &self.start.files, &is_wanted, stop)
    }

    /// Takes a file that does not count as work and holds the same for one that is as it was.
    pub fn set_contents(&self, contents: ContentDigests) {
        self.contents.set(contents);
    }

    /// Returns what was there when the run began.
    #[must_use]
    pub const fn start(&self) -> &StartRecord {
        &self.start
    }

    /// Returns what is kept, if it is not what was returned last.
    pub fn take_kept(&self) -> Option<KeptRecord> {
        self.kept.take_record()
    }

    /// Returns the folder of git's own files, if there are any.
    fn git(&self) -> Option<&Path> {
        self.source.git.as_deref().filter(|_| self.start.git.is_some())
    }

    /// Whether there is anything that the first checks wrote and later ones see.
    #[must_use]
    pub fn has_base(&self) -> bool {
        self.kept.has_content(KeptLayer::Base)
    }

    /// Makes the layers for a validation of the workspace as it is. `is_work` tells what counts as work, now or when the run
    /// began, by the path relative to the workspace.
    ///
    /// # Errors
    /// The workspace cannot be read, or the layers not be written.
    pub fn prepare(
        &self,
        is_work: &dyn Fn(&Path) -> bool,
        visibility: Visibility,
    ) -> Result<PreparedCheckout, CheckoutError> {
        let write_work = |folder: &Path, changes: &Changes| self.write_work(folder, changes);
        self.prepare_with(is_work, visibility, &write_work)
    }

    /// Makes the layers, that with the work as `write_work` does in this folder.
    pub(crate) fn prepare_with(
        &self,
        is_work: &dyn Fn(&Path) -> bool,
        visibility: Visibility,
        write_work: &dyn Fn(&Path, &Changes) -> Result<PathBuf, CheckoutError>,
    ) -> Result<PreparedCheckout, CheckoutError> {
        let folder = self.storage.join(match visibility {
            Visibility::Warm | Visibility::Cold => VALIDATION,
            Visibility::All | Visibility::AllWithGit => UNHIDDEN,
        });
        let has_lost_setup = self.kept.verify()?;
        remove_layer(&folder).map_err(CheckoutError::errno("remove", &folder))?;
        fs::create_dir(&folder).map_err(CheckoutError::io("create", &folder))?;
        let mut prepared = PreparedCheckout {
            folder,
            overlays: Vec::new(),
            hidden: Vec::new(),
            gone: Vec::new(),
            has_lost_setup,
            work: Vec::new(),
            git_changes: Inventory::default(),
        };
        let (_, mut changes) = self.compare(is_work)?;
        if matches!(visibility, Visibility::All | Visibility::AllWithGit) {
            changes.hidden.clear();
        }
        let git = self.look_at_git(visibility)?;
        let git_inside = git.as_ref().filter(|git| self.is_inside(git.folder));
        let mut below = vec![self.source.workspace.clone()];
        below.insert(0, self.write_hidden(&prepared.folder, &changes, git_inside)?);
        if git_inside.is_some() {
            below.insert(0, self.storage.join(REPOSITORY));
        }
        let is_seen = |layer: &KeptLayer| match visibility {
            Visibility::Warm => true,
            Visibility::Cold => *layer != KeptLayer::Base,
            Visibility::All | Visibility::AllWithGit => false,
        };
        for layer in KeptLayer::ALL.into_iter().filter(is_seen) {
            if self.kept.has(layer) {
                below.insert(0, self.kept.path(layer));
            }
        }
        below.insert(0, write_work(&prepared.folder, &changes)?);
        prepared.add(&self.source.workspace, below, "")?;
        self.add_git_outside(&mut prepared, git.as_ref())?;
        let is_removed_work = |path: &&PathBuf| !changes.gone.contains(path);
        let removed = changes.removed.iter().filter(is_removed_work);
        prepared.work = changes.work.iter().map(|(path, _)| path).chain(removed).cloned().collect();
        prepared.git_changes = git.map(|git| git.changes).unwrap_or_default();
        prepared.hidden = changes.hidden;
        prepared.gone = changes.gone;
        Ok(prepared)
    }

    /// Returns git's own files as checks see them, unless those see them as they are.
    fn look_at_git(&self, visibility: Visibility) -> Result<Option<SeenGit<'_>>, CheckoutError> {
        let start = self.start.git.as_ref().filter(|_| visibility != Visibility::AllWithGit);
        let both = self.source.git.as_deref().zip(start);
        both.map(|(git, start)| SeenGit::look(git, start)).transpose()
    }

    /// Whether git's own files are in the workspace.
    fn is_inside(&self, git: &Path) -> bool {
        git == self.source.workspace.join(GIT)
    }

    /// Adds an overlay over git's own files, where they are not in the workspace.
    fn add_git_outside(
        &self,
        prepared: &mut PreparedCheckout,
        seen: Option<&SeenGit<'_>>,
    ) -> Result<(), CheckoutError> {
        let Some(git) = self.source.git.as_deref().filter(|git| !self.is_inside(git)) else {
            return Ok(());
        };
        let mut layers = vec![git.to_owned()];
        if let Some(seen) = seen {
            let mut hidden = Layer::create(prepared.folder.join("hidden-git"), git)?;
            for path in &seen.new {
                hidden.hide(path)?;
            }
            layers.splice(0..0, [self.storage.join(REPOSITORY).join(GIT), hidden.finish()?]);
        }
        prepared.add(git, layers, "-git")
    }

    /// Keeps, for all later validations, what the setup made or the checks of this one wrote, but for what they did to files that
    /// count: those are as the work has them each time, and git's own those of the start. Only what ran before any agent worked
    /// can be trusted. Of what they wrote to, it keeps what that held [before](KeptLayer::Before): whoever runs the checks in the
    /// workspace changes it, and checks need it as it was. After another layer was kept, those of this validation are of no use.
    ///
    /// # Errors
    /// It cannot be read, or the layer not be made.
    pub fn keep(
        &self,
        layer: KeptLayer,
        prepared: &PreparedCheckout,
        is_work: &dyn Fn(&Path) -> bool,
    ) -> Result<(), CheckoutError> {
        let Some(overlay) = prepared.overlays.first() else { return Ok(()) };
        if layer == KeptLayer::Before {
            return self.keep_before(&overlay.upper, is_work);
        }
        let place = self.kept.remove(layer)?;
        self.put_back_work(prepared, is_work)?;
        let git = overlay.upper.join(GIT);
        remove_layer(&git).map_err(CheckoutError::errno("remove", &git))?;
        fs::rename(&overlay.upper, &place).map_err(CheckoutError::io("create", &place))?;
        self.kept.record_layers()
    }

    fn keep_before(
        &self,
        upper: &Path,
        is_work: &dyn Fn(&Path) -> bool,
    ) -> Result<(), CheckoutError> {
        let written = Inventory::take(upper, &|_| false)?;
        let known =
            written.entries.keys().filter_map(|path| self.start.files.entries.get_key_value(path));
        let known: Vec<_> = known.filter(|(_, stamp)| !stamp.is_folder()).collect();
        let products = known.iter().map(|(path, stamp)| ((*path).clone(), **stamp)).collect();
        self.kept.record_products(Inventory { entries: products });
        let others: Vec<_> = known.into_iter().filter(|(path, _)| !is_work(path)).collect();
        if others.is_empty() {
            return Ok(());
        }
        let place = self.kept.remove(KeptLayer::Before)?;
        let mut layer = Layer::create(place, &self.source.workspace)?;
        let mut left = MOST_BEFORE;
        for (path, stamp) in others {
            if stamp.size() <= left {
                left = left.saturating_sub(stamp.size());
                layer.copy(path, stamp.modified_ns())?;
            }
        }
        layer.finish()?;
        self.kept.record_layers()
    }

    /// Returns which of these files, that were there when the run began, checks have changed or removed, but for those that the
    /// first checks wrote to as well. None may be running.
    ///
    /// # Errors
    /// What they wrote cannot be read.
    pub fn find_rewritten(
        &self,
        prepared: &PreparedCheckout,
        is_of_interest: &dyn Fn(&Path) -> bool,
    ) -> Result<Vec<PathBuf>, CheckoutError> {
        let Some(overlay) = prepared.overlays.first() else { return Ok(Vec::new()) };
        let written = Inventory::take(&overlay.upper, &|_| false)?.entries;
        let is_changed = |path: &PathBuf| {
            let seen = overlay.layers.iter().map(|layer| layer.join(path));
            let before = seen.into_iter().find(|found| found.symlink_metadata().is_ok());
            before.is_none_or(|before| !holds_same(&before, &overlay.upper.join(path)))
        };
        let files = written.into_iter().filter(|(_, stamp)| !stamp.is_folder());
        let known = files.map(|(path, _)| path).filter(|path| {
            is_of_interest(path) && self.start.had(path) && !self.kept.is_product(path)
        });
        Ok(known.filter(is_changed).collect())
    }

    /// Undoes what checks did to files that count, so that the next check sees the work. None may be running.
    ///
    /// # Errors
    /// What they wrote cannot be read, or not be removed.
    pub fn put_back_work(
        &self,
        prepared: &PreparedCheckout,
        is_work: &dyn Fn(&Path) -> bool,
    ) -> Result<(), CheckoutError> {
        let Some(overlay) = prepared.overlays.first() else { return Ok(()) };
        let is_new = |path: &Path| {
            overlay.layers.first().is_some_and(|work| work.join(path).symlink_metadata().is_ok())
        };
        for (path, stamp) in &Inventory::take(&overlay.upper, &|_| false)?.entries {
            let found = overlay.upper.join(path);
            let covers = !stamp.is_folder() || is_opaque(&found);
            let counts = !stamp.is_folder() && is_work(path);
            if covers && (counts || is_new(path) || self.has_work_at(path, is_work)) {
                remove_layer(&found).map_err(CheckoutError::errno("remove", &found))?;
            }
        }
        Ok(())
    }

    /// Whether a path is in a repository within the workspace that was not there when the run began: git stores no file of it.
    fn is_in_new_repository(&self, path: &Path) -> bool {
        let folders = path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
        let mut new = folders.take_while(|folder| !self.start.files.entries.contains_key(*folder));
        new.any(|folder| self.source.workspace.join(folder).join(GIT).symlink_metadata().is_ok())
    }

    /// Whether something that counts was at or beneath a path when the run began.
    fn has_work_at(&self, path: &Path, is_work: &dyn Fn(&Path) -> bool) -> bool {
        let from = self.start.files.entries.range(path.to_owned()..);
        let mut beneath = from.take_while(|(known, _)| known.starts_with(path));
        beneath.any(|(known, stamp)| !stamp.is_folder() && is_work(known))
    }

    /// Returns what is there, and what is not as it was when the run began.
    pub(crate) fn compare(
        &self,
        is_work: &dyn Fn(&Path) -> bool,
    ) -> Result<(Inventory, Changes), CheckoutError> {
        let now = take_inventory(&self.source.workspace, &self.source.shown)?;
        let before = &self.start.files.entries;
        let mut changes = Changes::default();
        let mut other = Vec::new();
        let mut with_work = BTreeSet::new();
        for (path, stamp) in &now.entries {
            let known = before.get(path);
            if known.is_some_and(|known| known.is_same(stamp)) {
                continue;
            }
            if !stamp.is_folder() && has_overlay_mark(&self.source.workspace.join(path)) {
                return Err(CheckoutError::Marked { path: path.clone() });
            }
            let restored =
                |known| self.contents.is_restored(&self.source.workspace, path, (known, stamp));
            let counts = is_work(path) && !self.source.hides(path);
            if !stamp.is_folder() && counts && !self.is_in_new_repository(path) {
                with_work.extend(path.ancestors().map(Path::to_owned));
                changes.work.push((path.clone(), *stamp));
            } else if !known.is_some_and(restored) {
                other.push((path, stamp.is_folder()));
            }
        }
        for (path, is_folder) in other {
            // In the order of their paths: a folder comes before what is in it.
            let is_hidden = changes.hidden.last().is_some_and(|last| path.starts_with(last));
            let holds_shown = self.source.shown.iter().any(|shown| shown.starts_with(path));
            let holds_work = is_folder && (with_work.contains(path) || holds_shown);
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
        Ok((now, changes))
    }

    /// Writes the layer with the work. What changed at once keeps its order.
    fn write_work(&self, folder: &Path, changes: &Changes) -> Result<PathBuf, CheckoutError> {
        let layer = Layer::create(folder.join("work"), &self.source.workspace)?;
        let mut layer = layer.with_git_modes(self.source.git.is_some());
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
        for path in changes.removed.iter().filter(|path| self.kept.have(path)) {
            layer.hide(path)?;
        }
        Ok(())
    }

    fn write_hidden(
        &self,
        folder: &Path,
        changes: &Changes,
        git_inside: Option<&SeenGit<'_>>,
    ) -> Result<PathBuf, CheckoutError> {
        let mut layer = Layer::create(folder.join("hidden"), &self.source.workspace)?;
        for path in &changes.hidden {
            layer.hide(path)?;
        }
        if let Some(git) = git_inside {
            for path in &git.new {
                layer.hide(&Path::new(GIT).join(path))?;
            }
        } else if self.git().is_some_and(|git| is_other_repository(&self.source.workspace, git)) {
            layer.hide(Path::new(GIT))?;
        }
        layer.finish()
    }
}

impl CheckoutSource {
    fn hides(&self, path: &Path) -> bool {
        self.hidden.iter().any(|hidden| path.starts_with(hidden))
    }

    /// Whether checks see git's own files as they are.
    fn shows_git(&self) -> bool {
        self.shown.iter().any(|shown| shown == Path::new(GIT))
    }
}

impl PreparedCheckout {
    /// Returns where a file of the workspace is that checks see at this path, before they write anything.
    #[must_use]
    pub fn find_seen(&self, path: &Path) -> Option<PathBuf> {
        let overlay = self.overlays.first()?;
        for layer in &overlay.layers {
            let found = |part: &Path| fs::symlink_metadata(layer.join(part)).ok();
            let is_whiteout = |found: fs::Metadata| found.file_type().is_char_device();
            let above = path.ancestors().filter(|part| !part.as_os_str().is_empty());
            if above.filter_map(found).any(is_whiteout) {
                return None;
            }
            if found(path).is_some() {
                return Some(layer.join(path));
            }
        }
        None
    }

    /// Adds an overlay over a folder; what is written there lands in a folder of this name's end.
    fn add(&mut self, target: &Path, layers: Vec<PathBuf>, end: &str) -> Result<(), CheckoutError> {
        let upper = create_like(self.folder.join(format!("upper{end}")), target)?;
        let work = create_like(self.folder.join(format!("kernel{end}")), target)?;
        self.overlays.push(LayeredFolder { target: target.to_owned(), layers, upper, work });
        Ok(())
    }
}

/// Records what is in a workspace. Repositories within it are seen as they are.
fn take_inventory(workspace: &Path, shown: &[PathBuf]) -> Result<Inventory, CheckoutError> {
    Inventory::take(workspace, &|path| {
        path.file_name().is_some_and(|name| name == GIT)
            || shown.iter().any(|shown| path.starts_with(shown))
    })
}

pub(crate) fn now_ns() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}

/// Whether both can be read and hold the same.
fn holds_same(one: &Path, other: &Path) -> bool {
    let both = WorkContent::read(one).zip(WorkContent::read(other));
    both.is_some_and(|(one, other)| one.bytes() == other.bytes())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use super::*;
    use crate::fixture::Place;

    /// As after another start.
    fn reopened(place: &Place, checkout: &Checkout) -> Checkout {
        let start = serde_json::to_string(checkout.start()).unwrap();
        let start = serde_json::from_str(&start).unwrap();
        Checkout::open(place.source(), &place.storage, start, checkout.kept.record().clone())
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
        let prepared = checkout.prepare(&is_work, Visibility::Warm).unwrap();
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
        let seen = |path: &str| {
            let found = prepared.find_seen(Path::new(path))?;
            fs::read_to_string(found).ok()
        };
        assert_eq!(seen("src/changed").as_deref(), Some("work"));
        assert_eq!(seen("src/kept").as_deref(), Some("base"));
        assert_eq!(
            (seen("src/gone"), seen("target/debug/test"), seen("venv/new")),
            (None, None, None)
        );
        let work = ["src/changed", "src/new/a", "src/new/b", "top", "src/gone", "src/whole"];
        assert_eq!(names(&prepared.work), work);
        drop(prepared);
        assert!(!place.storage.join(VALIDATION).exists());
    }

    #[test]
    fn a_repository_that_is_made_in_the_workspace_is_not_seen() {
        let place = Place::new(&["src/a"]);
        for (file, text) in
            [("../.git/HEAD", "base"), ("../.git/worktrees/w/HEAD", "base"), ("d/x/HEAD", "")]
        {
            place.write(file, text);
        }
        let checkout = place.begin();
        let hides_git = |prepared: &PreparedCheckout| {
            let mut layers = prepared.overlays[0].layers.iter();
            layers.any(|layer| files(layer).contains(&"-.git".to_owned()))
        };
        // Absolute, of a worktree.
        let worktree = format!("gitdir: {}\n", place.path("../.git/worktrees/w").display());
        for (pointer, is_hidden) in [
            ("gitdir: ../.git/worktrees/w\n", false),
            (&worktree, false),
            ("gitdir: d/x\n", true),
            ("", true),
        ] {
            place.write(".git", pointer);
            let prepared = checkout.prepare(&is_work, Visibility::Warm).unwrap();
            assert_eq!(hides_git(&prepared), is_hidden, "{pointer}");
        }
        fs::remove_file(place.path(".git")).unwrap();
        place.write(".git/HEAD", "other");
        let prepared = checkout.prepare(&is_work, Visibility::Warm).unwrap();
        assert!(hides_git(&prepared));
    }

    #[test]
    fn changed_files_have_the_modes_that_a_clone_gives_them() {
        let modes = [(0o600, 0o644), (0o711, 0o755), (0o444, 0o644)];
        for is_repository in [true, false] {
            let place = Place::new(&["src/kept", ".git/HEAD"][..1 + usize::from(is_repository)]);
            let checkout = place.begin();
            for (mode, stored) in modes {
                place.write("src/key", "work");
                let key = place.path("src/key");
                fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
                let prepared = checkout.prepare(&is_work, Visibility::Cold).unwrap();
                let copied = prepared.overlays[0].layers[0].join("src/key");
                let expected = if is_repository { stored } else { mode };
                assert_eq!(fs::metadata(copied).unwrap().mode() & 0o7777, expected);
                fs::remove_file(&key).unwrap();
            }
        }
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
        let prepared = checkout.prepare(&is_work, Visibility::Warm).unwrap();
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
        let prepared = checkout.prepare(&is_work, Visibility::Warm).unwrap();
        let upper = prepared.overlays[0].upper.clone();
        fs::create_dir(upper.join("src")).unwrap();
        fs::create_dir(upper.join(GIT)).unwrap();
        for file in ["src/lock", "src/gone", "src/product", "built", ".git/index"] {
            fs::write(upper.join(file), "by the check").unwrap();
        }
        checkout.keep(KeptLayer::Base, &prepared, &is_work).unwrap();
        drop(prepared);
        place.write("src/lock", "work");
        fs::remove_file(place.workspace.join("src/gone")).unwrap();
        let again = reopened(&place, &checkout);
        let prepared = again.prepare(&is_work, Visibility::Warm).unwrap();
        let layers = &prepared.overlays[0].layers;
        assert_eq!(files(&layers[0]), ["src/lock"]);
        // What it did to the work is undone.
        assert_eq!(files(&layers[1]), ["built"]);
        assert!(prepared.overlays[0].upper.read_dir().unwrap().next().is_none());
    }

    #[test]
    fn what_the_first_checks_wrote_is_not_in_a_cold_checkout_but_the_products_of_the_setup_are() {
        let place = Place::new(&["src/a"]);
        let checkout = place.begin();
        let write = |prepared: &PreparedCheckout, name: &str| {
            fs::write(prepared.overlays[0].upper.join(name), "").unwrap();
        };
        let prepared = checkout.prepare(&is_work, Visibility::Warm).unwrap();
        write(&prepared, "installed");
        checkout.keep(KeptLayer::Setup, &prepared, &is_work).unwrap();
        let prepared = checkout.prepare(&is_work, Visibility::Warm).unwrap();
        checkout.keep(KeptLayer::Base, &prepared, &is_work).unwrap();
        assert!(!checkout.has_base());
        let prepared = checkout.prepare(&is_work, Visibility::Warm).unwrap();
        write(&prepared, "built");
        checkout.keep(KeptLayer::Base, &prepared, &is_work).unwrap();
        drop(prepared);
        let again = reopened(&place, &checkout);
        assert!(again.has_base());
        let seen = |visibility| -> Vec<String> {
            let prepared = again.prepare(&is_work, visibility).unwrap();
            let kept = prepared.overlays[0].layers.iter().rev().skip(2).rev().skip(1);
            kept.flat_map(|layer| files(layer)).collect()
        };
        assert_eq!(seen(Visibility::Warm), ["built", "installed"]);
        assert_eq!(seen(Visibility::Cold), ["installed"]);
        assert!(seen(Visibility::All).is_empty());
    }

    #[test]
    fn what_was_written_anew_with_the_same_content_is_as_it_was() {
        let place = Place::new(&["src/work", "venv/same", "venv/other", "venv/mode", "venv/late"]);
        symlink("same", place.path("venv/link")).unwrap();
        let checkout = place.begin();
        checkout.await_contents();
        place.write("venv/late", "also");
        let contents = checkout.read_contents(&is_work, &AtomicBool::new(false));
        let text = serde_json::to_string(&contents).unwrap();
        let again = |path: &str, text: &str| {
            fs::remove_file(place.path(path)).unwrap();
            place.write(path, text);
        };
        again("venv/same", "base");
        again("venv/other", "BASE");
        again("venv/mode", "base");
        // It was not read before it was changed.
        again("venv/late", "base");
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(place.path("venv/mode"), executable).unwrap();
        fs::remove_file(place.path("venv/link")).unwrap();
        symlink("same", place.path("venv/link")).unwrap();
        std::thread::scope(|scope| {
            let compared = scope
                .spawn(|| checkout.prepare(&is_work, Visibility::Cold).unwrap().hidden.clone());
            checkout.set_contents(serde_json::from_str(&text).unwrap());
            let hidden = compared.join().unwrap();
            assert_eq!(hidden, ["venv/late", "venv/mode", "venv/other"].map(PathBuf::from));
        });
        // What was found out holds for that state alone.
        again("venv/same", "EVIL");
        let prepared = checkout.prepare(&is_work, Visibility::Cold).unwrap();
        assert!(prepared.hidden.contains(&"venv/same".into()));
    }

    #[test]
    fn what_the_first_checks_wrote_to_is_later_as_it_was_before() {
        let place = Place::new(&["src/a", "data/base", "data/large", "data/other"]);
        let checkout = place.begin();
        let prepared = checkout.prepare(&is_work, Visibility::Warm).unwrap();
        let upper = &prepared.overlays[0].upper;
        for file in ["src/a", "data/base", "data/new"] {
            fs::create_dir_all(upper.join(file).parent().unwrap()).unwrap();
            fs::write(upper.join(file), "by the check").unwrap();
        }
        checkout.keep(KeptLayer::Before, &prepared, &is_work).unwrap();
        drop(prepared);
        for file in ["data/base", "data/other"] {
            place.write(file, "by the agent");
        }
        let prepared = reopened(&place, &checkout).prepare(&is_work, Visibility::Cold).unwrap();
        let seen = prepared.find_seen(Path::new("data/base")).unwrap();
        assert_eq!(fs::read_to_string(seen).unwrap(), "base");
        assert_eq!(prepared.find_seen(Path::new("data/other")), None);
        assert_eq!(files(&prepared.overlays[0].layers[1]), ["data/base"]);
    }

    #[test]
    fn what_is_kept_and_was_changed_from_outside_is_not_seen() {
        let place = Place::new(&["src/a"]);
        let checkout = place.begin();
        assert!(checkout.take_kept().is_some() && checkout.take_kept().is_none());
        fs::create_dir(checkout.kept.path(KeptLayer::Base)).unwrap();
        let prepared = reopened(&place, &checkout).prepare(&is_work, Visibility::Warm).unwrap();
        assert_eq!(prepared.overlays[0].layers.len(), 3);
        drop(prepared);
        // Without its folder, it is made again.
        remove_layer(&place.storage).unwrap();
        drop(checkout.prepare(&is_work, Visibility::Warm).unwrap());
        // Git's own files are nowhere else.
        place.write(".git/HEAD", "base");
        let checkout = place.begin();
        fs::write(place.storage.join("repository/.git/HEAD"), "forged").unwrap();
        let prepared = checkout.prepare(&is_work, Visibility::Warm);
        assert!(matches!(prepared, Err(CheckoutError::Damaged { .. })));
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
            let prepared = checkout.prepare(&is_work, Visibility::Warm).unwrap();
            let overlay = prepared.overlays.last().unwrap();
            let at = |name: &str| if is_inside { format!(".git/{name}") } else { name.to_owned() };
            let [.., copies, hidden, _] = overlay.layers.as_slice() else { panic!() };
            let copies = if is_inside { copies.clone() } else { overlay.layers[0].clone() };
            assert_eq!(files(&copies), [at("HEAD"), at("refs/heads/main")]);
            assert_eq!(fs::read_to_string(copies.join(at("HEAD"))).unwrap(), "base");
            let expected = ["hooks", "index.lock", "refs/heads/agent"];
            assert_eq!(files(hidden), expected.map(|name| format!("-{}", at(name))));
            let changes: Vec<&Path> = prepared.git_changes.paths().collect();
            assert_eq!(changes, [Path::new("HEAD"), Path::new("refs/heads/agent")]);
            drop(prepared);
            // What is written there is thrown away all the same.
            let is_shown = |checkout: &Checkout, visibility: Visibility| {
                let prepared = checkout.prepare(&is_work, visibility).unwrap();
                let overlay = prepared.overlays.last().unwrap();
                let copies = place.storage.join(REPOSITORY);
                let is_copy = |layer: &PathBuf| layer.starts_with(&copies);
                place.path(git).canonicalize().unwrap().starts_with(&overlay.target)
                    && overlay.upper.is_dir()
                    && !overlay.layers.iter().any(is_copy)
            };
            assert!(is_shown(&checkout, Visibility::AllWithGit));
            let mut source = place.source();
            source.shown.push(GIT.into());
            let linked = Checkout::begin(source, &place.storage).unwrap();
            assert!(is_shown(&linked, Visibility::Cold));
        }
    }
}
