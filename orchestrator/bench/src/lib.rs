//! Benchmarks agents: columns (an agent with a variant) × tasks × trials, with statistics that say how
//! certain they are.
//!
//! A trial is a run of the engine. This crate reads the tasks ([`task`]), plans a job and has its trials performed
//! ([`job`]), says what is known of a trial ([`trial`]), estimates ([`statistics`]), sums a job up ([`summary`]) and reports it ([`report`]).
//!
//! The crate must not know how a run is decided, adapters or validators by name, or terminals.
//!
//! Where to change what:
//!
//! | to … | begin at |
//! |---|---|
//! | add a figure | a field in `summary/types.rs`, computed in `column.rs`, `loop_figures.rs` or `comparison.rs`; its cell in `report/cells.rs` (terminal, Markdown) and `report/html/tables.rs`; JSON Lines have every field |
//! | add a statistic | `statistics/`, with a reference in `tests/statistics` |
//! | add a form of tasks | a module in `task/` that returns a `Task`, a line in `find_form` of `load.rs`, `TaskForm` in `model.rs`, its verification in `verification.rs` |
//! | read another key of `task.toml`, follow another line of a Dockerfile | `task/harbor/`, `task/dockerfile/interpret.rs`; what cannot be honoured, `task/obstacle.rs` |
//! | add a cause of faults | `Cause` in `trial.rs`; whether it is repeated, `wants_retry` in `job/schedule.rs` |
//! | recognise another way to cheat | `CheatKind` in `trial.rs`, `find_cheating` in `task/cheating.rs`, its words in `report/figures.rs` |
//! | add what belongs to a job for ever | `JobPlan` in `job/plan.rs`, `job/job_lock.rs` |

pub mod host;
pub mod job;
pub mod report;
pub mod statistics;
pub mod summary;
pub mod task;
pub mod trial;
