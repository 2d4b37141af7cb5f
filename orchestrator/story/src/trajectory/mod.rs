//! Transcripts as ATIF v1.8 trajectories: one for each iteration, all of one session.

mod builder;
mod facts;
mod step;
mod usage;

use std::io;
use std::path::Path;

use ralph_orchestrator_store::{Disk, JournalEntry, Layout, StateError};
use serde_json::Value;

use crate::trajectory::builder::TrajectoryBuilder;
use crate::trajectory::facts::IterationFacts;

/// The mode of a trajectory's file: it may hold what the agent has read.
const MODE: u32 = 0o600;

/// Returns the trajectory of an iteration. `entries` is the run's journal, `next` the name of the file with the
/// trajectory of the next iteration.
///
/// # Errors
/// Returns the error of reading the stored prompt or the transcript. An iteration without a transcript has printed
/// nothing.
pub fn build_trajectory(
    layout: &Layout,
    run: &str,
    entries: &[JournalEntry],
    iteration: u64,
    next: Option<String>,
) -> io::Result<Value> {
    let prompt = match layout.kept_prompt(run, iteration) {
        Some(kept) => std::fs::read(kept)?,
        None => b"(the prompt was not stored)".to_vec(),
    };
    let transcript = read_transcript(layout, run, iteration)?;
    let facts = IterationFacts::from_entries(entries, iteration);
    let mut builder =
        TrajectoryBuilder::new(&String::from_utf8_lossy(&prompt), facts.started.clone());
    for line in String::from_utf8_lossy(&transcript).lines() {
        builder.add_line(line);
    }
    Ok(builder.finish(run, iteration, &facts, next))
}

/// Writes the trajectories of the first `count` iterations of a run as `0001.json`, `0002.json`, … into a folder, which
/// is created if it is missing. Each refers to the next one.
///
/// # Errors
/// Returns the error of reading the stored files of the run, or of writing.
pub fn write_trajectories(
    layout: &Layout,
    run: &str,
    entries: &[JournalEntry],
    count: u64,
    folder: &Path,
) -> Result<(), StateError> {
    std::fs::create_dir_all(folder).map_err(StateError::io("create", folder))?;
    for number in 1..=count {
        let next = (number < count).then(|| name_trajectory_file(number.saturating_add(1)));
        let path = folder.join(name_trajectory_file(number));
        let trajectory = build_trajectory(layout, run, entries, number, next)
            .map_err(StateError::io("read", &layout.iteration(run, number)))?;
        let text = serde_json::to_vec_pretty(&trajectory)
            .map_err(|error| StateError::io("write", &path)(error.into()))?;
        Disk::default().write_atomically(&path, &text, MODE)?;
    }
    Ok(())
}

/// Returns the name of the file with an iteration's trajectory.
#[must_use]
pub fn name_trajectory_file(iteration: u64) -> String {
    format!("{iteration:04}.json")
}

/// Returns the stored events of an iteration; empty without a file, since nothing was printed then.
fn read_transcript(layout: &Layout, run: &str, iteration: u64) -> io::Result<Vec<u8>> {
    match std::fs::read(layout.iteration(run, iteration).join("transcript.jsonl")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    }
}
