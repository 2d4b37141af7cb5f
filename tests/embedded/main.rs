//! Runs inside of another program. This is one: it has a `main` of its own, because that has to begin with
//! `intercept`, before a test harness starts threads.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::unnecessary_wraps,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::print_stdout,
    missing_docs
)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ralph_orchestrator::supervisor::Supervisor;
use ralph_orchestrator::{
    Agent, AgentError, BuildContext, Description, EventSink, Iteration, Orchestrator,
    OrchestratorBuilder, OrchestratorError, Report, Run, RunEvent, RunUpdate, StopReason,
    async_trait, intercept,
};
use tempfile::TempDir;

/// Set for a copy of this program that has to be refused.
const FORGETS: &str = "EMBEDDED_TEST_FORGETS_TO_INTERCEPT";
/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);
const PROMISE: &str = "echo '<promise>COMPLETE: made it</promise>'";

fn main() {
    if std::env::var_os(FORGETS).is_some() {
        let error = Folder::new("true").builder().build().unwrap_err();
        println!("{error}");
        return;
    }
    intercept();
    let tests: [(&str, fn()); 9] = [
        ("reports_its_events_in_order_and_its_end", reports_its_events_in_order_and_its_end),
        ("runs_that_need_each_other_complete", runs_that_need_each_other_complete),
        ("a_stopped_run_is_resumed", a_stopped_run_is_resumed),
        ("a_dropped_run_leaves_no_process", a_dropped_run_leaves_no_process),
        ("a_run_is_steered_and_paused", a_run_is_steered_and_paused),
        ("mistakes_are_located", mistakes_are_located),
        ("what_needs_several_runs_is_refused", what_needs_several_runs_is_refused),
        ("each_orchestrator_has_adapters_of_its_own", each_orchestrator_has_adapters_of_its_own),
        (
            "to_forget_the_first_line_is_an_error_at_once",
            to_forget_the_first_line_is_an_error_at_once,
        ),
    ];
    let filter = std::env::args().nth(1).filter(|word| !word.starts_with('-'));
    for (name, test) in tests {
        if filter.as_ref().is_none_or(|filter| name.contains(filter.as_str())) {
            test();
            println!("test {name} ... ok");
        }
    }
}

/// A folder for a run and its state.
struct Folder {
    root: TempDir,
    script: String,
}

impl Folder {
    /// With an agent that is this line of shell.
    fn new(script: &str) -> Self {
        let root = TempDir::new().unwrap();
        fs::create_dir(root.path().join("w")).unwrap();
        Self { root, script: script.to_owned() }
    }

    fn workspace(&self) -> PathBuf {
        self.root.path().canonicalize().unwrap().join("w")
    }

    fn builder(&self) -> OrchestratorBuilder {
        let script = serde_json::to_string(&self.script).unwrap();
        let text = format!(
            "[run]\nprompt_text = \"Make done.\"\ndelay = \"0s\"\n[agent]\nadapter = \"command\"\nunmetered = true\n\
             [agent.config]\nprogram = [\"sh\", \"-c\", {script}]\n[[validator]]\nkind = \"command\"\n\
             name = \"tests\"\nprogram = [\"test\", \"-e\", \"done\"]\n[limits]\nmax_iterations = 4\n"
        );
        let state = self.root.path().join("state");
        Orchestrator::builder().config_str(&text, self.workspace()).state_home(state)
    }

    fn fifo(&self, name: &str) -> PathBuf {
        let path = self.root.path().join(name);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, work).await.unwrap() })
}

async fn events(run: &mut Run) -> Vec<RunEvent> {
    let mut events = Vec::new();
    while let Some(update) = run.next_update().await {
        match update {
            RunUpdate::Event(event) => events.push(event),
            other => panic!("{other:?}"),
        }
    }
    events
}

/// Waits on a thread that may block.
async fn read_to_end(path: &Path) -> String {
    let path = path.to_owned();
    let read = move || {
        let mut text = String::new();
        File::open(path).unwrap().read_to_string(&mut text).unwrap();
        text
    };
    tokio::task::spawn_blocking(read).await.unwrap()
}

