//! Short calls of other programs, such as `claude auth status`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_orchestrator_supervisor::{CaptureLimit, Grace, Spec, Supervisor};

/// Longest duration of a call.
const TIMEOUT: Duration = Duration::from_secs(20);

/// What a program printed, and whether it succeeded.
pub struct ProbeOutput {
    /// It ended with 0.
    pub succeeded: bool,
    /// What it printed.
    pub stdout: String,
    /// What it complained of.
    pub stderr: String,
}

/// Runs a program to its end. `None` if it could not be started or timed out.
pub async fn probe(
    program: PathBuf,
    args: &[&str],
    cwd: &Path,
    env: BTreeMap<String, String>,
) -> Option<ProbeOutput> {
    let spec = Spec {
        program,
        args: args.iter().map(Into::into).collect(),
        cwd: cwd.to_owned(),
        env,
        stdin: Vec::new(),
        grace: Grace::default(),
    };
    let limit = CaptureLimit::default();
    let timeout = tokio::time::sleep(TIMEOUT);
    let output = Supervisor::this_binary().output(spec, limit, timeout).await.ok()?;
    (!output.stopped).then(|| ProbeOutput {
        succeeded: output.exit.ending.is_success(),
        stdout: output.stdout.text(),
        stderr: output.stderr.text(),
    })
}
