//! `agents record`

use std::io::{self, IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};

use ralph_orchestrator_assembly::block_on::block_on;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::stream_trial::RecordedEnd;
use ralph_orchestrator_assembly::user_folders::variables;
use ralph_orchestrator_config::Env;
use ralph_orchestrator_engine::Redactor;
use ralph_orchestrator_supervisor::{
    CaptureLimit, Grace, KillSwitch, Output, Spec, Supervisor, find_program,
};
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::output_place::{verify_writable, write_whole};
use ralph_orchestrator_terminal::signals::listen_for_end;
use ralph_orchestrator_text::bytes;

use super::recording::end_file;

/// How much of standard output is recorded, and how much standard input is passed on, in bytes.
const OUTPUT_MAX: usize = 16 * 1024 * 1024;
/// How much of the end of standard error is recorded, in bytes.
const STDERR_MAX: usize = 64 * 1024;

#[derive(Debug, clap::Args)]
pub(crate) struct RecordArgs {
    /// Write what the program prints on standard output into this file, and how it ended into
    /// FILE.end.json
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// The program and its arguments; standard input is passed on unless it is a terminal
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

/// Runs the program, and records what it prints without secrets.
pub(crate) fn record(args: &RecordArgs) -> Result<u8, CommandError> {
    let vars = variables();
    let here = std::env::current_dir()?;
    let (name, rest) = args
        .command
        .split_first()
        .ok_or_else(|| CommandError::user("expected a program after `--`"))?;
    let path = vars.get("PATH").map(String::as_str).unwrap_or_default();
    let program = find_program(name, path, &here)
        .map_err(|error| CommandError::unavailable(error.to_string()))?;
    let ends = end_file(&args.output);
    // A session that is paid for is not lost for a mistyped folder.
    [&args.output, &ends].into_iter().try_for_each(|file| verify_writable(file))?;
    let signal = listen_for_end()?;
    let spec = Spec {
        program,
        args: rest.iter().map(Into::into).collect(),
        cwd: here,
        env: vars.clone(),
        stdin: read_input()?,
        grace: Grace::default(),
    };
    let limits =
        [CaptureLimit { head: OUTPUT_MAX, tail: 0 }, CaptureLimit { head: 0, tail: STDERR_MAX }];
    let supervisor = Supervisor::this_binary().with_kill_switch(KillSwitch::default());
    let ended = block_on(async {
        // What was printed until a signal is recorded.
        let ended = supervisor.output_within(spec, limits, signal.wait()).await;
        ended.map_err(|error| CommandError::unavailable(error.to_string()))
    })?;
    write_recording(&args.output, &ended, &Redactor::new(&Env::default(), &vars))?;
    Ok(signal.status().unwrap_or(exit::OK))
}

/// Returns what is on standard input, such as a prompt.
fn read_input() -> Result<Vec<u8>, CommandError> {
    let stdin = io::stdin();
    let mut input = Vec::new();
    if stdin.is_terminal() {
        return Ok(input);
    }
    let most = u64::try_from(OUTPUT_MAX).unwrap_or(u64::MAX);
    stdin.lock().take(most.saturating_add(1)).read_to_end(&mut input)?;
    if input.len() > OUTPUT_MAX {
        let message = format!("standard input is longer than {}", bytes(most));
        return Err(CommandError::user(message));
    }
    Ok(input)
}

fn write_recording(file: &Path, ended: &Output, redactor: &Redactor) -> Result<(), CommandError> {
    let recorded = redactor.bytes(&ended.stdout.head);
    let stderr = String::from_utf8_lossy(&ended.stderr.tail).into_owned();
    let end = RecordedEnd {
        exit: ended.exit.ending.to_string(),
        success: ended.exit.ending.is_success(),
        stderr: redactor.text(&stderr).into_owned(),
    };
    let text = serde_json::to_vec_pretty(&end).map_err(CommandError::internal)?;
    write_whole(file, &recorded, 0o600)?;
    write_whole(&end_file(file), &text, 0o600)?;
    if ended.stdout.cut > 0 {
        output::info(&format!(
            "warning: {} after the first {} are left out",
            bytes(ended.stdout.cut),
            bytes(u64::try_from(OUTPUT_MAX).unwrap_or(u64::MAX))
        ));
    }
    let lines = recorded.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
    output::result(&format!("{}: {lines} lines, {}", file.display(), end.exit));
    output::info("`agents try` shows what the rules of ralph.toml make of it");
    Ok(())
}
