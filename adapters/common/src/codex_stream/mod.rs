//! Reads what `codex exec --json` prints.
//!
//! [`CodexParser`] turns lines into events while the agent runs and, when it has ended, the whole into a
//! report or a classed error. Everything is read leniently: an item that is new is passed over, a field
//! of the wrong type costs no more than itself. The stream's figures are sums over a whole thread, reported
//! once a turn has ended well; a thread that is resumed counts what was used before, too. Nothing here
//! starts processes.

mod parser;
mod rate_windows;

pub use parser::{CodexParser, tokens};
pub use rate_windows::rate_windows;
