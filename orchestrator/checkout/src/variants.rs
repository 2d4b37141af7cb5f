//! The work with some of its files as they were when the run began, or in between.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::is_opaque;

use crate::checkout::{Changes, Checkout, PreparedCheckout, Visibility, now_ns};
use crate::error::CheckoutError;
use crate::inventory::Stamp;
use crate::layers::Layer;
use crate::start_copies;
use crate::work_content::{ChangedFile, WorkContent, WorkState};

/// What files hold instead of what the workspace has, by path relative to it; `None` where there is to be nothing.
pub type Variant = BTreeMap<PathBuf, Option<WorkContent>>;

/// The work at one time.
#[derive(Debug)]
pub struct ChangedWork {
    /// The files that count and are not as they were when the run began, by path.
    pub files: Vec<ChangedFile>,
    changes: Changes,
}

#[cfg(test)]
impl ChangedWork {
    pub(crate) fn from_files(files: Vec<ChangedFile>) -> Self {
        Self { files, changes: Changes::default() }
    }
}

impl Checkout {
    /// Keeps what the files that count hold, for [`find_changed_work`](Self::find_changed_work), but for what has secrets in
    /// it, or has changed since the run began; nothing of very much.
    ///
    /// # Errors
    /// The file of the copies cannot be written.
    pub fn keep_start(
        &self,
        is_work: &dyn Fn(&Path) -> bool,
        has_secret: &dyn Fn(&[u8]) -> bool,
    ) -> Result<(), CheckoutError> {
        let files = (self.source.workspace.as_path(), &self.start.files);
        let digest = start_copies::write(&self.storage, files, is_work, has_secret)
            .map_err(CheckoutError::io("write", &self.storage))?;
        self.kept.record_copies(digest);
        Ok(())
    }

    /// Returns what counts and is not as it was when the run began.
    ///
    /// # Errors
    /// The workspace cannot be read.
    pub fn find_changed_work(
        &self,
        is_work: &dyn Fn(&Path) -> bool,
    ) -> Result<ChangedWork, CheckoutError> {
        let (now, changes) = self.compare(is_work)?;
        let before = &self.start.files.entries;
        let digest = self.kept.copies();
        let mut copies =
            digest.map(|digest| start_copies::read(&self.storage, &digest)).unwrap_or_default();
        let mut files = Vec::new();
        let paths: BTreeSet<&PathBuf> = before.keys().chain(now.entries.keys()).collect();
        for path in paths.into_iter().filter(|path| is_work(path)) {
            let then = before.get(path).filter(|stamp| !stamp.is_folder());
            let later = now.entries.get(path).filter(|stamp| !stamp.is_folder());
            if then == later {
                continue;
            }
            let start = match then {
                None => WorkState::Missing,
                Some(_) => WorkState::from_read(copies.remove(path)),
            };
            let now = later.map_or(WorkState::Missing, |stamp| {
                let content = WorkContent::read(&self.source.workspace.join(path));
                WorkState::from_read(content.filter(|content| content.size() == stamp.size()))
            });
            if start != now || start == WorkState::Unknown {
                files.push(ChangedFile { path: path.clone(), start, now });
            }
        }
        Ok(ChangedWork { files, changes })
    }

    /// Returns what was there instead of this work when the run began, and nothing of what an agent may have made besides.
    /// `None` if not all is known.
    #[must_use]
    pub fn without_work(&self, work: &ChangedWork) -> Option<Variant> {
        let made = self.source.made.iter().map(|path| Some((path.clone(), None)));
        let start = work.files.iter().map(|file| match &file.start {
            WorkState::Missing => Some((file.path.clone(), None)),
            WorkState::Known(content) => Some((file.path.clone(), Some(content.clone()))),
            WorkState::Unknown => None,
        });
        made.chain(start).collect()
    }

