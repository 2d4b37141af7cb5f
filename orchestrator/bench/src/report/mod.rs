//! Reports of a job.
