//! Every way a run can go wrong.

use std::process::{Command, Stdio};
use std::time::Duration;

use ralph_orchestrator_plugin_sdk::{AgentError, ErrorClass, EventSink, Report};

use crate::good::{said, say};

struct Bomb(&'static str);

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("{}", self.0);
    }
}

pub async fn run(what: &str, more: &str, events: &dyn EventSink) -> Result<Report, AgentError> {
    match what {
        "error" => {
            let report = Report { session: Some("s-1".to_owned()), ..Report::default() };
            Err(AgentError::new(ErrorClass::Billing, "an ordinary error").with_report(report))
        }
        "panic" => panic!("deliberate panic in run"),
        "panic-with-a-number" => std::panic::panic_any(7),
        "panic-after-waiting" => {
            tokio::time::sleep(Duration::from_millis(20)).await;
            panic!("deliberate panic after waiting");
        }
        "panic-in-drop" => {
            let _bomb = Bomb("deliberate panic in drop");
            say(events, "armed").await;
            Ok(said("never said"))
        }
        "panic-when-aborted" => {
            let _bomb = Bomb("deliberate panic when aborted");
            say(events, "armed").await;
            std::future::pending().await
        }
        "panic-in-task" => {
            let error = tokio::spawn(async { panic!("deliberate panic in a task") }).await;
            Ok(said(&format!("survived: {}", error.is_err())))
        }
        "panic-in-thread" => {
            let thread = std::thread::Builder::new().name("mine".to_owned());
            let thread = thread.spawn(|| panic!("deliberate panic on a thread of its own"));
            Ok(said(&format!("survived: {}", thread.unwrap().join().is_err())))
        }
        "double-panic" => {
            let _bomb = Bomb("and again while unwinding");
            panic!("first of two panics");
        }
        "abort" => std::process::abort(),
        "exit" => std::process::exit(more.parse().unwrap()),
        "segv" => {
            // SAFETY: none, this is what is tested.
            unsafe { std::ptr::null_mut::<u8>().write_volatile(1) };
            Ok(said("never said"))
        }
        "overflow" => Ok(said(&deep(0).to_string())),
        "endless" => {
            say(events, "armed").await;
            loop {
                std::hint::black_box(());
            }
        }
        "block" => {
            say(events, "armed").await;
            std::thread::sleep(Duration::from_secs(3600));
            Ok(said("never said"))
        }
        "ignore-cancel" => {
            say(events, "armed").await;
            loop {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        "flood" => {
            let count: u64 = more.parse().unwrap();
            for number in 0..count {
                say(events, &number.to_string()).await;
            }
            Ok(said(more))
        }
        "print" => {
            println!("{{\"frame\":\"pong\",\"n\":1}}");
            println!("a stray print");
            let child = Command::new("sh").args(["-c", "echo from a child; cat"]).status().unwrap();
            Ok(said(&format!("child: {child}")))
        }
        "leak" => Ok(said(&leak().to_string())),
        _ => Err(AgentError::new(ErrorClass::InvalidRequest, format!("unknown: {what}"))),
    }
}

#[allow(unconditional_recursion)]
fn deep(number: u64) -> u64 {
    let some = std::hint::black_box([number; 512]);
    deep(number + 1) + some[3]
}

/// A child in a session of its own, which nobody waits for.
fn leak() -> u32 {
    use std::os::unix::process::CommandExt as _;
    let mut command = Command::new("sleep");
    command.arg("3600").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: setsid may be called between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            Ok(())
        });
    }
    command.spawn().unwrap().id()
}
