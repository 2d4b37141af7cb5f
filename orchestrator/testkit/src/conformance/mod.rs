//! What has to hold for every adapter, whoever wrote it, examined by one call.
//!
//! [`run`] has the adapter work in one [`Scenario`] after the other, each in a workspace of its own. An
//! adapter for an agent that asks a model needs to tell the agent where the model is ([`Stage::model`]):
//! it does then what the scenario wants. Another one builds something that does ([`Act`]).
//!
//! That no event comes after the end needs no scenario: the sink is only lent to the adapter.
//!
//! ```
//! use ralph_orchestrator_contract::{Agent, AgentError, Capabilities, Description, ErrorClass, Event, EventSink};
//! use ralph_orchestrator_contract::{Iteration, Report, async_trait};
//! use ralph_orchestrator_testkit::conformance::{self, Act, Cast, Options, Scenario};
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
//!     (&Scenario::WITH_MODEL[..], "it asks no model"),
//!     (&Scenario::WHEN_SLOW[..], "it is done at once"),
//! ] {
//!     options = options.without(scenarios, why);
//! }
//! let report = conformance::run(&options, |stage| {
//!     let text = match &stage.act {
//!         Act::Says { text } => text.clone(),
//!         _ => "no".into(),
//!     };
//!     Cast::new(Parrot(text))
//! });
//! report.assert();
//! ```

mod judges;
mod scenarios;
mod stage;

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

pub use judges::{Built, Judged, Later, Maker, Place, detector, validator};
pub use stage::{Act, Cast, Stage, with_claude, with_codex};

/// No scenario takes longer, unless something hangs.
const PATIENCE: Duration = Duration::from_secs(180);

/// What is examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scenario {
    /// `check()` says the same twice, spends nothing, changes nothing and leaves nothing.
    Check,
    /// A message becomes the final text; nothing is left.
    Start,
    /// The session comes before what happens in it; each result follows its call, once.
    Order,
    /// A prompt of [`Options::prompt_max`] bytes arrives as it is.
    LongPrompt,
    /// A prompt that is no UTF-8 is worked on or refused.
    BadPrompt,
    /// A tool prints what is no UTF-8.
    BadOutput,
    /// A tool prints 64 MiB: no event is large, and memory does not grow with it.
    Flood,
    /// The end is wanted before it began.
    CancelBefore,
    /// The end is wanted at the first event.
    CancelAtFirstEvent,
    /// The end is wanted while nothing comes.
    Deadline,
    /// The end is wanted in the middle of a message.
    CancelInMessage,
    /// The end is wanted while a tool runs that has started processes of its own.
    CancelInTool,
    /// The future is dropped while a tool runs.
    Drop,
    /// A tool leaves a process in a session of its own.
    TreeEnd,
    /// Figures only grow, and are the model's in the end.
    Usage,
    /// The provider refuses for now (429).
    RateLimited,
    /// The provider does not know the key (401).
    Unauthenticated,
    /// The provider refuses the request (400).
    InvalidRequest,
    /// The provider fails (500): overloaded, or a crash.
    ProviderFails,
}

impl Scenario {
    /// All of them, in the order in which they are run.
    pub const ALL: [Self; 19] = [
        Self::Check,
        Self::Start,
        Self::Order,
        Self::LongPrompt,
        Self::BadPrompt,
        Self::BadOutput,
        Self::Flood,
        Self::CancelBefore,
        Self::CancelAtFirstEvent,
        Self::Deadline,
        Self::CancelInMessage,
        Self::CancelInTool,
        Self::Drop,
        Self::TreeEnd,
        Self::Usage,
        Self::RateLimited,
        Self::Unauthenticated,
        Self::InvalidRequest,
        Self::ProviderFails,
    ];
    /// Those that need an agent that runs commands.
    pub const WITH_TOOLS: [Self; 6] =
        [Self::Order, Self::BadOutput, Self::Flood, Self::CancelInTool, Self::Drop, Self::TreeEnd];
    /// Those that need an agent that asks the model of the stage.
    pub const WITH_MODEL: [Self; 5] = [
        Self::Usage,
        Self::RateLimited,
        Self::Unauthenticated,
        Self::InvalidRequest,
        Self::ProviderFails,
    ];
    /// Those that need an agent that can be slow.
    pub const WHEN_SLOW: [Self; 3] =
        [Self::CancelAtFirstEvent, Self::Deadline, Self::CancelInMessage];
}

impl Scenario {
    /// One stable word, for configurations.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Start => "start",
            Self::Order => "order",
            Self::LongPrompt => "long-prompt",
            Self::BadPrompt => "bad-prompt",
            Self::BadOutput => "bad-output",
            Self::Flood => "flood",
            Self::CancelBefore => "cancel-before",
            Self::CancelAtFirstEvent => "cancel-at-first-event",
            Self::Deadline => "deadline",
            Self::CancelInMessage => "cancel-in-message",
            Self::CancelInTool => "cancel-in-tool",
            Self::Drop => "drop",
            Self::TreeEnd => "tree-end",
            Self::Usage => "usage",
            Self::RateLimited => "rate-limited",
            Self::Unauthenticated => "unauthenticated",
            Self::InvalidRequest => "invalid-request",
            Self::ProviderFails => "provider-fails",
        }
    }

    /// The scenario of that word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scenario| scenario.word() == word)
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Check => "check",
            Self::Start => "start",
            Self::Order => "order of events",
            Self::LongPrompt => "long prompt",
            Self::BadPrompt => "prompt no UTF-8",
            Self::BadOutput => "output no UTF-8",
            Self::Flood => "64 MiB of output",
            Self::CancelBefore => "cancel before start",
            Self::CancelAtFirstEvent => "cancel at first event",
            Self::Deadline => "deadline",
            Self::CancelInMessage => "cancel in a message",
            Self::CancelInTool => "cancel in a tool",
            Self::Drop => "future dropped",
            Self::TreeEnd => "tree ended",
            Self::Usage => "usage",
            Self::RateLimited => "429 rate limited",
            Self::Unauthenticated => "401 unauthenticated",
            Self::InvalidRequest => "400 invalid request",
            Self::ProviderFails => "500 provider fails",
        })
    }
}

