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
    /// The model of the processors; empty if it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
}

/// A machine among several.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Machine {
    /// Its name in its network.
    pub name: String,
    /// The model of its processors; empty if it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// Processors that can be used.
    pub processors: u64,
    /// Memory in bytes.
    pub memory_bytes: u64,
}

impl Machine {
    /// Returns this machine.
    #[must_use]
    pub fn this() -> Self {
        let Host { model, processors, memory_bytes, .. } = Host::this();
        Self { name: host_name(), model, processors, memory_bytes }
    }

    /// Whether programs take the same time on both, as far as that is known.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        self.model == other.model && self.processors == other.processors
    }
}

/// Returns the name of this machine in its network.
#[must_use]
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
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
            model: processor_model().unwrap_or_default(),
        }
    }
}

/// Most processors have a name; of others only the kind is known.
fn processor_model() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named = text.lines().find_map(|line| line.strip_prefix("model name"));
    let name = named.and_then(|rest| rest.split_once(':')).map(|(_, name)| name.trim().to_owned());
    name.or_else(|| rustix::system::uname().machine().to_str().ok().map(str::to_owned))
}

fn memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    kib.checked_mul(1024)
}
