//! Starts and ends processes; nothing else in ralph-orchestrator does.
//! Must not know runs, agents or the engine.
//!
//! Every process is started under a *shim*, a small single-threaded process. All shims are forked from the
//! *fork server*: the orchestrator's own binary, started once more with [`shim::FIRST_ARGUMENT`].
//!
//! ```text
//! orchestrator ──────▶ fork server (subreaper)
//!      │                  │ forks
//!      ├──control socket──▶ shim (subreaper) ──▶ leader ──▶ …
//!      ▲   ◀── started, ended, gone ──┘              │
//!      └──────────────── stdout, stderr ─────────────┘
//! ```
//!
//! When its tree is gone, a shim waits for the next job: starting a process then costs one fork.
//!
//! The shim adopts orphans of the tree, so that a daemon cannot escape by a session or a double fork. The
//! control socket is its lifeline: when the orchestrator ends in any way, SIGKILL included, the shim reads
//! the end of file and ends the tree. Conversely, the kernel kills the leader when the shim dies, and the
//! fork server kills the orphans. If both are killed, this process, which is a subreaper as well, adopts and kills them:
//! its children in another session than its own. If all of them are killed at once, [`end_orphans`] finds and kills the
//! orphans at the next start. Shims and fork servers that are stopped, as by SIGSTOP, are continued, or killed.
//!
//! The output of the tree does not pass through the shim, but through pipes to [`Process::next`]. Not reading
//! it slows the tree down.
//!
//! A [`Sandbox`] confines the tree, but not its shim. With a [`Root`] the tree has a file system and processes
//! of its own, with a [`View`] the host's files with other contents at some places; its shim stays outside. A
//! [`Wrapper`] starts processes elsewhere, such as in a container: its client is the tree, and the wrapper ends what it
//! started.
//!
//! [`lines`] and [`capture`] turn unbounded output into bounded memory.

mod activity;
mod adoption;
mod ancestors;
mod background;
pub mod capture;
mod control;
mod end_iteration;
mod error;
mod exit;
mod file_fault;
mod find;
mod fork_server;
mod input;
mod keepers;
mod kill_switch;
mod landlock_level;
pub mod lines;
mod orphans;
mod output;
mod patience;
mod peers;
mod process;
mod procfs;
mod root;
mod ruleset;
mod sandbox;
pub mod shim;
mod spec;
mod step;
mod streams;
mod supervisor;
mod survivor;
mod turn;
mod view;
mod wire;
mod wrapper;

pub use activity::{are_busy, iteration_processes};
pub use ancestors::{Ancestor, ProcessId, ancestors};
pub use background::start_in_background;
pub use capture::{Capture, CaptureLimit, Captured};
pub use end_iteration::end_iteration;
pub use error::SpawnError;
pub use exit::{Ending, Exit};
pub use find::{NotFound, find_program, path_outside};
pub use input::{Input, InputBlocked};
pub use kill_switch::KillSwitch;
pub use landlock_level::{LandlockLevel, SandboxUnsupported};
pub use orphans::{OrphanCleanup, end_orphans};
pub use output::Output;
pub use peers::PeerSocket;
pub use process::{Process, ProcessEvent};
pub use procfs::now as clock_ticks;
pub use root::{Mount, MountAccess, Network, Root, RootError, RootUser, Tmpfs};
pub use sandbox::Sandbox;
pub use spec::{Grace, Spec, Stop};
pub use streams::{Chunk, Stream};
pub use supervisor::Supervisor;
pub use survivor::Survivor;
pub use turn::TurnBudget;
pub use view::{Overlay, View, ViewError};
pub use wrapper::{Wrapper, WrapperFuture};
