//! Tests whether an adapter, a detector or a validator keeps the contract, with a model server on loopback.
//! Must not know the engine or any adapter.
//!
//! [`run`] has the adapter work in one [`Scenario`] after the other, each in a workspace of its own. An
//! adapter for an agent that asks a model needs to tell the agent where the model is ([`Fixture::model_url`]):
//! it does then what the scenario wants. Another one builds something that does ([`Behaviour`]).
//!
//! That no event comes after the end needs no scenario: the sink is only lent to the adapter.
//!
//! ```
//! use ralph_orchestrator_contract::{Agent, AgentError, Capabilities, Description, ErrorClass, Event, EventSink};
//! use ralph_orchestrator_contract::{Iteration, Report, async_trait};
//! use ralph_orchestrator_conformance::{self as conformance, Behaviour, Subject, Options, Scenario};
//! use std::collections::BTreeMap;
//!
//! /// An agent of your own, that only says what it was built with.
//! struct Parrot(String);
//!
//! #[async_trait]
//! impl Agent for Parrot {
//!     fn describe(&self) -> Description {
//!         Description { name: "parrot".into(), summary: "repeats".into(), ..Description::default() }
//!     }
//!
//!     async fn check(&self, _env: &BTreeMap<String, String>) -> Result<String, AgentError> {
//!         Ok("a parrot".into())
//!     }
//!
//!     async fn run(&self, task: Iteration, events: &dyn EventSink) -> Result<Report, AgentError> {
//!         let work = async {
//!             events.emit(Event::Session { id: task.run.clone(), model: None }).await;
//!             events.emit(Event::Text { text: self.0.clone() }).await;
//!         };
//!         tokio::select! {
//!             biased;
//!             _ = events.cancelled() => Err(AgentError::new(ErrorClass::Cancelled, "cancelled")),
//!             () = work => Ok(Report { final_text: Some(self.0.clone()), ..Report::default() }),
//!         }
//!     }
//! }
//!
//! let mut options = Options::default();
//! // It has no tools, asks no model, and is never so slow that it could be ended.
//! for (scenarios, why) in [
//!     (&Scenario::WITH_TOOLS[..], "it has no tools"),
//!     (&Scenario::WITH_OWN_TOOLS[..], "it is not given the orchestrator's tools"),
//!     (&Scenario::WITH_MODEL[..], "it asks no model"),
//!     (&Scenario::WHEN_SLOW[..], "it is done at once"),
//! ] {
//!     options = options.skip(scenarios, why);
//! }
//! let report = conformance::run(&options, |fixture| {
//!     let text = match &fixture.behaviour {
//!         Behaviour::Message { text } => text.clone(),
//!         _ => "no".into(),
//!     };
//!     Subject::new(Parrot(text))
//! });
//! report.assert();
//! ```
//!
//! # The model server as a program
//!
//! `ralph-model-server SCRIPT [PORT]` serves a script on loopback, prints its base URL and then a line
//! for each main request, until it is stopped:
//!
//! ```text
//! $ cargo run -p ralph-orchestrator-conformance --bin ralph-model-server -- script.json
//! http://127.0.0.1:40123
//! $ ANTHROPIC_BASE_URL=http://127.0.0.1:40123 ANTHROPIC_API_KEY=dummy claude -p "Do it"
//! ```
//!
//! The script is JSON. Each of its `steps` answers one main request, or `times` many; `forever` answers
//! all that follow, and without it they are errors. A step is a message, or an error or fault:
//!
//! ```json
//! {
//!   "steps": [
//!     {"thinking": "hm", "text": "I write it.", "shell": "echo hello > hello.txt",
//!      "usage": {"input": 2000, "output": 120, "cache_read": 0, "cache_write": 15000}},
//!     {"tool": {"name": "Write", "input": {"file_path": "/tmp/x", "content": "x"}}},
//!     {"error": 429, "message": "slow down", "kind": "rate_limit_error", "times": 2,
//!      "headers": {"retry-after": "1"}, "details": {"resets_at": 4102444800}},
//!     {"failed": "context_length_exceeded", "message": "too long"},
//!     {"text": "half a message", "fault": "stall"},
//!     {"hang": true},
//!     {"drop": true}
//!   ],
//!   "forever": {"text": "Done.", "stop_reason": "end_turn", "pause_ms": 5}
//! }
//! ```
//!
//! `shell` is a call of whatever tool the agent offers for running commands; `fault` is `stall`, `cut`
//! or `error`, after the first piece of a streamed message; `pause_ms` comes before each event of one.
#![allow(clippy::expect_used, clippy::panic)]

