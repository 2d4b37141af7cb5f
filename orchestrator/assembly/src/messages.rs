//! Messages for people that belong to no result: warnings and notes of what was found while a run was put together.

use std::sync::OnceLock;

/// Where messages go; without a receiver they are discarded.
static RECEIVER: OnceLock<fn(&str)> = OnceLock::new();

/// Sets what receives the messages of this process; only the first call has an effect. A program that embeds runs needs
/// none: what concerns a run it has as an event.
pub fn set_receiver(receiver: fn(&str)) {
    let _ = RECEIVER.set(receiver);
}

/// Sends a line for people.
pub fn info(line: &str) {
    if let Some(receive) = RECEIVER.get() {
        receive(line);
    }
}
