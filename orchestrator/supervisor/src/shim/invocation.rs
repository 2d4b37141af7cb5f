//! How a program is asked to be the fork server.

/// The first argument that makes a program the fork server.
pub const FIRST_ARGUMENT: &str = "__supervise";

/// Whether a command line, with its words ended by zero bytes, is that of the fork server or of a shim.
pub(super) fn is_supervising(line: &[u8]) -> bool {
    line.split(|byte| *byte == 0).nth(1) == Some(FIRST_ARGUMENT.as_bytes())
}