pub mod agent_env;
pub mod model_server;
pub mod processes;

mod backlog_formats;
mod busy_tool;
mod detectors_validators;
mod fixture;
mod recording_sink;
mod scenario;
mod scenarios;
mod settings;
mod transcribed;

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

pub use backlog_formats::check_backlog_format;
pub use busy_tool::BusyTool;
pub use detectors_validators::{
    BuildItem, ItemFixture, ItemFuture, ItemReport, ItemResult, check_detector, check_validator,
};
pub use detectors_validators::{CaseExpectation, WorkspaceCase};
pub use fixture::{Behaviour, Fixture, Subject, with_claude, with_codex};
pub use recording_sink::RecordingSink;
pub use scenario::Scenario;
pub use settings::{
    BACKLOG_CHECKS, CheckResultRow, CheckSettings, DETECTOR_CHECKS, VALIDATOR_CHECKS,
};

use scenarios::NotPassed;
use settings::word_of;
use transcribed::TranscriptLog;

/// No scenario takes longer, unless something hangs.
const TIMEOUT: Duration = Duration::from_secs(180);

/// The expectations of an adapter.
#[derive(Clone, Debug)]
pub struct Options {
    skipped: Vec<(Scenario, String)>,
    prompt_max: usize,
    supervised: bool,
    settings: CheckSettings,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            skipped: Vec::new(),
            prompt_max: 2 * 1024 * 1024,
            supervised: true,
            settings: CheckSettings::default(),
        }
    }
}

impl Options {
    /// Skips scenarios, for a reason that the report shows.
    #[must_use]
    pub fn skip(mut self, scenarios: &[Scenario], why: &str) -> Self {
        self.skipped.extend(scenarios.iter().map(|scenario| (*scenario, why.to_owned())));
        self
    }

    /// The longest prompt that has to arrive, in bytes; 2 MiB by default.
    #[must_use]
    pub const fn prompt_max(mut self, bytes: usize) -> Self {
        self.prompt_max = bytes;
        self
    }

    /// Which scenarios are run, how long each may take, and who is told of each.
    #[must_use]
    pub fn settings(mut self, settings: CheckSettings) -> Self {
        self.settings = settings;
        self
    }

    /// For an adapter whose processes nobody supervises: of what its tool has started it need not find a
    /// process that is in a session of its own *and* has emptied its environment.
    #[must_use]
    pub const fn unsupervised(mut self) -> Self {
        self.supervised = false;
        self
    }
}

/// The outcome of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It passed.
    Passed,
    /// It failed, and why.
    Failed(String),
    /// The adapter does not support it, for this reason.
    Skipped(String),
}

/// The outcomes of all scenarios, displayed as a table.
#[derive(Clone, Debug)]
pub struct Report {
    /// The adapter's name.
    pub adapter: String,
    /// Each scenario's outcome, and how long it took.
    pub rows: Vec<(Scenario, Outcome, Duration)>,
}

impl Report {
    /// Whether no scenario has failed.
    #[must_use]
    pub fn passed(&self) -> bool {
        !self.rows.iter().any(|(_, outcome, _)| matches!(outcome, Outcome::Failed(_)))
    }

    /// For tests.
    ///
    /// # Panics
    /// If a scenario has failed, with the table.
    pub fn assert(&self) {
        assert!(self.passed(), "\n{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.adapter)?;
        self.rows.iter().try_for_each(|row| writeln!(f, "{}", TableRow(row)))
    }
}

/// What was examined, what came of it, and how long it took.
type Row<T> = (T, Outcome, Duration);

/// A row of the table.
struct TableRow<'a, T>(&'a Row<T>);

impl<T: fmt::Display> fmt::Display for TableRow<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, outcome, duration) = self.0;
        let title = what.to_string();
        let (outcome, duration) = (outcome.clone(), *duration);
        let (word, remarks) = (word_of(&title), Vec::new());
        CheckResultRow { word, title, outcome, duration, transcript: None, remarks }.fmt(f)
    }
}

/// The number of scenarios that run in parallel: much of their time is waiting.
const PARALLEL: usize = 4;

/// Examines an adapter in all scenarios that it does not do without, several at once, and prints each
/// row of the table as it comes. `make` builds it anew for each, so that it does there what
/// [`Fixture::behaviour`] says.
///
/// # Panics
/// If there is no room for folders, or `make` panics.
pub fn run(options: &Options, make: impl Fn(&Fixture) -> Subject + Sync) -> Report {
    // What this process holds is measured, so nothing else may be held then.
    let (alone, together): (Vec<_>, Vec<_>) =
        Scenario::ALL.into_iter().partition(|scenario| *scenario == Scenario::Flood);
    let mut done = run_some(&together, PARALLEL, options, &make);
    done.extend(run_some(&alone, 1, options, &make));
    done.sort_by_key(|run| run.row.0);
    report(done)
}

