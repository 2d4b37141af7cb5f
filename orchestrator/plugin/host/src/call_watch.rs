//! Reports functions of a library that do not return, from a thread of the host process.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};
use std::{fs::File, io, io::Write as _, thread};

use ralph_orchestrator_plugin_protocol::{LogLevel, LogLine, PluginFrame, encode};

use crate::library::exit_now;

/// How long `send` may take until that is reported.
const SEND_LIMIT: Duration = Duration::from_secs(5);
/// How long `close` may take until that is reported and the process exits.
const CLOSE_LIMIT: Duration = Duration::from_secs(3);
/// How often is looked whether one is late.
const INTERVAL: Duration = Duration::from_millis(250);
/// No function is being called.
const IDLE: u64 = u64::MAX;

/// The output of the host process: frames of the plugin, one per line.
#[derive(Debug)]
pub(crate) struct FrameOutput {
    file: Mutex<File>,
    /// Whether the plugin has sent a frame: none of the host process may come before `hello`.
    has_frames: AtomicBool,
}

impl FrameOutput {
    pub(crate) const fn new(file: File) -> Self {
        Self { file: Mutex::new(file), has_frames: AtomicBool::new(false) }
    }

    /// Writes a line. The pipe is the backpressure.
    pub(crate) fn write(&self, line: &[u8]) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.has_frames.store(true, Ordering::Relaxed);
        file.write_all(line)
    }

    /// Writes a warning as a frame, or to standard error where none may be written now.
    fn warn(&self, message: &str) {
        let line = LogLine {
            level: LogLevel::Warn,
            target: String::new(),
            message: message.to_owned(),
            fields: serde_json::Map::new(),
            spans: Vec::new(),
        };
        let file = match self.file.try_lock() {
            Ok(file) => Some(file),
            Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        let file = file.filter(|_| self.has_frames.load(Ordering::Relaxed));
        match (file, encode(&PluginFrame::Log(line))) {
            (Some(mut file), Ok(mut frame)) => {
                frame.push(b'\n');
                drop(file.write_all(&frame));
            }
            _ => drop(writeln!(io::stderr(), "{message}")),
        }
    }
}

/// Watches the calls of a library's functions.
#[derive(Debug)]
pub(crate) struct CallWatch {
    began: Instant,
    /// When the present call began, in milliseconds after `began`; [`IDLE`] between calls.
    called: AtomicU64,
    is_closing: AtomicBool,
}

impl CallWatch {
    /// Starts the thread that watches. Without a thread nothing is reported.
    pub(crate) fn start(output: Arc<FrameOutput>) -> Arc<Self> {
        let watch = Arc::new(Self {
            began: Instant::now(),
            called: AtomicU64::new(IDLE),
            is_closing: AtomicBool::new(false),
        });
        let watched = Arc::clone(&watch);
        let name = "call-watch".to_owned();
        drop(thread::Builder::new().name(name).spawn(move || watched.run(&output)));
        watch
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(IDLE - 1)
    }

    /// Calls `send`.
    pub(crate) fn sending<T>(&self, call: impl FnOnce() -> T) -> T {
        self.called.store(self.now(), Ordering::Relaxed);
        let result = call();
        self.called.store(IDLE, Ordering::Relaxed);
        result
    }

    /// Calls `close`. If it does not return, the process ends here.
    pub(crate) fn closing<T>(&self, call: impl FnOnce() -> T) -> T {
        self.called.store(self.now(), Ordering::Relaxed);
        self.is_closing.store(true, Ordering::Release);
        let result = call();
        self.called.store(IDLE, Ordering::Relaxed);
        result
    }

    fn run(&self, output: &FrameOutput) {
        let mut reported = IDLE;
        loop {
            thread::sleep(INTERVAL);
            let is_closing = self.is_closing.load(Ordering::Acquire);
            let called = self.called.load(Ordering::Relaxed);
            let late = Duration::from_millis(self.now().saturating_sub(called));
            if is_closing && late >= CLOSE_LIMIT {
                let seconds = CLOSE_LIMIT.as_secs();
                output.warn(&format!("its function `close` did not return within {seconds} s"));
                exit_now(0);
            }
            if !is_closing && late >= SEND_LIMIT && called != reported {
                reported = called;
                let seconds = SEND_LIMIT.as_secs();
                output.warn(&format!(
                    "its function `send` has not returned for {seconds} s: copy the frame, and work on it \
                     in another thread"
                ));
            }
        }
    }
}
