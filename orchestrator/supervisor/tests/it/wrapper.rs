//! Processes that a wrapper starts elsewhere.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use ralph_orchestrator_supervisor::{
    CaptureLimit, Ending, SpawnError, Spec, Stop, Supervisor, Wrapper, WrapperFuture,
};
use tempfile::TempDir;
use tokio::sync::Semaphore;

use crate::common::{bounded, eventually, lines, sh, supervisor};

/// Says where each process is started, and waits for a permit before it releases one.
#[derive(Debug)]
struct RecordingWrapper {
    refuses: bool,
    /// Where programs are started that do not exist.
    program: Option<PathBuf>,
    released: Mutex<Vec<Option<Ending>>>,
    stops: AtomicU32,
    permits: Semaphore,
}

impl RecordingWrapper {
    fn new(permits: usize) -> Self {
        Self {
            refuses: false,
            program: None,
            released: Mutex::default(),
            stops: AtomicU32::new(0),
            permits: Semaphore::new(permits),
        }
    }

    fn released(&self) -> Vec<Option<Ending>> {
        self.released.lock().unwrap().clone()
    }
}

impl Wrapper for RecordingWrapper {
    fn wrap(&self, mut spec: Spec) -> WrapperFuture<'_, io::Result<Spec>> {
        Box::pin(async move {
            if self.refuses {
                return Err(io::Error::other("the container is gone"));
            }
            spec.env.insert("ELSEWHERE".to_owned(), "there".to_owned());
            if let Some(program) = &self.program {
                spec.program.clone_from(program);
            }
            Ok(spec)
        })
    }

    fn stop(&self) {
        self.stops.fetch_add(1, Ordering::SeqCst);
    }

    fn release(&self, ending: Option<Ending>) -> WrapperFuture<'_, ()> {
        Box::pin(async move {
            self.permits.acquire().await.unwrap().forget();
            self.released.lock().unwrap().push(ending);
        })
    }
}

fn wrapped(wrapper: &Arc<RecordingWrapper>) -> Supervisor {
    supervisor().with_wrapper(Arc::clone(wrapper) as Arc<dyn Wrapper>)
}

#[tokio::test]
async fn a_process_is_what_the_wrapper_makes_of_it_and_its_exit_comes_after_the_release() {
    let wrapper = Arc::new(RecordingWrapper::new(2));
    let supervisor = wrapped(&wrapper);
    for (script, code) in [("echo $ELSEWHERE", 0), ("exit 7", 7)] {
        let run = supervisor.output(sh(script), CaptureLimit::default(), std::future::pending());
        let output = bounded("the end", run).await.unwrap();
        assert_eq!(output.exit.ending, Ending::Exited(code));
        assert_eq!(wrapper.released().last(), Some(&Some(Ending::Exited(code))));
        let expected = if code == 0 { "there\n" } else { "" };
        assert_eq!(output.stdout.text(), expected);
    }
    assert_eq!(wrapper.released().len(), 2);
}

#[tokio::test]
async fn a_wait_that_was_dropped_does_not_release_twice() {
    let wrapper = Arc::new(RecordingWrapper::new(0));
    let mut process = bounded("the start", wrapped(&wrapper).spawn(sh("exit 3"))).await.unwrap();
    while process.next().await.is_some() {}
    for _ in 0..3 {
        tokio::select! {
            exit = process.wait() => panic!("reported before the release: {exit}"),
            () = tokio::task::yield_now() => {}
        }
    }
    // The release goes on although nobody waits for it.
    let waited = tokio::time::timeout(std::time::Duration::from_millis(50), process.wait()).await;
    assert!(waited.is_err());
    wrapper.permits.add_permits(5);
    let exit = bounded("the end", process.wait()).await;
    assert_eq!(exit.ending, Ending::Exited(3));
    assert_eq!(process.wait().await, exit);
    drop(process);
    assert_eq!(wrapper.released(), [Some(Ending::Exited(3))]);
}

#[tokio::test]
async fn a_process_that_is_dropped_or_killed_is_released() {
    let wrapper = Arc::new(RecordingWrapper::new(2));
    let supervisor = wrapped(&wrapper);
    let mut process =
        bounded("the start", supervisor.spawn(sh("echo up; sleep 1000"))).await.unwrap();
    lines(&mut process, 1).await;
    drop(process);
    eventually("the release", || wrapper.released() == [None]).await;
    let mut process = bounded("the start", supervisor.spawn(sh("sleep 1000"))).await.unwrap();
    process.stop(Stop::Kill);
    // A weaker stop has no effect.
    process.stop(Stop::Terminate);
    assert_eq!(wrapper.stops.load(Ordering::SeqCst), 1);
    let exit = bounded("the end", process.wait()).await;
    assert_eq!(exit.ending, Ending::Signaled { signal: 9, core: false });
    assert_eq!(wrapper.released(), [None, Some(exit.ending)]);
}

#[tokio::test]
async fn what_does_not_start_is_released_and_what_is_refused_is_not() {
    let dir = TempDir::new().unwrap();
    let missing = dir.path().join("client");
    let wrapper =
        Arc::new(RecordingWrapper { program: Some(missing.clone()), ..RecordingWrapper::new(2) });
    let error = bounded("the failure", wrapped(&wrapper).spawn(sh(""))).await.unwrap_err();
    assert!(matches!(error, SpawnError::NotFound { .. }), "{error}");
    assert!(error.to_string().contains(missing.to_str().unwrap()), "{error}");
    eventually("the release", || wrapper.released() == [None]).await;
    let wrapper = Arc::new(RecordingWrapper { refuses: true, ..RecordingWrapper::new(2) });
    let error = bounded("the failure", wrapped(&wrapper).spawn(sh(""))).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot start `/bin/sh`: the container is gone");
    assert_eq!(wrapper.released(), []);
}
