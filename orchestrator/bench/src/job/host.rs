//! The machine that trials are performed on.

use serde::{Deserialize, Serialize};

/// The machine that trials are performed on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Its operating system and release.
    pub system: String,
    /// Processors that can be used.
    pub processors: u64,
    /// Memory in bytes.
    pub memory_bytes: u64,
}

impl Host {
    /// Returns this machine; what cannot be found out is empty or 0.
    #[must_use]
    pub fn this() -> Self {
        let uname = rustix::system::uname();
        let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
        let processors = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
        Self {
            system: format!("{} {}", text(uname.sysname()), text(uname.release())),
            processors: u64::try_from(processors).unwrap_or(0),
            memory_bytes: memory_bytes().unwrap_or(0),
        }
    }
}

fn memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    kib.checked_mul(1024)
}
