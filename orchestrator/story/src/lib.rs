//! Folds the facts of a run from its journal, once for all that show or measure them: how it stands, what it used, what
//! its iterations did and changed, what its records mean to a person, and what to do next.
//! Must not know how commands are given, terminals or their colours, or how a run is put together.
//!
//! Facts come as types, objects for JSON, and words. What shows them only places them.

pub mod completion_report;
pub mod current_run;
pub mod diff;
pub mod listing;
pub mod located_run;
pub mod next_step;
pub mod rate_windows;
pub mod records;
pub mod run_facts;
pub mod run_summary;
pub mod selected_run;
pub mod status;
pub mod tracked_run;
pub mod trajectory;
pub mod transcript;
pub mod user_budget;
pub mod what_if;
pub mod whole_state;
pub mod words;
