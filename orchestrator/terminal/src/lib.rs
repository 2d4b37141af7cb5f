//! Prints results, messages and errors, asks at the terminal, listens for signals, and writes the files that a user names: what
//! all commands share. Must not know any command, nor how anything is decided.

pub mod activity;
pub mod block_on;
pub mod bounded_file;
pub mod new_file;
pub mod output;
pub mod output_place;
pub mod question;
pub mod set_args;
pub mod signals;
pub mod size;
pub mod values;
pub mod writer;
