//! A plugin library in its host process, over plain pipes.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;

use ralph_orchestrator_plugin_host::{
    INBOUND_QUEUE, Inbound, PrivateCopy, Transport, TransportClosed,
};
use tokio::sync::mpsc;

/// The command of the host process.
#[allow(clippy::disallowed_methods)] // The process ends when its standard input does.
pub(crate) fn command(library: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ralph-plugin-host"));
    command.arg("plugin-host").arg(library).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Returns what the host process prints when it rejects a library.
pub(crate) fn error_of(library: impl AsRef<Path>) -> String {
    let output = command(library.as_ref()).output().unwrap();
    assert!(!output.status.success());
    assert!(output.stdout.is_empty(), "only frames belong there");
    String::from_utf8(output.stderr).unwrap()
}

/// A transport to a host process. Dropping it closes the standard input, which ends the process.
pub(crate) struct HostProcess {
    stdin: Mutex<Option<ChildStdin>>,
    child: Mutex<Child>,
}

impl HostProcess {
    pub(crate) fn start(copy: &PrivateCopy) -> (Self, mpsc::Receiver<Inbound>) {
        let mut child = command(copy.path()).spawn().unwrap();
        let stdin = Mutex::new(child.stdin.take());
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let (inbound_tx, inbound) = mpsc::channel(INBOUND_QUEUE);
        let stderr_tx = inbound_tx.clone();
        let stderr = std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                drop(stderr_tx.blocking_send(Inbound::Stderr(line)));
            }
        });
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                drop(inbound_tx.blocking_send(Inbound::Frame(line.into_bytes())));
            }
            drop(stderr.join());
            drop(inbound_tx.blocking_send(Inbound::Ended("the process ended".to_owned())));
        });
        (Self { stdin, child: Mutex::new(child) }, inbound)
    }
}

impl Transport for HostProcess {
    fn send(&self, mut frame: Vec<u8>) -> Result<(), TransportClosed> {
        frame.push(b'\n');
        let mut stdin = self.stdin.lock().unwrap();
        let written = stdin.as_mut().unwrap().write_all(&frame);
        written.map_err(|error| TransportClosed(error.to_string()))
    }
}

impl Drop for HostProcess {
    fn drop(&mut self) {
        drop(self.stdin.lock().unwrap().take());
        let mut child = self.child.lock().unwrap();
        // A plugin that hangs does not end with its input.
        drop(child.kill());
        drop(child.wait());
    }
}
