//! Whether, and how well, the kernel can confine processes.

use crate::shim::sys::landlock_level;

/// The lowest usable level: below 3 (Linux 6.2), read-only files could be truncated.
const MIN_LEVEL: u32 = 3;
/// The level that also restricts TCP connections.
const NETWORK_LEVEL: u32 = 4;
/// The level that also restricts signals.
const SIGNAL_LEVEL: u32 = 6;

/// The kernel's Landlock level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LandlockLevel(u32);

/// Why the kernel cannot confine processes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SandboxUnsupported {
    /// It has no Landlock, or it is turned off.
    #[error(
        "this kernel offers no Landlock ({0}); it needs Linux 6.2 or later, with `landlock` among \
         the names in /sys/kernel/security/lsm, and no container that forbids it"
    )]
    Missing(String),
    /// Its Landlock is too old.
    #[error(
        "this kernel offers Landlock level {0}, but level {MIN_LEVEL} (Linux 6.2 or later) is needed"
    )]
    TooOld(u32),
}

impl LandlockLevel {
    /// Queries the kernel.
    ///
    /// # Errors
    /// Its level is too low.
    pub fn from_kernel() -> Result<Self, SandboxUnsupported> {
        match landlock_level() {
            Ok(level) if level >= MIN_LEVEL => Ok(Self(level)),
            Ok(level) => Err(SandboxUnsupported::TooOld(level)),
            Err(e) => Err(SandboxUnsupported::Missing(e.to_string())),
        }
    }

    /// Returns the Landlock ABI number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Whether ports can be closed to confined processes.
    #[must_use]
    pub const fn confines_connections(self) -> bool {
        self.0 >= NETWORK_LEVEL
    }

    /// Whether confined processes can send signals to confined ones only.
    #[must_use]
    pub const fn confines_signals(self) -> bool {
        self.0 >= SIGNAL_LEVEL
    }
}
