//! The facts of a run, as every command and every view shows them.

pub(crate) mod current_run;
pub(crate) mod diff;
pub(crate) mod records;
pub(crate) mod status;
pub(crate) mod transcript;
