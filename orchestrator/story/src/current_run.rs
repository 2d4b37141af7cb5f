//! The current run of a state directory, as lists show it.

use jiff::Timestamp;
use ralph_orchestrator_machine::{Record, State, StopKind};
use ralph_orchestrator_store::{Holder, Lock, RunReader, StateDir, StateError, StoredRun};
use ralph_orchestrator_text::{local_minute, one_line, shorten_home, timestamp};
use serde_json::{Value, json};

use crate::status::phase;
use crate::whole_state::whole_state;
use crate::words::cost;

/// The current run of a state directory.
pub struct CurrentRun {
    state_dir: StateDir,
    run: String,
    phase: &'static str,
    holder: Option<Holder>,
    started: Option<Timestamp>,
    /// Since when it is in this phase.
    since: Option<Timestamp>,
    /// `None` if it cannot be read.
    state: Option<State>,
    damage: Option<StateError>,
}

/// Reads the current run of a state directory again and again, each time only what was appended.
pub struct CurrentRunReader {
    reader: RunReader,
    /// The run that was read last.
    run: String,
    /// When its last pause began.
    paused: Option<Timestamp>,
}

impl CurrentRunReader {
    /// Returns a reader that has read nothing yet.
    pub fn new(state_dir: &StateDir) -> Self {
        Self { reader: RunReader::new(&state_dir.layout), run: String::new(), paused: None }
    }

    /// Returns the row; `None` if there is no run yet.
    pub fn read(&mut self, state_dir: &StateDir) -> Option<CurrentRun> {
        let holder = Lock::holder(&state_dir.layout);
        let mut paused = None;
        let read = self.reader.read(|entry| {
            if matches!(entry.record, Record::Paused { .. }) {
                paused = Some(entry.time);
            }
        });
        let run = match read {
            Ok(run) => run?.to_owned(),
            Err(error) => return Some(CurrentRun::damaged(state_dir, holder, error)),
        };
        // Of another run all records were new.
        self.paused = paused.or(self.paused.filter(|_| self.run == run));
        self.run = run;
        let found = self.reader.stored_run()?;
        Some(CurrentRun::of(state_dir, holder, found, self.paused))
    }
}

impl CurrentRun {
    /// Reads it once; `None` if there is no run yet.
    pub fn read(state_dir: &StateDir) -> Option<Self> {
        CurrentRunReader::new(state_dir).read(state_dir)
    }

    fn of(
        state_dir: &StateDir,
        holder: Option<Holder>,
        found: StoredRun,
        paused: Option<Timestamp>,
    ) -> Self {
        let whole = whole_state(&state_dir.layout, &found).into_owned();
        let phase = phase(&whole, holder.is_some());
        let since = match phase {
            "paused" => paused,
            "running" => holder.as_ref().and_then(|holder| holder.started),
            _ => found.ended,
        };
        Self {
            run: found.run,
            phase,
            since: since.or(found.ended),
            started: found.started,
            state: Some(whole),
            damage: None,
            state_dir: state_dir.clone(),
            holder,
        }
    }

    fn damaged(state_dir: &StateDir, holder: Option<Holder>, error: StateError) -> Self {
        Self {
            run: state_dir.run().unwrap_or_default(),
            phase: "damaged",
            since: None,
            started: None,
            state: None,
            damage: Some(error),
            state_dir: state_dir.clone(),
            holder,
        }
    }

    /// Returns the state directory.
    pub const fn state_dir(&self) -> &StateDir {
        &self.state_dir
    }

    /// Returns the run's id.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// Returns the word that `status` has for its phase.
    pub const fn phase(&self) -> &'static str {
        self.phase
    }

    /// Returns the state; `None` if it cannot be read.
    pub const fn state(&self) -> Option<&State> {
        self.state.as_ref()
    }

    /// Whether it cannot be read.
    pub const fn is_damaged(&self) -> bool {
        self.damage.is_some()
    }

    /// Its place among others: active ones come last, then the newest.
    pub const fn order(&self) -> (bool, Option<Timestamp>) {
        (self.holder.is_some(), self.since)
    }

    /// Returns it as `runs --all --json` prints it.
    pub fn object(&self) -> Value {
        let (state, owner) = (self.state.as_ref(), &self.state_dir.owner);
        json!({
            "workspace": owner.workspace(),
            "configuration": owner.configuration(),
            "task": owner.task(),
            "run": self.run,
            "phase": self.phase,
            "stop_reason": state.and_then(|state| state.stop.as_ref()).map(|stop| stop.reason),
            "waits_for": self.waits_for(),
            "pid": self.holder.as_ref().map(|holder| holder.pid),
            "started": self.started,
            "since": self.since,
            "iterations": state.map(|state| state.iterations),
            "cost_usd": state.and_then(State::known_cost),
            "cost_reported": state.map(|state| state.budget.cost_reported),
            "damage": self.damage.as_ref().map(ToString::to_string),
            "state_dir": self.state_dir.layout.root(),
        })
    }

    /// What has to happen before it goes on; `None` if it is complete, or works.
    fn waits_for(&self) -> Option<String> {
        if let Some(damage) = &self.damage {
            return Some(one_line(&damage.to_string(), 200));
        }
        let state = self.state.as_ref()?;
        let stop = state.stop.as_ref();
        Some(match self.phase {
            "paused" => "`resume`".to_owned(),
            "running" => {
                let wait = state.waiting.as_ref()?;
                let until = timestamp(wait.until_ms).map_or_else(String::new, local_minute);
                format!("the provider, until {until}")
            }
            "needs_human" => {
                format!("a person: {}", one_line(&stop?.message, 200))
            }
            "interrupted" => "`run`".to_owned(),
            "stopped" if stop?.reason.kind() == StopKind::Human => "`run`".to_owned(),
            "stopped" => format!("a person: {}", one_line(&stop?.message, 200)),
            _ => return None,
        })
    }

    /// Returns the workspace, and where that does not tell runs apart the task or the configuration.
    pub fn workspace(&self) -> String {
        self.named(&shorten_home(&self.state_dir.owner.workspace().unwrap_or_default()))
    }

    /// Returns the same with the last part of the workspace's path only.
    pub fn short_workspace(&self) -> String {
        let workspace = self.state_dir.owner.workspace().unwrap_or_default();
        self.named(&workspace.file_name().unwrap_or_default().to_string_lossy())
    }

    fn named(&self, name: &str) -> String {
        let owner = &self.state_dir.owner;
        match (owner.task(), owner.configuration()) {
            (Some(task), _) => format!("{name} ({task})"),
            // Of several configurations, the name tells them apart.
            (None, Some(file)) if !file.ends_with("ralph.toml") => {
                let file = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
                format!("{name} ({file})")
            }
            _ => name.to_owned(),
        }
    }

    /// Returns the cells of its row in a table.
    pub fn cells(&self) -> [String; 6] {
        let state = self.state.as_ref();
        let dash = || "-".to_owned();
        let spent = state.map(|state| {
            cost(state.cost(), state.budget.cost_reported, state.budget.cost_estimated)
        });
        [
            one_line(&self.workspace(), 200),
            self.phase.replace('_', " "),
            state.map_or_else(dash, |state| state.iterations.to_string()),
            spent.map_or_else(dash, |spent| spent.replace("cost not reported", "-")),
            self.since.map_or_else(dash, local_minute),
            self.waits_for().unwrap_or_else(dash),
        ]
    }
}
