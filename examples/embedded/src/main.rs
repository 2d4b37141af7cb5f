//! Runs a loop in a folder, prints what happens in it, and stops it after a minute.
//!
//! Usage: `embedded FOLDER`

// The orchestrator itself prints in one place only.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;
use std::time::Duration;

use ralph_orchestrator::{Orchestrator, OrchestratorError, RunEvent, RunResult, RunUpdate};

/// A stand-in for an agent: it does the work in its second iteration.
const CONFIGURATION: &str = r#"
[run]
prompt_text = "Write hello.txt."
delay = "0s"

[agent]
adapter = "command"
unmetered = true

[agent.config]
program = ["sh", "-c", """
if test -e plan; then echo hello > hello.txt; else touch plan; fi
echo '<promise>COMPLETE: it is written</promise>'
"""]

[[validator]]
kind = "command"
name = "hello"
program = ["grep", "-q", "hello", "hello.txt"]

[limits]
max_iterations = 5
"#;

fn main() -> ExitCode {
    // First of all: the processes of a run are supervised by this program, started once more.
    ralph_orchestrator::intercept();
    let Some(folder) = std::env::args().nth(1) else {
        eprintln!("usage: embedded FOLDER");
        return ExitCode::from(64);
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("no runtime could be started: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(work(&folder)) {
        Ok(result) => {
            println!("{}: {} iterations", result.message, result.iterations);
            if result.validated { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn work(folder: &str) -> Result<RunResult, OrchestratorError> {
    let orchestrator = Orchestrator::builder().config_str(CONFIGURATION, folder).build()?;
    let mut run = orchestrator.start().await?;
    let stop = run.stop_handle();
    let watch = async {
        while let Some(update) = run.next_update().await {
            print(&update);
        }
    };
    if tokio::time::timeout(Duration::from_secs(60), watch).await.is_err() {
        stop.stop();
    }
    run.finish().await
}

fn print(update: &RunUpdate) {
    match update {
        RunUpdate::Event(RunEvent::IterationStarted { iteration, .. }) => {
            println!("iteration {iteration} begins");
        }
        RunUpdate::Event(RunEvent::Claim { claim, .. }) => println!("  claims: {}", claim.text),
        RunUpdate::Event(RunEvent::Verdict { accepted, reasons, .. }) => {
            println!("  {}", if *accepted { "accepted" } else { "rejected" });
            reasons.iter().for_each(|reason| println!("    {reason}"));
        }
        RunUpdate::Missed(count) => println!("  {count} reports of the agent were not read"),
        _ => {}
    }
}