    /// Makes the layers for checks of a variant of this work.
    ///
    /// # Errors
    /// The workspace cannot be read, or is not as it was then, or the layers cannot be written.
    pub fn prepare_variant(
        &self,
        is_work: &dyn Fn(&Path) -> bool,
        of: &ChangedWork,
        variant: &Variant,
    ) -> Result<PreparedCheckout, CheckoutError> {
        self.prepare_with(is_work, Visibility::Cold, &|folder, changes| {
            if changes.work != of.changes.work || changes.removed != of.changes.removed {
                return Err(CheckoutError::Unstable { path: self.source.workspace.clone() });
            }
            self.write_variant(folder, changes, variant)
        })
    }

    /// Writes the layer with the work, but for what the variant says of it. Whatever is written is newer than all before.
    fn write_variant(
        &self,
        folder: &Path,
        changes: &Changes,
        variant: &Variant,
    ) -> Result<PathBuf, CheckoutError> {
        let layer = Layer::create(folder.join("work"), &self.source.workspace)?;
        let mut layer = layer.with_git_modes(self.source.git.is_some());
        let now = now_ns();
        let others = changes.work.iter().filter(|(path, _)| !variant.contains_key(path));
        let others: Vec<&PathBuf> = others.map(|(path, _)| path).collect();
        let written = variant.iter().filter_map(|(path, content)| Some((path, content.as_ref()?)));
        let written: Vec<(&PathBuf, &WorkContent)> = written.collect();
        let there: BTreeSet<&PathBuf> =
            others.iter().copied().chain(written.iter().map(|(path, _)| *path)).collect();
        let mut number = 0_i64;
        let mut next_time = || {
            number = number.saturating_add(1);
            now.saturating_add(number)
        };
        for (path, content) in &written {
            layer.write(path, content, next_time())?;
        }
        for path in &others {
            layer.copy(path, next_time())?;
        }
        // After all that is there: a folder with something in it hides nothing.
        let is_hidden = |path: &Path| {
            let before = self.start.files.entries.get(path);
            let is_folder = before.is_some_and(Stamp::is_folder);
            let below = there.range(path.to_owned()..).next();
            !is_folder && !below.is_some_and(|below| below.starts_with(path))
        };
        for (path, _) in variant.iter().filter(|(_, content)| content.is_none()) {
            let above = path.ancestors().filter(|path| !path.as_os_str().is_empty());
            let top = above.take_while(|path| is_hidden(path)).last();
            layer.hide(top.unwrap_or(path))?;
        }
        self.hide_removed(&mut layer, changes)?;
        layer.finish()
    }
}

impl PreparedCheckout {
    /// Returns the files of a variant that no longer hold what it says, since the checks wrote them.
    #[must_use]
    pub fn find_rewritten(&self, variant: &Variant) -> Vec<PathBuf> {
        let Some(upper) = self.overlays.first().map(|overlay| overlay.upper.as_path()) else {
            return Vec::new();
        };
        let is_rewritten =
            |(path, content): &(&PathBuf, &Option<WorkContent>)| match find_written(upper, path) {
                Written::Nothing => false,
                Written::Removed => content.is_some(),
                Written::There => {
                    content.is_none() || WorkContent::read(&upper.join(path)) != **content
                }
            };
        variant.iter().filter(is_rewritten).map(|(path, _)| path.clone()).collect()
    }
}

/// What checks did to a path.
enum Written {
    Nothing,
    Removed,
    There,
}