/// What is expected of the adapter.
#[derive(Clone, Debug)]
pub struct Options {
    without: Vec<(Scenario, String)>,
    prompt_max: usize,
    supervised: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { without: Vec::new(), prompt_max: 2 * 1024 * 1024, supervised: true }
    }
}

impl Options {
    /// Does not expect these, for this reason, which the report shows.
    #[must_use]
    pub fn without(mut self, scenarios: &[Scenario], why: &str) -> Self {
        self.without.extend(scenarios.iter().map(|scenario| (*scenario, why.to_owned())));
        self
    }

    /// The longest prompt that has to arrive, in bytes; 2 MiB by default.
    #[must_use]
    pub const fn prompt_max(mut self, bytes: usize) -> Self {
        self.prompt_max = bytes;
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

/// What became of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It holds.
    Passed,
    /// It does not, and why.
    Failed(String),
    /// The adapter does without, for this reason.
    Without(String),
}

/// What became of all of them; shown as a table.
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
        self.rows.iter().try_for_each(|row| writeln!(f, "{}", Line(row)))
    }
}

/// What was examined, what came of it, and how long it took.
type Row<T> = (T, Outcome, Duration);

/// A row of the table.
struct Line<'a, T>(&'a Row<T>);

impl<T: fmt::Display> fmt::Display for Line<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, outcome, took) = self.0;
        let (word, why) = match outcome {
            Outcome::Passed => ("passed", ""),
            Outcome::Failed(why) => ("FAILED", why.as_str()),
            Outcome::Without(why) => ("without", why.as_str()),
        };
        let seconds = took.as_secs_f64();
        write!(f, "  {what:<22} {word:<8} {seconds:>6.1} s  {why}")
    }
}

/// How many scenarios are run at once: much of their time, an agent starts or has a grace.
const AT_ONCE: usize = 4;

/// Examines an adapter in all scenarios that it does not do without, several at once, and prints each
/// row of the table as it comes. `make` builds it anew for each, so that it does there what
/// [`Stage::act`] says.
///
/// # Panics
/// If there is no room for folders, or `make` panics.
pub fn run(options: &Options, make: impl Fn(&Stage) -> Cast + Sync) -> Report {
    // What this process holds is measured, so nothing else may be held then.
    let (alone, together): (Vec<_>, Vec<_>) =
        Scenario::ALL.into_iter().partition(|scenario| *scenario == Scenario::Flood);
    let mut done = run_some(&together, AT_ONCE, options, &make);
    done.extend(run_some(&alone, 1, options, &make));
    done.sort_by_key(|(row, _)| row.0);
    report(done)
}

/// An adapter in the making, or why there is none.
pub type Making = Pin<Box<dyn Future<Output = Result<Cast, String>>>>;

/// The same for an adapter that takes its time to be built: one scenario after the other, and nothing
/// is printed.
///
/// # Panics
/// If there is no room for folders, or `make` panics.
pub async fn examine(options: &Options, make: &dyn Fn(&Stage) -> Making) -> Report {
    let mut done = Vec::new();
    for scenario in Scenario::ALL {
        done.push(examine_one(scenario, options, make).await);
    }
    report(done)
}

/// The row of a scenario, and the adapter's name if it was learnt.
type Examined = (Row<Scenario>, Option<String>);

fn report(done: Vec<Examined>) -> Report {
    let adapter = done.iter().find_map(|(_, name)| name.clone()).unwrap_or_default();
    Report { adapter, rows: done.into_iter().map(|(row, _)| row).collect() }
}

#[allow(clippy::print_stdout)]
fn run_some(
    scenarios: &[Scenario],
    at_once: usize,
    options: &Options,
    make: &(impl Fn(&Stage) -> Cast + Sync),
) -> Vec<Examined> {
    let next = AtomicUsize::new(0);
    let work = || {
        let make = |stage: &Stage| -> Making { Box::pin(std::future::ready(Ok(make(stage)))) };
        let mut done = Vec::new();
        while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("a runtime can be built");
            let examined = runtime.block_on(examine_one(*scenario, options, &make));
            println!("{}", Line(&examined.0));
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
    make: &dyn Fn(&Stage) -> Making,
) -> Examined {
    let began = Instant::now();
    let without = options.without.iter().find(|(without, _)| *without == scenario);
    let (outcome, name) = if let Some((_, why)) = without {
        (Outcome::Without(why.clone()), None)
    } else {
        let examined = scenarios::examine(scenario, options, make);
        match tokio::time::timeout(PATIENCE, examined).await {
            Ok(Ok(name)) => (Outcome::Passed, Some(name)),
            Ok(Err(why)) => (Outcome::Failed(why), None),
            Err(_) => (Outcome::Failed(format!("not within {} s", PATIENCE.as_secs())), None),
        }
    };
    ((scenario, outcome, began.elapsed()), name)
}
