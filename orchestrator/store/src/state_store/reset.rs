//! Deleting the runs of a state directory.

use std::fs;
use std::path::Path;

use crate::deletion::Deletion;
use crate::disk::Disk;
use crate::error::StateError;
use crate::holder::Work;
use crate::layout::Layout;
use crate::lock::Lock;
use crate::orphans::OrphanReport;

/// Most runs that are looked at for what a killed start has left.
const MOST_RUNS: usize = 8;

/// Deletes all runs of a state directory, damaged or not, once `end` has ended what a killed start of
/// each of them has left. Returns what there is to say about that. Whatever interrupts it, the runs are all
/// there, or the next that uses the state deletes the rest.
///
/// # Errors
/// Another process holds it, something that was left cannot be ended, or something cannot be removed.
pub fn reset(
    disk: &Disk,
    layout: &Layout,
    end: &dyn Fn(&str) -> OrphanReport,
) -> Result<OrphanReport, StateError> {
    disk.open_root(layout.root())?;
    let mut lock = Lock::take(disk, layout, Work::Reset)?;
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
    check_listable(layout)?;
    lock.set_clean();
    Deletion::State.perform(disk, layout)?;
    Ok(report)
}

/// Fails, before anything is deleted, where a folder of a run could not be.
fn check_listable(layout: &Layout) -> Result<(), StateError> {
    let list = |path: &Path| match fs::read_dir(path) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            Err(StateError::io("list", path)(error))
        }
        _ => Ok(()),
    };
    list(&layout.runs())?;
    run_names(layout).try_for_each(|run| list(&layout.run(&run)))
}

/// Returns the ids of the runs that have a folder, the newest first. The latch may be damaged.
fn run_names(layout: &Layout) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(layout.runs()).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable_by(|one, other| other.cmp(one));
    names.into_iter().take(MOST_RUNS)
}
