//! `stop`

use std::time::Duration;

use ralph_orchestrator_core::store::Lock;
use rustix::process::{Pid, Signal, kill_process};

use crate::args::SetArgs;
use crate::context::{self, Context};
use crate::discovery::ConfigFile;
use crate::error::{CommandError, exit};
use crate::output;

#[derive(Debug, clap::Args)]
pub(crate) struct StopArgs {
    /// Return at once instead of waiting until the run has ended
    #[arg(long)]
    pub(crate) no_wait: bool,
    #[command(flatten)]
    pub(crate) sets: SetArgs,
}

const POLL: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(120);

pub(crate) fn stop(file: &ConfigFile, args: &StopArgs) -> Result<u8, CommandError> {
    let layout = Context::locate_run(file, &args.sets)?.layout()?;
    let Some(holder) = Lock::holder(&layout) else {
        output::result("no run is active");
        return Ok(exit::OK);
    };
    let pid = i32::try_from(holder.pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| CommandError::user("the run has only just started; try again"))?;
    kill_process(pid, Signal::TERM).map_err(std::io::Error::from)?;
    if args.no_wait {
        output::result(&format!("stop requested: {holder}"));
        return Ok(exit::OK);
    }
    let deadline = std::time::Instant::now() + LONGEST_WAIT;
    while Lock::holder(&layout).is_some_and(|now| now == holder) {
        if std::time::Instant::now() >= deadline {
            let seconds = LONGEST_WAIT.as_secs();
            return Err(CommandError::user(format!("{holder} did not end within {seconds} s")));
        }
        std::thread::sleep(POLL);
    }
    let program = context::invocation(file);
    output::result(&format!("stopped ({holder}); `{program} run` resumes"));
    Ok(exit::OK)
}