fn reports_its_events_in_order_and_its_end() {
    let folder =
        Folder::new(&format!("if [ -e half ]; then touch done; fi; touch half; {PROMISE}"));
    let orchestrator = folder.builder().build().unwrap();
    block_on(async {
        let mut run = orchestrator.start().await.unwrap();
        let id = run.id().to_owned();
        let events = events(&mut run).await;
        let names: Vec<String> = events
            .iter()
            .map(|event| serde_json::to_value(event).unwrap()["event"].as_str().unwrap().to_owned())
            .filter(|name| {
                ["run_started", "iteration_started", "verdict", "run_finished"]
                    .contains(&name.as_str())
            })
            .collect();
        let iteration = ["iteration_started", "verdict"];
        let expected = [&["run_started"][..], &iteration, &iteration, &["run_finished"]].concat();
        assert_eq!(names, expected);
        let result = run.finish().await.unwrap();
        assert_eq!((result.reason, result.iterations), (StopReason::Completed, 2));
        assert!(result.validated && !result.was_complete, "{result:?}");
        assert_eq!(result.run, id);

        let mut again = orchestrator.start().await.unwrap();
        assert_eq!(again.next_update().await, None);
        let result = again.finish().await.unwrap();
        assert!(result.was_complete && result.validated, "{result:?}");
        assert_eq!((result.run, result.iterations), (id.clone(), 2));

        let other = folder.builder().restart().build().unwrap();
        assert_ne!(other.start().await.unwrap().finish().await.unwrap().run, id);
    });
}

/// Each agent waits for what the other one writes.
fn runs_that_need_each_other_complete() {
    let pipes = Folder::new("true");
    let (one, two) = (pipes.fifo("one"), pipes.fifo("two"));
    let (one, two) = (one.display(), two.display());
    let first = Folder::new(&format!("echo x > '{one}'; read y < '{two}'; touch done; {PROMISE}"));
    let second = Folder::new(&format!("read y < '{one}'; echo x > '{two}'; touch done; {PROMISE}"));
    let (first, second) = (first.builder().build().unwrap(), second.builder().build().unwrap());
    block_on(async {
        let (first, second) = tokio::join!(first.start(), second.start());
        let (first, second) = tokio::join!(first.unwrap().finish(), second.unwrap().finish());
        for result in [first.unwrap(), second.unwrap()] {
            assert_eq!(
                (result.reason, result.iterations),
                (StopReason::Completed, 1),
                "{result:?}"
            );
        }
    });
}

fn a_stopped_run_is_resumed() {
    let folder = Folder::new("true");
    let pipe = folder.fifo("begun");
    let line = format!(
        "if [ -e half ]; then touch done; {PROMISE}; exit; fi; touch half; echo x > '{}'; exec sleep 1000",
        pipe.display()
    );
    let folder = Folder { script: line, ..folder };
    let orchestrator = folder.builder().build().unwrap();
    block_on(async {
        let run = orchestrator.start().await.unwrap();
        let (id, stop) = (run.id().to_owned(), run.stop_handle());
        read_to_end(&pipe).await;
        stop.stop();
        let result = run.finish().await.unwrap();
        assert_eq!(result.reason, StopReason::Interrupted, "{result:?}");
        let mut run = orchestrator.start().await.unwrap();
        assert!(matches!(events(&mut run).await.first(), Some(RunEvent::RunResumed { .. })));
        let result = run.finish().await.unwrap();
        assert_eq!((result.run, result.reason), (id, StopReason::Completed));
        // Of a run that has ended it does nothing.
        stop.kill();
    });
}

fn a_dropped_run_leaves_no_process() {
    let folder = Folder::new("true");
    let (begun, held) = (folder.fifo("begun"), folder.fifo("held"));
    let line = format!(
        "trap '' TERM INT; exec 3> '{}'; (trap '' TERM INT; setsid sleep 1000) & echo x > '{}'; sleep 1000",
        held.display(),
        begun.display()
    );
    let folder = Folder { script: line, ..folder };
    let orchestrator = folder.builder().build().unwrap();
    block_on(async {
        let run = orchestrator.start().await.unwrap();
        let end = read_to_end(&held);
        let begun = read_to_end(&begun);
        let dropped = async {
            begun.await;
            drop(run);
        };
        // Its end of the pipe is closed when the last of them has ended.
        tokio::join!(end, dropped);
        let mut run = orchestrator.start().await.unwrap();
        let first = run.next_update().await;
        assert!(matches!(first, Some(RunUpdate::Event(RunEvent::RunResumed { .. }))), "{first:?}");
    });
}