fn find_written(upper: &Path, path: &Path) -> Written {
    let above: Vec<&Path> = path.ancestors().filter(|path| !path.as_os_str().is_empty()).collect();
    let mut missing = Written::Nothing;
    for part in above.into_iter().rev() {
        let place = upper.join(part);
        let Ok(found) = fs::symlink_metadata(&place) else { return missing };
        if found.file_type().is_char_device() {
            return Written::Removed;
        }
        if part == path {
            return if found.is_dir() { Written::Removed } else { Written::There };
        }
        if !found.is_dir() || is_opaque(&place) {
            missing = Written::Removed;
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use super::*;
    use crate::fixture::Place;
    use crate::work_content::MAX_BYTES;

    /// Begins with these files.
    fn begin(files: &[&str]) -> (Place, Checkout) {
        let place = Place::new(files);
        let checkout = place.begin();
        checkout.keep_start(&|_| true, &|bytes| bytes == b"a secret").unwrap();
        (place, checkout)
    }

    fn file(text: &str) -> WorkContent {
        WorkContent::File { bytes: text.as_bytes().into(), is_executable: false }
    }

    #[test]
    fn changed_work_is_known_as_it_was_and_as_it_is() {
        let (place, checkout) = begin(&["changed", "touched", "gone", "kind/a"]);
        place.write("changed", "work");
        place.write("touched", "base");
        place.write("new", "work");
        place.write("large", &"x".repeat(MAX_BYTES + 1));
        fs::remove_file(place.path("gone")).unwrap();
        fs::remove_dir_all(place.path("kind")).unwrap();
        symlink("new", place.path("kind")).unwrap();
        let found = checkout.find_changed_work(&|path| path != Path::new("ignored")).unwrap();
        let known = |text: &str| WorkState::Known(file(text));
        let link = WorkState::Known(WorkContent::Link { target: b"new".as_slice().into() });
        let expected = [
            ("changed", known("base"), known("work")),
            ("gone", known("base"), WorkState::Missing),
            ("kind", WorkState::Missing, link),
            ("kind/a", known("base"), WorkState::Missing),
            ("large", WorkState::Missing, WorkState::Unknown),
            ("new", WorkState::Missing, known("work")),
        ];
        let found: Vec<_> = found
            .files
            .iter()
            .map(|file| (file.path.to_str().unwrap(), file.start.clone(), file.now.clone()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_variant_is_written_anew_and_hides_what_is_left_out() {
        let (place, checkout) = begin(&["a", "gone/x", "kept/x"]);
        place.write("a", "work");
        place.write("b", "work");
        place.write("new/deep/x", "work");
        place.write("new/other", "work");
        place.write("alone/x", "work");
        place.write("kept/y", "work");
        fs::remove_dir_all(place.path("gone")).unwrap();
        let work = checkout.find_changed_work(&|_| true).unwrap();
        let of = |list: &[(&str, Option<&str>)]| -> Variant {
            list.iter().map(|(path, text)| (PathBuf::from(path), text.map(file))).collect()
        };
        let variant = of(&[
            ("a", Some("base")),
            ("gone/x", Some("base")),
            ("new/deep/x", None),
            ("alone/x", None),
            ("kept/y", None),
        ]);
        let before = now_ns();
        let prepared = checkout.prepare_variant(&|_| true, &work, &variant).unwrap();
        let layer = &prepared.overlays[0].layers[0];
        let read = |path: &str| fs::read_to_string(layer.join(path)).ok();
        let is_hidden = |path: &str| {
            let found = fs::symlink_metadata(layer.join(path));
            found.is_ok_and(|found| found.file_type().is_char_device())
        };
        assert_eq!(read("a").as_deref(), Some("base"));
        assert_eq!(read("gone/x").as_deref(), Some("base"));
        assert_eq!(
            (read("b").as_deref(), read("new/other").as_deref()),
            (Some("work"), Some("work"))
        );
        // A folder of which nothing is left is gone as well.
        assert!(["new/deep", "alone", "kept/y"].iter().all(|path| is_hidden(path)));
        for path in ["a", "gone/x", "b"] {
            let found = fs::metadata(layer.join(path)).unwrap();
            assert!(found.mtime() * 1_000_000_000 + found.mtime_nsec() > before, "{path}");
        }
        drop(prepared);
        place.write("b", "edited meanwhile");
        let error = checkout.prepare_variant(&|_| true, &work, &variant).unwrap_err();
        assert!(matches!(error, CheckoutError::Unstable { .. }), "{error}");
    }

    #[test]
    fn what_the_checks_wrote_is_told_from_what_they_only_touched() {
        let (place, checkout) = begin(&["same", "other", "hidden", "made", "folder/a"]);
        for path in ["same", "other", "hidden", "made", "folder/a"] {
            place.write(path, "work");
        }
        let work = checkout.find_changed_work(&|_| true).unwrap();
        let mut variant: Variant =
            work.files.iter().map(|changed| (changed.path.clone(), Some(file("v")))).collect();
        variant.insert("made".into(), None);
        let prepared = checkout.prepare_variant(&|_| true, &work, &variant).unwrap();
        let upper = &prepared.overlays[0].upper;
        assert!(prepared.find_rewritten(&variant).is_empty());
        fs::write(upper.join("same"), "v").unwrap();
        for path in ["other", "made", "folder"] {
            fs::write(upper.join(path), "by the check").unwrap();
        }
        let found = prepared.find_rewritten(&variant);
        assert_eq!(found, ["folder/a", "made", "other"].map(PathBuf::from));
    }

    #[test]
    fn without_the_work_there_is_what_was_there_and_nothing_that_an_agent_made() {
        let (place, checkout) = begin(&["changed", "gone", "large", "proof/shown", "TASK"]);
        place.write("changed", "work");
        place.write("new", "work");
        fs::remove_file(place.path("gone")).unwrap();
        let work = checkout.find_changed_work(&|_| true).unwrap();
        let start = checkout.without_work(&work).unwrap();
        let base = Some(file("base"));
        let expected = [("changed", base.clone()), ("gone", base), ("new", None), ("proof", None)];
        assert_eq!(start, expected.map(|(path, content)| (path.into(), content)).into());
        place.write("large", "not known");
        checkout.kept.record_copies(None);
        let work = checkout.find_changed_work(&|_| true).unwrap();
        assert_eq!(checkout.without_work(&work), None);
    }

    #[test]
    fn copies_are_read_as_they_were_written_or_not_at_all() {
        let (place, checkout) = begin(&["text", "run", "odd \n\"name"]);
        fs::remove_file(place.path("text")).unwrap();
        place.write("text", "{\"path\":\"x\"}\n\n\u{0}");
        fs::set_permissions(place.path("run"), fs::Permissions::from_mode(0o755)).unwrap();
        symlink("text", place.path("link")).unwrap();
        let checkout = {
            drop(checkout);
            place.begin()
        };
        checkout.keep_start(&|_| true, &|_| false).unwrap();
        let before = ["link", "odd \n\"name", "run", "text"]
            .map(|path| WorkContent::read(&place.path(path)));
        let starts = || -> Vec<WorkState> {
            let found = checkout.find_changed_work(&|_| true).unwrap();
            found.files.iter().map(|file| file.start.clone()).collect()
        };
        for path in ["link", "odd \n\"name", "run", "text"] {
            fs::remove_file(place.path(path)).unwrap();
        }
        assert_eq!(starts(), before.map(WorkState::from_read));
        let file = place.storage.join("start");
        let mut bytes = fs::read(&file).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&file, bytes).unwrap();
        assert_eq!(starts(), [const { WorkState::Unknown }; 4]);
    }

    #[test]
    fn what_changed_before_it_was_copied_is_not_known() {
        let place = Place::new(&["early", "kept"]);
        let checkout = place.begin();
        place.write("early", "work");
        checkout.keep_start(&|_| true, &|_| false).unwrap();
        let found = checkout.find_changed_work(&|_| true).unwrap();
        assert_eq!((found.files.len(), &found.files[0].start), (1, &WorkState::Unknown));
    }

    #[test]
    fn a_large_workspace_is_not_kept() {
        let names: Vec<String> = (0..=2_000).map(|number| number.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (place, checkout) = begin(&names);
        place.write("1", "work");
        let found = checkout.find_changed_work(&|_| true).unwrap();
        assert_eq!(found.files.len(), 1);
        assert_eq!(found.files[0].start, WorkState::Unknown);
    }
}
