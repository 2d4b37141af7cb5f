//! Faults between the steps of a write.

use std::cell::{Cell, RefCell};
use std::io;
use std::path::{Path, PathBuf};

use super::{BacklogFile, WriteStep};
use crate::error::BacklogError;

const STEPS: [WriteStep; 6] = [
    WriteStep::Create,
    WriteStep::Write,
    WriteStep::SyncContent,
    WriteStep::Compare,
    WriteStep::Rename,
    WriteStep::SyncFolder,
];

#[derive(Clone, Copy)]
enum Fault {
    /// The disk is full.
    Full,
    /// The process dies: nothing after this step runs, no cleanup either.
    Killed,
    /// Another program saves the file.
    Saved,
}

thread_local! {
    static FAULT: Cell<Option<(WriteStep, Fault)>> = const { Cell::new(None) };
    static PATH: RefCell<PathBuf> = const { RefCell::new(PathBuf::new()) };
}

fn hook(step: WriteStep) -> io::Result<()> {
    match FAULT.get() {
        Some((at, Fault::Full)) if at == step => Err(rustix::io::Errno::NOSPC.into()),
        Some((at, Fault::Killed)) if at == step => panic!("killed"),
        Some((at, Fault::Saved)) if at == step => {
            FAULT.set(None);
            PATH.with_borrow(|path| std::fs::write(path, "saved"))
        }
        _ => Ok(()),
    }
}

fn fixture(fault: Option<(WriteStep, Fault)>) -> (tempfile::TempDir, BacklogFile) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("b.json"), "old").unwrap();
    PATH.set(folder.path().join("b.json"));
    FAULT.set(fault);
    let mut file = BacklogFile::new(folder.path(), Path::new("b.json")).unwrap();
    file.hook = Some(hook);
    (folder, file)
}

fn write(file: &BacklogFile) -> Result<(), BacklogError> {
    file.update(|bytes| Ok((Some([bytes, b"+new"].concat()), ())))
}

fn names(folder: &tempfile::TempDir) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path()).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_full_disk_leaves_the_old_file_and_nothing_else() {
    for step in STEPS {
        let (folder, file) = fixture(Some((step, Fault::Full)));
        let error = write(&file).unwrap_err().to_string();
        assert!(error.contains("No space left"), "{error}");
        assert_eq!(names(&folder), ["b.json"], "{step:?}");
        let expected: &[u8] = if step == WriteStep::SyncFolder { b"old+new" } else { b"old" };
        assert_eq!(file.read().unwrap(), expected, "{step:?}");
    }
}

#[test]
fn a_kill_between_steps_leaves_the_old_or_the_new_file_whole() {
    for step in STEPS {
        let (folder, file) = fixture(Some((step, Fault::Killed)));
        std::panic::catch_unwind(|| write(&file)).unwrap_err();
        let found = file.read().unwrap();
        assert!(found == b"old" || found == b"old+new", "{step:?}");
        FAULT.set(None);
        write(&file).unwrap();
        assert_eq!(file.read().unwrap(), [&found[..], b"+new"].concat(), "{step:?}");
        assert_eq!(names(&folder), ["b.json"], "{step:?}");
    }
}

#[test]
fn an_edit_is_made_again_when_another_program_saves_the_file() {
    for step in [WriteStep::Create, WriteStep::SyncContent, WriteStep::Compare] {
        let (folder, file) = fixture(Some((step, Fault::Saved)));
        write(&file).unwrap();
        assert_eq!(file.read().unwrap(), b"saved+new");
        assert_eq!(names(&folder), ["b.json"]);
    }
}

#[test]
fn a_link_in_place_of_the_temporary_file_is_not_followed() {
    let (folder, file) = fixture(None);
    let target = folder.path().join("target");
    std::fs::write(&target, "mine").unwrap();
    std::os::unix::fs::symlink(&target, folder.path().join(".b.json.ralph-tmp")).unwrap();
    write(&file).unwrap();
    assert_eq!(std::fs::read_to_string(target).unwrap(), "mine");
    assert_eq!(names(&folder), ["b.json", "target"]);
}