fn a_run_is_steered_and_paused() {
    let folder = Folder::new("");
    let (at_work, go_on) = (folder.fifo("at-work"), folder.fifo("go-on"));
    let prompt = folder.root.path().join("prompt");
    // The first iteration reports itself and waits; the second one keeps what it is given.
    let script = format!(
        "if [ -e half ]; then cat > {}; touch done; {PROMISE}; else touch half; echo x > {}; cat {}; fi",
        prompt.display(),
        at_work.display(),
        go_on.display()
    );
    let folder = Folder { script, ..folder };
    let orchestrator = folder.builder().build().unwrap();
    block_on(async {
        let run = orchestrator.start().await.unwrap();
        read_to_end(&at_work).await;
        let controls = run.control_handle();
        assert!(controls.steer("Use the metric system.").await.unwrap());
        assert!(controls.pause(false).await.unwrap());
        assert!(controls.steer(" ").await.is_err());
        fs::write(&go_on, "x").unwrap();
        assert!(controls.resume().await.unwrap());
        let result = run.finish().await.unwrap();
        assert_eq!((result.reason, result.iterations), (StopReason::Completed, 2));
        assert!(fs::read_to_string(&prompt).unwrap().contains("Use the metric system."));
        // There is nothing left to guide.
        let error = controls.steer("Too late.").await.unwrap_err().to_string();
        assert!(error.contains("complete"), "{error}");
    });
}

fn mistakes_are_located() {
    let folder = Folder::new("true");
    let refused =
        |text: &str| match Orchestrator::builder().config_str(text, folder.workspace()).build() {
            Ok(orchestrator) => panic!("{orchestrator:?}"),
            Err(error) => error.to_string(),
        };
    let unknown = refused("[run]\nprompt_text = \"x\"\n[limits]\nmax_cost = 1\n");
    assert!(
        unknown.contains("(configuration):4:1") && unknown.contains("did you mean"),
        "{unknown}"
    );
    assert!(refused("[run\n").contains("(configuration):1:"), "{}", refused("[run\n"));
    let missing = folder.workspace().join("none.toml");
    let missing = Orchestrator::builder().config_file(missing).build().unwrap_err();
    assert!(missing.to_string().contains("none.toml"), "{missing}");
    let none = Orchestrator::builder().build().unwrap_err();
    assert!(matches!(none, OrchestratorError::NoConfiguration), "{none}");
    let taken = folder.builder().agent("codex", silent).build().unwrap_err();
    assert!(matches!(taken, OrchestratorError::Name(_)), "{taken}");
    let set = folder.builder().set("agent.adapter", "commnd").build().unwrap();
    let error = block_on(set.start()).unwrap_err().to_string();
    assert!(error.contains("did you mean `command`?"), "{error}");
}

fn what_needs_several_runs_is_refused() {
    let folder = Folder::new("true");
    for (key, value) in
        [("backlog", "{kind = \"json\", path = \"l.json\"}"), ("git.worktree", "true")]
    {
        match folder.builder().set(key, value).build().unwrap_err() {
            OrchestratorError::Unsupported { key: named } => assert_eq!(named, key),
            other => panic!("{key}: {other}"),
        }
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Keys {}

/// An agent that makes the file by itself.
struct Silent(PathBuf);

fn silent(
    _: Keys,
    context: &BuildContext,
    _: &Supervisor,
) -> Result<Silent, ralph_orchestrator::BuildError> {
    Ok(Silent(context.workspace.clone()))
}

#[async_trait]
impl Agent for Silent {
    fn describe(&self) -> Description {
        Description { name: "silent".to_owned(), ..Description::default() }
    }

    async fn check(&self, _env: &BTreeMap<String, String>) -> Result<String, AgentError> {
        Ok(String::new())
    }

    async fn run(&self, _task: Iteration, _events: &dyn EventSink) -> Result<Report, AgentError> {
        fs::write(self.0.join("done"), "").unwrap();
        let text = "<promise>COMPLETE: made it</promise>".to_owned();
        Ok(Report { final_text: Some(text), ..Report::default() })
    }
}

fn each_orchestrator_has_adapters_of_its_own() {
    let folder = Folder::new("true");
    let of = || folder.builder().set("agent.adapter", "silent").set("agent.config", "{}");
    let (with, without) = (of().agent("silent", silent).build().unwrap(), of().build().unwrap());
    block_on(async {
        let error = without.start().await.unwrap_err().to_string();
        assert!(error.contains("no adapter called \"silent\""), "{error}");
        let result = with.start().await.unwrap().finish().await.unwrap();
        assert_eq!(result.reason, StopReason::Completed, "{result:?}");
    });
}

fn to_forget_the_first_line_is_an_error_at_once() {
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program).env(FORGETS, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.contains("add `ralph_orchestrator::intercept();` as the first line of `main`"),
        "{said}"
    );
}
