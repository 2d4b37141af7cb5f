//! The thread that reads the runs while the view shows them. Controls have threads of their own: each waits until the
//! run has recorded it.

use std::collections::HashMap;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use ralph_orchestrator_assembly::user_folders::all_states;
use ralph_orchestrator_store::StateDir;
use ralph_orchestrator_story::listing::Listing;
use ralph_orchestrator_story::located_run::LocatedRun;
use ralph_orchestrator_story::tracked_run::{TrackedRun, TrackedState};
use ralph_orchestrator_watch::{Request, RunFacts, RunListItem, Update};

use super::budget_words::BudgetWords;
use super::facts::{facts, phase_of, unreadable};
use super::names::short_names;
use super::requests;
use super::story::{LastWords, StoryWriter};

/// How often the runs are read.
const EVERY: Duration = Duration::from_millis(400);

/// Starts the thread, and returns what it finds and what takes requests.
pub(super) fn start() -> io::Result<(Receiver<Update>, Sender<Request>)> {
    let (requests, asked) = channel();
    let updates = super::spawn("runs", move |updates| {
        Supply::new(updates).run(&asked);
    })?;
    Ok((updates, requests))
}

struct Supply {
    updates: Sender<Update>,
    listing: Listing,
    /// The runs that were listed last.
    listed: Vec<RunListItem>,
    states: HashMap<String, StateDir>,
    chosen: Option<ChosenRun>,
}

/// The run that is shown.
struct ChosenRun {
    key: String,
    tracked: TrackedRun,
    story: StoryWriter,
    words: LastWords,
    budget: BudgetWords,
    /// Nothing of it was sent yet.
    is_new: bool,
    sent: Option<RunFacts>,
}

impl ChosenRun {
    fn new(key: &str, located: LocatedRun) -> Self {
        Self {
            key: key.to_owned(),
            tracked: TrackedRun::new(located),
            story: StoryWriter::new(),
            words: LastWords::default(),
            budget: BudgetWords::default(),
            is_new: true,
            sent: None,
        }
    }
}

/// The view has ended.
struct Ended;

impl Supply {
    fn new(updates: Sender<Update>) -> Self {
        Self {
            updates,
            listing: Listing::default(),
            listed: Vec::new(),
            states: HashMap::new(),
            chosen: None,
        }
    }

    fn run(&mut self, asked: &Receiver<Request>) {
        if self.read_list(true).is_err() {
            return;
        }
        let mut next = Instant::now() + EVERY;
        loop {
            let left = next.saturating_duration_since(Instant::now());
            let done = match asked.recv_timeout(left) {
                Ok(request) => self.perform(request),
                Err(RecvTimeoutError::Timeout) => {
                    let read = self.read_list(false).and_then(|()| self.read_chosen());
                    next = Instant::now() + EVERY;
                    read
                }
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if done.is_err() {
                return;
            }
        }
    }

    fn send(&self, update: Update) -> Result<(), Ended> {
        self.updates.send(update).map_err(|_| Ended)
    }

    /// Reads the list of runs, and sends it if it is another one.
    fn read_list(&mut self, is_first: bool) -> Result<(), Ended> {
        let runs = self.listing.read(all_states());
        let names = short_names(&runs);
        let key = |state: &StateDir| state.layout.root().to_string_lossy().into_owned();
        self.states = runs.iter().map(|run| (key(&run.state_dir), run.state_dir.clone())).collect();
        let items = runs.iter().zip(names).map(|(run, name)| RunListItem {
            key: key(&run.state_dir),
            run: run.run.clone(),
            name,
            phase: phase_of(run.phase, run.is_deferred),
            iterations: run.iterations,
        });
        let items: Vec<RunListItem> = items.collect();
        if items == self.listed && !is_first {
            return Ok(());
        }
        self.listed.clone_from(&items);
        self.send(Update::Runs(items))
    }

    fn perform(&mut self, request: Request) -> Result<(), Ended> {
        match request {
            Request::Choose { key } => {
                self.choose(&key);
                self.read_chosen()
            }
            Request::Reload => {
                let Some(chosen) = self.chosen.take() else { return Ok(()) };
                self.choose(&chosen.key);
                self.read_chosen()
            }
            Request::Diff { key, run, iteration } => {
                self.read_aside(&key, &run, move |located| requests::diff(&located, iteration))
            }
            Request::Transcript { key, run, iteration } => {
                self.read_aside(&key, &run, move |located| {
                    requests::transcript(&located, iteration)
                })
            }
            Request::Control { key, run, control } => {
                self.read_aside(&key, &run, move |located| requests::send(&located, control))
            }
            Request::Quit => Err(Ended),
        }
    }

    /// Does what may take a while in a thread of its own.
    fn read_aside(
        &self,
        key: &str,
        run: &str,
        work: impl FnOnce(LocatedRun) -> Update + Send + 'static,
    ) -> Result<(), Ended> {
        let Some(state) = self.states.get(key) else {
            return self.send(Update::Outcome(Err("the run is gone".to_owned())));
        };
        let located = LocatedRun::from_state_dir(state, run);
        let updates = self.updates.clone();
        // A view that has ended does not want to know any more.
        let started = std::thread::Builder::new()
            .name("request".to_owned())
            .spawn(move || drop(updates.send(work(located))));
        match started {
            Ok(_) => Ok(()),
            Err(error) => self.send(Update::Outcome(Err(error.to_string()))),
        }
    }

    fn choose(&mut self, key: &str) {
        let item = self.listed.iter().find(|item| item.key == key);
        let state = self.states.get(key);
        self.chosen = state
            .zip(item)
            .map(|(state, item)| ChosenRun::new(key, LocatedRun::from_state_dir(state, &item.run)));
    }

    /// Reads what is new of the chosen run; all of another one, if its workspace has another one now.
    fn read_chosen(&mut self) -> Result<(), Ended> {
        let Some(chosen) = &self.chosen else { return Ok(()) };
        let key = chosen.key.clone();
        let is_same = |item: &&RunListItem| item.run == chosen.tracked.located().run;
        let item = self.listed.iter().find(|item| item.key == key);
        if item.is_some() && item.filter(is_same).is_none() {
            self.choose(&key);
        }
        let Some(chosen) = &mut self.chosen else { return Ok(()) };
        let news = chosen.read();
        news.into_iter().try_for_each(|update| self.send(update))
    }
}

impl ChosenRun {
    fn read(&mut self) -> Vec<Update> {
        let story = &mut self.story;
        let read = self.tracked.read(|entry| story.add(entry));
        let facts = match read {
            Ok(TrackedState { selected, damage }) => {
                let running = selected.found.state.running.as_ref();
                let running = running.map(|running| running.iteration);
                let located = self.tracked.located();
                let words = running.and_then(|number| self.words.read(located, number));
                let facts = facts(&selected, self.tracked.story(), damage.as_deref(), words);
                RunFacts { usage: self.budget.add_to(facts.usage), ..facts }
            }
            Err(why) => unreadable(&self.tracked.located().run, &why),
        };
        let mut news = Vec::new();
        let (skipped, lines) = self.story.take();
        let is_first = std::mem::take(&mut self.is_new);
        if is_first || !lines.is_empty() {
            news.push(Update::Story { key: self.key.clone(), is_first, skipped, lines });
        }
        if self.sent.as_ref() != Some(&facts) {
            self.sent = Some(facts.clone());
            news.push(Update::Facts { key: self.key.clone(), facts: Some(Box::new(facts)) });
        }
        news
    }
}
