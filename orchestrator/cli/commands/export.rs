//! `export`

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use ralph_orchestrator_contract::Event;
use ralph_orchestrator_core::store::{JournalEntry, Layout};
use ralph_orchestrator_core::trajectory::write_trajectories;
use ralph_orchestrator_supervisor::KillSwitch;
use ralph_orchestrator_telemetry::{Trace, TraceBuilder};
use serde_json::Value;
use tempfile::NamedTempFile;

use super::{block_on, run_selection};
use crate::args::SetArgs;
use crate::context::Context;
use crate::discovery::ConfigFile;
use crate::error::{CommandError, exit};
use crate::render::text::{count, len};
use crate::{notices, output};

#[derive(Debug, clap::Args)]
pub(crate) struct ExportArgs {
    /// Folder for the ATIF v1.8 trajectories 0001.json, 0002.json, …; created if missing
    #[arg(required_unless_present = "otlp")]
    pub(crate) folder: Option<PathBuf>,
    /// Write the run as an OpenTelemetry trace to a file (OTLP in JSON), or send it to a collector
    #[arg(long, value_name = "FILE|URL")]
    pub(crate) otlp: Option<String>,
    /// With --otlp: include the arguments and answers of tools, and the reasons of validators
    #[arg(long, requires = "otlp")]
    pub(crate) content: bool,
    /// Export an earlier run, by the beginning of its id: see `runs`
    #[arg(long, value_name = "ID")]
    pub(crate) run: Option<String>,
    #[command(flatten)]
    pub(crate) sets: SetArgs,
}

/// Spans that are sent in one request.
const BATCH: usize = 500;
/// How long a collector may take to answer a request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Where collectors take traces in, if the URL names no path.
const TRACES: &str = "/v1/traces";

pub(crate) fn export(file: &ConfigFile, args: &ExportArgs) -> Result<u8, CommandError> {
    let context = Context::locate_run(file, &args.sets)?;
    let mut entries = Vec::new();
    let selected =
        run_selection::read(&context, args.run.as_deref(), |entry| entries.push(entry.clone()))?;
    let Some(selected) = selected else {
        return Err(CommandError::user(run_selection::no_run(&context)));
    };
    let (layout, run) = (&selected.layout, &selected.found.run);
    let last = selected.found.state.iterations;
    if let Some(folder) = &args.folder {
        write_trajectories(layout, run, &entries, last, folder)?;
        let folder = folder.display();
        output::result(&match last {
            1 => format!("wrote 1 trajectory to {folder} (run {run})"),
            many => format!("wrote {many} trajectories to {folder} (run {run})"),
        });
    }
    if let Some(target) = &args.otlp {
        let trace = trace(layout, run, &entries, last, args.content)?;
        let spans = count(len(&trace.spans), "span");
        if is_url(target) {
            send(&context, &trace, target)?;
            output::result(&format!("sent {spans} to {target} (run {run})"));
        } else {
            write(&trace, Path::new(target))?;
            output::result(&format!("wrote {spans} to {target} (run {run})"));
        }
    }
    Ok(exit::OK)
}

/// Returns the trace of a run from its records and the transcripts of its iterations.
fn trace(
    layout: &Layout,
    run: &str,
    entries: &[JournalEntry],
    last: u64,
    has_content: bool,
) -> Result<Trace, CommandError> {
    let mut builder = TraceBuilder::new(run, has_content);
    entries.iter().for_each(|entry| builder.entry(entry));
    for number in 1..=last {
        let path = layout.iteration(run, number).join("transcript.jsonl");
        // Without one, nothing was printed.
        let Ok(file) = File::open(path) else { continue };
        for line in BufReader::new(file).split(b'\n') {
            if let Some((time, event)) = parse(&line?) {
                builder.event(number, time, &event);
            }
        }
    }
    Ok(builder.finish())
}

/// Returns the time and the event of a line of a transcript; `None` of one that a crash has cut.
fn parse(line: &[u8]) -> Option<(Timestamp, Event)> {
    let object: Value = serde_json::from_slice(line).ok()?;
    let time = object.get("time")?.as_str()?.parse().ok()?;
    Some((time, serde_json::from_value(object).ok()?))
}

fn is_url(target: &str) -> bool {
    target.starts_with("http://") || target.starts_with("https://")
}

/// Writes a trace whole, or not at all.
fn write(trace: &Trace, path: &Path) -> Result<(), CommandError> {
    let failed = |error| CommandError::user(format!("cannot write {}: {error}", path.display()));
    let whole = trace.requests(env!("CARGO_PKG_VERSION"), usize::MAX).next().unwrap_or_default();
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    if !folder.is_dir() {
        let message =
            format!("cannot write {}: there is no folder {}", path.display(), folder.display());
        return Err(CommandError::user(message));
    }
    let mut file = NamedTempFile::new_in(folder).map_err(failed)?;
    writeln!(file, "{whole}").map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

fn send(context: &Context, trace: &Trace, target: &str) -> Result<(), CommandError> {
    let authority = target.split_once("://").map_or("", |(_, rest)| rest).trim_end_matches('/');
    let url = match authority.contains('/') {
        true => target.to_owned(),
        false => format!("{}{TRACES}", target.trim_end_matches('/')),
    };
    let transport = notices::transport(context, &KillSwitch::default());
    for request in trace.requests(env!("CARGO_PKG_VERSION"), BATCH) {
        let sent =
            block_on(async { Ok(transport.post_json(&url, request.to_string(), TIMEOUT).await) })?;
        sent.map_err(|error| {
            CommandError::unavailable(format!("{url}: {}", error.message)).hinted(
                "`--otlp FILE` writes the trace to a file; sent again, its spans have the same ids",
            )
        })?;
    }
    Ok(())
}
