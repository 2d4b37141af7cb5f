//! Deleting the runs of a state directory.

use std::fs;
use std::path::Path;

use crate::store::disk::Disk;
use crate::store::error::StateError;
use crate::store::layout::Layout;
use crate::store::lock::Lock;
use crate::store::memory_files::MemoryFiles;
use crate::store::orphans::OrphanReport;

/// Most runs that are looked at for what a killed start has left.
const MOST_RUNS: usize = 8;

/// Deletes all runs of a state directory, damaged or not, once `end` has ended what a killed start of
/// each of them has left. Returns what there is to say about that.
///
/// # Errors
/// Another process holds it, something that was left cannot be ended, or something cannot be removed.
pub fn reset(
    layout: &Layout,
    end: &dyn Fn(&str) -> OrphanReport,
) -> Result<OrphanReport, StateError> {
    let disk = &Disk::default();
    disk.open_root(layout.root())?;
    let mut lock = Lock::take(disk, layout)?;
    let mut report = OrphanReport::default();
    // Afterwards nobody would know the runs that processes belong to.
    for run in run_names(layout) {
        let left = end(&run);
        report.notes.extend(left.notes);
        report.survived.extend(left.survived);
    }
    if !report.survived.is_empty() {
        return Err(StateError::OrphansLeft { names: report.survived });
    }
    lock.set_clean();
    // First the latch: without it the rest would be refused as damaged, never taken as a run.
    for path in [layout.latch(), layout.key(), layout.owner()] {
        remove(&path, |path| disk.remove_file(path))?;
    }
    // Archives and files for people stay: nobody else has them.
    remove(&layout.memory().join(MemoryFiles::STATE), |path| disk.remove_file(path))?;
    remove(&layout.inbox(), |path| disk.remove_dir_all(path))?;
    remove(&layout.series(), |path| disk.remove_dir_all(path))?;
    // Only what is recorded of them: they hold work.
    remove(&layout.worktrees(), |path| disk.remove_dir_all(path))?;
    remove(&layout.runs(), |path| disk.remove_dir_all(path))?;
    Ok(report)
}

/// Returns the ids of the runs that have a folder, the newest first. The latch may be damaged.
fn run_names(layout: &Layout) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(layout.runs()).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable_by(|one, other| other.cmp(one));
    names.into_iter().take(MOST_RUNS)
}

fn remove(path: &Path, how: impl Fn(&Path) -> std::io::Result<()>) -> Result<(), StateError> {
    match how(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(StateError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}
