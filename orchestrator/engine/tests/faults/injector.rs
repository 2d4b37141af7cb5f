//! A disk that goes wrong at one chosen operation.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ralph_orchestrator_store::{Disk, FaultAction, FaultInjector, FileOperation};

const ENOSPC: i32 = 28;
const EIO: i32 = 5;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// That operation alone fails.
    Eio,
    /// That operation is half done, or done, and fails all the same.
    EioAfter,
    /// From then on nothing can be written.
    Full,
    /// As `Full`, but the first write still gets half of its bytes onto the disk.
    FullInTheMiddle,
    /// That write writes only a part, and says so.
    Short,
    /// The process dies before it.
    Crash,
    /// The process dies in the middle of it.
    CrashAfter,
    /// The machine dies in the middle of it: what was not synced of a journal is gone.
    PowerLoss,
}

impl Fault {
    pub(crate) const ALL: [Self; 8] = [
        Self::Eio,
        Self::EioAfter,
        Self::Full,
        Self::FullInTheMiddle,
        Self::Short,
        Self::Crash,
        Self::CrashAfter,
        Self::PowerLoss,
    ];

    /// Whether it makes a difference at such an operation: elsewhere it is as at the next one, or as
    /// another fault.
    pub(crate) const fn concerns(self, operation: FileOperation) -> bool {
        match self {
            Self::Eio | Self::EioAfter | Self::Crash => true,
            Self::Short => matches!(operation, FileOperation::Write),
            Self::Full | Self::FullInTheMiddle => {
                matches!(operation, FileOperation::Write | FileOperation::CreateDir)
            }
            // A crash in the middle of any other is one before the next operation.
            Self::CrashAfter => {
                matches!(
                    operation,
                    FileOperation::Write
                        | FileOperation::CreateDir
                        | FileOperation::Sync
                        | FileOperation::Rename
                )
            }
            Self::PowerLoss => {
                matches!(
                    operation,
                    FileOperation::Write | FileOperation::Sync | FileOperation::Rename
                )
            }
        }
    }
}

#[derive(Default)]
struct Seen {
    operations: Vec<(FileOperation, PathBuf)>,
    /// How much of each file is safe.
    safe: BTreeMap<PathBuf, u64>,
}

/// Lets `good` operations happen; the next is the one at fault.
pub(crate) struct Injector {
    good: usize,
    fault: Fault,
    seen: Mutex<Seen>,
}

impl Injector {
    pub(crate) fn new(good: usize, fault: Fault) -> Arc<Self> {
        Arc::new(Self { good, fault, seen: Mutex::default() })
    }

    /// One at which nothing goes wrong.
    pub(crate) fn none() -> Arc<Self> {
        Self::new(usize::MAX, Fault::Short)
    }

    pub(crate) fn disk(self: &Arc<Self>) -> Disk {
        Disk::with_faults(Arc::<Self>::clone(self))
    }

    pub(crate) fn operations(&self) -> Vec<(FileOperation, PathBuf)> {
        self.seen.lock().unwrap().operations.clone()
    }

    /// After a loss of power: what was never synced of a journal is not there.
    pub(crate) fn lose_what_is_not_safe(&self) {
        let seen = self.seen.lock().unwrap();
        let opened = seen.operations.iter().map(|(_, path)| path);
        for path in opened.filter(|path| path.ends_with("journal.jsonl") && path.exists()) {
            let safe = seen.safe.get(path).copied().unwrap_or(0);
            let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
            if file.metadata().unwrap().len() > safe {
                file.set_len(safe).unwrap();
            }
        }
    }
}

impl FaultInjector for Injector {
    fn fault_action(&self, operation: FileOperation, path: &Path) -> FaultAction {
        let mut seen = self.seen.lock().unwrap();
        let number = seen.operations.len();
        seen.operations.push((operation, path.to_owned()));
        let error = |number| io::Error::from_raw_os_error(number);
        if operation == FileOperation::Open {
            // What another process left there has had its time to get onto the disk.
            let len = path.metadata().map_or(0, |meta| meta.len());
            seen.safe.entry(path.to_owned()).or_insert(len);
        }
        if number < self.good {
            if operation == FileOperation::Sync {
                let len = path.metadata().map_or(0, |meta| meta.len());
                seen.safe.insert(path.to_owned(), len);
            }
            return FaultAction::Proceed;
        }
        let first = number == self.good;
        let needs_room = matches!(operation, FileOperation::Write | FileOperation::CreateDir);
        match self.fault {
            Fault::Eio if first => FaultAction::Fail(error(EIO)),
            Fault::EioAfter if first => FaultAction::FailAfterwards(error(EIO)),
            Fault::Short if first => FaultAction::WriteShort,
            Fault::Full if needs_room => FaultAction::Fail(error(ENOSPC)),
            Fault::FullInTheMiddle if needs_room && first => {
                FaultAction::FailAfterwards(error(ENOSPC))
            }
            Fault::FullInTheMiddle if needs_room => FaultAction::Fail(error(ENOSPC)),
            Fault::CrashAfter | Fault::PowerLoss if first => {
                FaultAction::FailAfterwards(error(EIO))
            }
            Fault::Crash | Fault::CrashAfter | Fault::PowerLoss => FaultAction::Fail(error(EIO)),
            Fault::Eio | Fault::EioAfter | Fault::Short | Fault::Full | Fault::FullInTheMiddle => {
                FaultAction::Proceed
            }
        }
    }
}
