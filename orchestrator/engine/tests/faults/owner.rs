//! Which run a start goes on with.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ralph_orchestrator_engine::EngineError;
use ralph_orchestrator_machine::Record;
use ralph_orchestrator_store::{Disk, FaultAction, FaultInjector, FileOperation};

use super::world::{Ended, World};

fn started(world: &World) -> usize {
    let starts = |record: &&Record| matches!(record, Record::IterationStarted { .. });
    world.records().iter().filter(starts).count()
}

fn finished(ended: Result<Ended, EngineError>) -> (String, u64) {
    let Ended::Finished(finished) = ended.unwrap() else { panic!("complete already") };
    (finished.run, finished.state.iterations)
}

#[test]
fn another_task_without_a_configuration_file_is_another_run() {
    let world = World::with("[limits]\nmax_iterations = 1\n");
    let (first, _) = finished(world.run_without_file("Make done."));
    // The same task, for which no iteration is left, and then another.
    assert_eq!(finished(world.run_without_file("Make done.\n")), (first.clone(), 1));
    let (second, _) = finished(world.run_without_file("Make something else."));
    assert_ne!(first, second);
    assert_eq!(started(&world), 1, "the journal is that of the new run");
    let says =
        |record: &Record| matches!(record, Record::Warning { message } if message.contains(&first));
    assert!(world.records().iter().any(says), "it is said which run is left as it is");
}

#[test]
fn whose_it_is_comes_back_after_it_was_deleted_or_edited_during_a_run() {
    let world = World::new();
    let owner = world.script.state.join("owner.json");
    let disk =
        Disk::with_faults(Arc::new(Meddler { owner: owner.clone(), done: AtomicBool::new(false) }));
    finished(world.run(disk));
    assert!(fs::read_to_string(&owner).unwrap().contains("ralph.toml"));
}

/// Edits the file when the latch is first touched after it is there.
struct Meddler {
    owner: PathBuf,
    done: AtomicBool,
}

impl FaultInjector for Meddler {
    fn fault_action(&self, _operation: FileOperation, path: &Path) -> FaultAction {
        let is_time = path.ends_with("latch") && self.owner.exists();
        if is_time && !self.done.swap(true, Ordering::SeqCst) {
            fs::write(&self.owner, "{}").unwrap();
        }
        FaultAction::Proceed
    }
}
