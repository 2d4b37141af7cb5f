//! `export`

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::run_selection;
use ralph_orchestrator_store::{JournalEntry, Layout};
use ralph_orchestrator_story::trajectory::write_trajectories;
use ralph_orchestrator_supervisor::KillSwitch;
use ralph_orchestrator_telemetry::{RequestSize, Trace, TraceBuilder};
use ralph_orchestrator_terminal::block_on::block_on;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::output_place::{create_folder, write_whole};
use ralph_orchestrator_terminal::set_args::SetArgs;
use ralph_orchestrator_text::{count, len};

use crate::telemetry::{Collector, read_transcript};

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
        write_trajectories(layout, run, &entries, last, &create_folder(folder)?)?;
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
        match read_transcript(&mut builder, layout, run, number) {
            // Without one, nothing was printed.
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    Ok(builder.finish())
}

fn is_url(target: &str) -> bool {
    target.starts_with("http://") || target.starts_with("https://")
}

fn write(trace: &Trace, path: &Path) -> Result<(), CommandError> {
    let mut requests = trace.requests(env!("CARGO_PKG_VERSION"), RequestSize::UNLIMITED);
    let whole = requests.next().unwrap_or_default();
    write_whole(path, format!("{whole}\n").as_bytes(), 0o600)
}

fn send(context: &Context, trace: &Trace, target: &str) -> Result<(), CommandError> {
    let collector = Collector::new(context, target, &KillSwitch::default());
    let sent = block_on(async { Ok(collector.send(trace).await) })?;
    sent.map_err(|error| {
        CommandError::unavailable(format!("{}: {}", collector.url, error.message)).hinted(
            "`--otlp FILE` writes the trace to a file; sent again, its spans have the same ids",
        )
    })
}
