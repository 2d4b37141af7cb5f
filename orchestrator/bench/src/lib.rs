//! Benchmarks agents: columns (an agent with a variant) × tasks × trials, with statistics that say how
//! certain they are.
//!
//! A trial is a run of the engine. This crate reads the tasks ([`task`]), plans a job and has its trials performed
//! ([`job`]), says what is known of a trial ([`trial`]), estimates ([`statistics`]), sums a job up ([`summary`]) and reports it ([`report`]).
//!
//! The crate must not know how a run is decided, adapters or validators by name, or terminals.

pub mod job;
pub mod report;
pub mod statistics;
pub mod summary;
pub mod task;
pub mod trial;
