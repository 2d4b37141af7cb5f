//! Spawns and ends processes: the only place of ralph-orchestrator that does.
//!
//! A process is never started alone but under a *shim*, a small single-threaded process of its own. All
//! shims are forked from the *nursery*: the orchestrator's own binary, started once more with
//! [`shim::FIRST_ARGUMENT`].
//!
//! ```text
//! orchestrator ──────▶ nursery (sub-reaper)
//!      │                  │ forks
//!      ├──control socket──▶ shim (sub-reaper) ──▶ leader ──▶ …
//!      ▲   ◀── started, ended, gone ──┘              │
//!      └──────────────── stdout, stderr ─────────────┘
//! ```
//!
//! When nothing of its tree is left, a shim waits for the next one: to start a process then costs one
//! fork.
//!
//! The shim adopts whatever the leader's descendants leave, so that a daemon cannot get away by a
//! session or a double fork of its own. The control socket is its lifeline: when the orchestrator ends
//! in any way, SIGKILL included, the shim reads the end of file and ends the tree. The reverse holds
//! too: the kernel kills the leader when the shim dies, and the nursery kills what it leaves behind. What
//! is left when all are killed at once, [`end_remains`] finds and ends.
//!
//! What the tree prints never passes the shim; it goes through the kernel's pipes right to
//! [`Process::next`], whose caller slows the tree down by not reading.
//!
//! A [`Sandbox`] confines the tree, but not its shim.
//!
//! [`lines`] and [`capture`] turn unbounded output into bounded memory.

mod activity;
mod background;
pub mod capture;
mod control;
mod error;
mod escapes;
mod exit;
mod find;
mod input;
mod kill_switch;
pub mod lines;
mod nursery;
mod output;
mod process;
mod procfs;
mod remains;
mod sandbox;
pub mod shim;
mod spec;
mod streams;
mod supervisor;
mod survivor;
mod turn;
mod wire;

pub use activity::{are_busy, of_iteration};
pub use background::start_in_background;
pub use capture::{Capture, CaptureLimit, Captured};
pub use error::SpawnError;
pub use escapes::{harmless_line, without_escapes};
pub use exit::{Ending, Exit};
pub use find::{NotFound, find_program};
pub use input::{Input, NotRead};
pub use kill_switch::KillSwitch;
pub use output::Output;
pub use process::{Process, Step};
pub use remains::{Remains, end_remains};
pub use sandbox::{Level, NoSandbox, Sandbox};
pub use spec::{Grace, Spec, Stop};
pub use streams::{Chunk, Stream};
pub use supervisor::Supervisor;
pub use survivor::{Survivor, end_iteration};
pub use turn::TurnBudget;
