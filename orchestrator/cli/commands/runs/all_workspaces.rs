//! The current run of every workspace of this user.

use std::cmp::Reverse;

use jiff::Timestamp;
use ralph_orchestrator_core::machine::{Record, State, StopReason};
use ralph_orchestrator_core::store::{Holder, Layout, Lock, RunReader, StateDir, StateError};
use serde_json::{Value, json};

use crate::commands::status::phase;
use crate::error::exit;
use crate::output;
use crate::render::terminal::{columns, fit, stdout_width};
use crate::render::text::{cost, local_minute, one_line, shorten_home, timestamp};
use crate::workspace_selection::all_states;

/// Columns of what a run waits for that every table has room for.
const LEAST_WAIT: usize = 12;
const GAP: usize = 2;

/// Lists the runs: first those that are active, then the others, the newest first.
pub(super) fn list(is_json: bool) -> u8 {
    let mut rows: Vec<Row> = all_states().iter().filter_map(Row::read).collect();
    rows.sort_by_key(|row| Reverse(row.order()));
    if is_json {
        output::json(&rows.iter().map(Row::object).collect::<Vec<Value>>());
    } else if rows.is_empty() {
        output::result("no run of this user yet");
    } else {
        table(&rows, stdout_width()).iter().for_each(|line| output::result(line));
    }
    exit::OK
}

/// The current run of a state directory.
pub(crate) struct Row {
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
pub(crate) struct RowReader {
    reader: RunReader,
    /// When the last pause began.
    paused: Option<Timestamp>,
}

impl RowReader {
    pub(crate) fn new(layout: &Layout) -> Self {
        Self { reader: RunReader::new(layout), paused: None }
    }

    /// Returns the run as it is now; `None` if there is none.
    pub(crate) fn read(&mut self, state_dir: &StateDir) -> Option<Row> {
        let holder = Lock::holder(&state_dir.layout);
        let paused = &mut self.paused;
        let read = self.reader.read(|entry| match entry.record {
            // Another run than before.
            Record::RunStarted(_) => *paused = None,
            Record::Paused { .. } => *paused = Some(entry.time),
            _ => {}
        });
        let read = read.map(|run| run.is_some());
        let state_dir = state_dir.clone();
        Some(match read {
            Ok(false) => return None,
            Ok(true) => {
                let found = self.reader.stored_run()?;
                let phase = phase(&found.state, holder.is_some());
                let since = match phase {
                    "paused" => self.paused,
                    "running" => holder.as_ref().and_then(|holder| holder.started),
                    _ => found.ended,
                };
                Row {
                    run: found.run,
                    phase,
                    since: since.or(found.ended),
                    started: found.started,
                    state: Some(found.state),
                    damage: None,
                    state_dir,
                    holder,
                }
            }
            Err(error) => Row {
                run: state_dir.run().unwrap_or_default(),
                phase: "damaged",
                since: None,
                started: None,
                state: None,
                damage: Some(error),
                state_dir,
                holder,
            },
        })
    }
}

impl Row {
    /// Whether a process works on it.
    pub(crate) const fn is_active(&self) -> bool {
        self.holder.is_some()
    }

    /// Whether it cannot be read.
    pub(crate) const fn is_damaged(&self) -> bool {
        self.damage.is_some()
    }

    fn read(state_dir: &StateDir) -> Option<Self> {
        RowReader::new(&state_dir.layout).read(state_dir)
    }

    /// Its place among others: active ones come last, then the newest.
    pub(crate) const fn order(&self) -> (bool, Option<Timestamp>) {
        (self.holder.is_some(), self.since)
    }

    /// Returns it as `runs --all --json` prints it.
    pub(crate) fn object(&self) -> Value {
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
            "cost_usd": state.map(State::cost),
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
            "stopped" if stop?.reason == StopReason::NeedsHuman => "`run`".to_owned(),
            "stopped" => format!("a person: {}", one_line(&stop?.message, 200)),
            _ => return None,
        })
    }

    fn workspace(&self) -> String {
        let owner = &self.state_dir.owner;
        let workspace = owner.workspace().unwrap_or_default();
        let name = shorten_home(&workspace);
        match (owner.task(), owner.configuration()) {
            (Some(task), _) => format!("{name} ({task})"),
            // Of several configurations, the name tells them apart.
            (None, Some(file)) if !file.ends_with("ralph.toml") => {
                let file = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
                format!("{name} ({file})")
            }
            _ => name,
        }
    }

    fn cells(&self) -> [String; 6] {
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

/// A table with a heading; what a run waits for takes what is left of the terminal's width.
fn table(rows: &[Row], width: Option<usize>) -> Vec<String> {
    let mut cells =
        vec![["WORKSPACE", "STATE", "ITER", "COST", "SINCE", "WAITS FOR"].map(str::to_owned)];
    cells.extend(rows.iter().map(Row::cells));
    let mut widths = [0; 6];
    for row in &cells {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = columns(cell).max(*width);
        }
    }
    if let Some(width) = width {
        let [workspace, rest @ .., waits] = &mut widths;
        let fixed: usize = rest.iter().sum::<usize>() + GAP * 5;
        let left = width.saturating_sub(fixed);
        *workspace = (*workspace).min(left.saturating_sub(LEAST_WAIT).max(LEAST_WAIT));
        *waits = (*waits).min(left.saturating_sub(*workspace).max(LEAST_WAIT));
    }
    let line = |row: &[String; 6]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| {
            let cell = fit(cell, width);
            let pad = " ".repeat(width.saturating_sub(columns(&cell)));
            format!("{cell}{pad}")
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    cells.iter().map(line).collect()
}