/// An adapter in the making, or why there is none.
pub type SubjectFuture = Pin<Box<dyn Future<Output = Result<Subject, String>>>>;

/// The same for an adapter that takes its time to be built: one scenario after the other, and nothing
/// is printed. [`CheckSettings::on_row`] is told of each row as it comes.
///
/// # Panics
/// If there is no room for folders, or `make` panics.
pub async fn run_async(options: &Options, make: &dyn Fn(&Fixture) -> SubjectFuture) -> Report {
    let mut done = Vec::new();
    let mut options = options.clone();
    for scenario in Scenario::ALL {
        if options.settings.includes(scenario.word()) {
            let examined = examine_one(scenario, &options, make).await;
            if scenario == Scenario::Start && examined.is_late {
                // Each of the others would take as long.
                options = options.skip(&Scenario::ALL, "`start` came to no end");
            }
            done.push(examined);
        }
    }
    report(done)
}

/// What came of a scenario.
struct ScenarioRun {
    row: Row<Scenario>,
    /// The adapter's name, if it was learnt.
    name: Option<String>,
    /// Whether it was given up because it took too long.
    is_late: bool,
}

fn report(done: Vec<ScenarioRun>) -> Report {
    let adapter = done.iter().find_map(|run| run.name.clone()).unwrap_or_default();
    Report { adapter, rows: done.into_iter().map(|run| run.row).collect() }
}

#[allow(clippy::print_stdout)]
fn run_some(
    scenarios: &[Scenario],
    at_once: usize,
    options: &Options,
    make: &(impl Fn(&Fixture) -> Subject + Sync),
) -> Vec<ScenarioRun> {
    let next = AtomicUsize::new(0);
    let work = || {
        let make = |fixture: &Fixture| -> SubjectFuture {
            Box::pin(std::future::ready(Ok(make(fixture))))
        };
        let mut done = Vec::new();
        while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("a runtime can be built");
            let examined = runtime.block_on(examine_one(*scenario, options, &make));
            println!("{}", TableRow(&examined.row));
            done.push(examined);
        }
        done
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(work)).collect();
        let done = workers.into_iter().map(std::thread::ScopedJoinHandle::join);
        done.flat_map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

async fn examine_one(
    scenario: Scenario,
    options: &Options,
    make: &dyn Fn(&Fixture) -> SubjectFuture,
) -> ScenarioRun {
    let began = Instant::now();
    let log = TranscriptLog::default();
    let skipped = options.skipped.iter().find(|(skipped, _)| *skipped == scenario);
    let mut is_late = false;
    let (outcome, name) = if let Some((_, why)) = skipped {
        (Outcome::Skipped(why.clone()), None)
    } else {
        let transcribed = |fixture: &Fixture| -> SubjectFuture {
            let (subject, log) = (make(fixture), log.clone());
            Box::pin(async move { Ok(subject.await?.transcribed(log)) })
        };
        let examined = scenarios::run_scenario(scenario, options, &transcribed);
        let limit = options.settings.limit(TIMEOUT);
        match tokio::time::timeout(limit, examined).await {
            Ok(Ok(name)) => (log.violation().map_or(Outcome::Passed, Outcome::Failed), Some(name)),
            Ok(Err(NotPassed::Failed(why))) => (Outcome::Failed(why), None),
            Ok(Err(NotPassed::Unsupported(why))) => (Outcome::Skipped(why), None),
            Err(_) => {
                is_late = true;
                let is_reported = log.has_events() || scenario == Scenario::Check;
                let why = if is_reported { "" } else { "; it sent no event" };
                let warning = log.warning().map(|text| format!("; {text}")).unwrap_or_default();
                let seconds = limit.as_secs_f64();
                (Outcome::Failed(format!("not within {seconds} s{why}{warning}")), None)
            }
        }
    };
    let duration = began.elapsed();
    let (outcome, remarks) = options.settings.with_remarks(outcome, is_late);
    let failed = matches!(outcome, Outcome::Failed(_));
    options.settings.report(&CheckResultRow {
        word: scenario.word().to_owned(),
        title: scenario.to_string(),
        outcome: outcome.clone(),
        duration,
        transcript: failed.then(|| log.text()).filter(|text| !text.is_empty()),
        remarks,
    });
    ScenarioRun { row: (scenario, outcome, duration), name, is_late }
}
