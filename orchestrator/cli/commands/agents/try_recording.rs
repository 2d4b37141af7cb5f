//! `agents try`

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ralph_orchestrator_assembly::block_on::block_on;
use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::stream_trial::{RecordedEnd, TriedLine, TriedReport, try_stream};
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::set_args::SetArgs;
use ralph_orchestrator_text::plain_line;

use super::recording::end_file;

/// Where what is found in a line goes on.
const FOUND_INDENT: usize = 4;
/// Where the values of the report begin.
const REPORT_INDENT: usize = 14;
/// How much of the final message is shown, in characters.
const SHOWN_MAX: usize = 400;

#[derive(Debug, clap::Args)]
pub(crate) struct TryArgs {
    /// What the agent's program printed on standard output; how it ended is in FILE.end.json, if
    /// `agents record` wrote that
    #[arg(value_name = "FILE")]
    pub(crate) recording: PathBuf,
    /// Use the agent of `[agents.NAME]` instead of that of `[agent]`
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) sets: SetArgs,
}

pub(crate) fn try_recording(file: &ConfigFile, args: &TryArgs) -> Result<u8, CommandError> {
    let context = Context::load(file, &args.sets)?;
    let recording = std::fs::read(&args.recording).map_err(|error| {
        CommandError::unavailable(format!("cannot read {}: {error}", args.recording.display()))
    })?;
    let end = read_end(&end_file(&args.recording))?;
    let ending = end.as_ref().map_or("exits with status 0".to_owned(), |end| {
        format!("ends with {}", plain_line(&end.exit, SHOWN_MAX))
    });
    let tried = block_on(try_stream(&context, args.agent.as_deref(), &recording, end))?;
    if args.json {
        output::json(&tried);
        return Ok(exit::OK);
    }
    let lines = tried.lines.iter().flat_map(describe_line);
    lines.for_each(|line| output::result_folded(&line, FOUND_INDENT));
    output::result(&format!("report of an iteration that prints this and {ending}:"));
    let report = describe_report(&tried.report);
    report.iter().for_each(|line| output::result_folded(line, REPORT_INDENT));
    Ok(exit::OK)
}

/// Returns how the recorded program ended; `None` if that was not recorded.
fn read_end(file: &Path) -> Result<Option<RecordedEnd>, CommandError> {
    let cannot = |why: String| {
        let message = format!("cannot read {}: {why}", file.display());
        CommandError::unavailable(message).hinted("`agents record` writes it; or delete it")
    };
    if std::fs::metadata(file).is_ok_and(|found| !found.is_file()) {
        return Err(cannot("it is no regular file".to_owned()));
    }
    match std::fs::read(file) {
        Ok(text) => {
            serde_json::from_slice(&text).map(Some).map_err(|error| cannot(error.to_string()))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(cannot(error.to_string())),
    }
}

fn describe_line(tried: &TriedLine) -> Vec<String> {
    let mut lines = vec![format!("line {}: {}", tried.line, tried.text)];
    if let Some(problem) = tried.problem {
        lines.push(format!("  {problem}"));
    } else if tried.found.is_empty() {
        lines.push("  no rule finds anything".to_owned());
    }
    lines.extend(tried.found.iter().map(|found| {
        let warning = if found.is_mismatch { "warning: " } else { "" };
        format!("  rule {}, {}: {warning}{}", found.rule, found.key, found.value)
    }));
    lines
}

fn describe_report(report: &TriedReport) -> Vec<String> {
    let row =
        |name: &str, value: &str| format!("  {name:<width$}{value}", width = REPORT_INDENT - 2);
    let mut lines = Vec::new();
    if let Some(failure) = &report.failure {
        let message = plain_line(&failure.message, SHOWN_MAX);
        lines.push(row("failed", &format!("{}: {message}", failure.class)));
    }
    if let Some(text) = &report.final_text {
        lines.push(row("final text", &plain_line(text, SHOWN_MAX)));
    }
    lines.extend(report.figures().iter().map(|figure| row("usage", figure)));
    if let Some(session) = &report.session {
        lines.push(row("session", session));
    }
    lines.extend(report.missing.iter().map(|missing| row("missing", missing)));
    lines
}
