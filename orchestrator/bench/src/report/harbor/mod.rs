//! A job as a job directory of Harbor, so that its viewer and other tools read it.
//!
//! ```text
//! <jobs>/<job>/config.json lock.json result.json
//!              <task>__<7 characters>/config.json lock.json result.json trial.log [exception.txt]
//!                                     agent/ verifier/ artifacts/manifest.json
//! ```
//!
//! Where Harbor's sums would lose something, ours are kept: tokens and cost of a trial are those of all its attempts;
//! mean and pass@k are those of the summary, which leave out trials that were not judged, where Harbor counts these
//! as 0. What has no field in Harbor (seed, versions, isolation, attempts, findings) is in `kwargs` and `metadata`.

mod configs;
mod facts;
mod job;
mod names;
mod trial;
mod write;

pub use configs::{build_job_config, build_job_lock};
pub use facts::{ColumnFacts, HarborError, JobFacts, TaskFacts};
pub use job::build_job_result;
pub use trial::{TrialDocuments, build_trial};
pub use write::{Artifact, ArtifactKind, TrialFile, TrialFiles, TrialFolder, write_job};

#[cfg(test)]
mod tests;
