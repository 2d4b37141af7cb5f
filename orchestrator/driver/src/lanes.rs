//! The loop over the items that are worked on at once, each in a lane.
//!
//! All runs and the merge are polled by one task. What is complete in its lane is merged one after the other; an item depends on the
//! merge of another, since only that completes it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll};

use ralph_orchestrator_backlog::{BacklogItem, NextItem};
use ralph_orchestrator_machine::{HookEvent, State, StopReason};
use ralph_orchestrator_store::Lock;

use crate::choice::{blocked, complete};
use crate::driver::{BacklogDriver, BacklogEnd, ended, read_state, stopped};
use crate::error::DriverError;
use crate::executor::{Executor, RunReport};
use crate::lane::{LaneSetup, LaneStart};
use crate::lane_budget::{Grant, Reservation};
use crate::lane_run::{LaneOrder, LaneRun, RunEnd};
use crate::ledger::{ItemRun, MergeState, MergeStep, OpenLane};
use crate::merging::{MergeEnd, Merging};
use crate::record::SeriesRecord;
use crate::stop::Stop;

/// A run that goes on.
struct GoingRun<'a, E> {
    item: BacklogItem,
    grant: Grant,
    future: Pin<Box<dyn Future<Output = Result<RunEnd, E>> + 'a>>,
    /// How it ended, until that is recorded.
    ended: Option<Result<RunEnd, E>>,
}

/// A merge that goes on.
type GoingMerge<'a> = Pin<Box<dyn Future<Output = (ItemRun, Result<MergeEnd, DriverError>)> + 'a>>;

/// What goes on at once, and what is not to begin any more.
struct Going<'a, E> {
    runs: Vec<GoingRun<'a, E>>,
    merge: Option<GoingMerge<'a>>,
    /// Why nothing further begins.
    end: Option<LaneEnd<E>>,
    /// The items that wait for a person or another start, with why.
    parked: Vec<(String, Stop)>,
}

/// Why the work in lanes ends.
enum LaneEnd<E> {
    Failed(E),
    Withheld(u8),
    Stopped(Stop),
}

/// What happened next.
enum Happened {
    /// At least one run has ended.
    Runs,
    Merge(Box<ItemRun>, Result<MergeEnd, DriverError>),
    /// Something failed, or a person decided about an item.
    Woken,
}

impl<E> Going<'_, E> {
    fn is_over(&self) -> bool {
        self.runs.is_empty() && self.merge.is_none()
    }

    fn poll_runs(&mut self, context: &mut TaskContext<'_>) {
        for run in self.runs.iter_mut().filter(|run| run.ended.is_none()) {
            if let Poll::Ready(ended) = run.future.as_mut().poll(context) {
                run.ended = Some(ended);
            }
        }
    }

    /// Waits for something else, while the runs go on.
    async fn beside<T>(&mut self, other: impl Future<Output = T>) -> T {
        tokio::pin!(other);
        poll_fn(|context| {
            self.poll_runs(context);
            other.as_mut().poll(context)
        })
        .await
    }

    /// Takes a run that has ended.
    fn take_ended(&mut self) -> Option<(BacklogItem, Grant, Result<RunEnd, E>)> {
        let index = self.runs.iter().position(|run| run.ended.is_some())?;
        let GoingRun { item, grant, ended, .. } = self.runs.swap_remove(index);
        ended.map(|ended| (item, grant, ended))
    }

    fn works_on(&self, item: &str) -> bool {
        self.runs.iter().any(|run| run.item.id == item)
    }

    fn is_parked(&self, item: &str) -> bool {
        self.parked.iter().any(|(parked, _)| parked == item)
    }

    fn reservations(&self) -> Vec<Reservation> {
        let reserve = |run: &GoingRun<'_, E>| Reservation {
            item: run.item.id.clone(),
            limits: run.grant.limits.clone(),
        };
        self.runs.iter().map(reserve).collect()
    }
}

impl<E: Executor> BacklogDriver<E> {
    /// Works on several items at once until nothing can be worked on, or a stop is requested.
    pub(crate) async fn work_in_lanes(&mut self, lanes: LaneSetup) -> Result<BacklogEnd, E::Error> {
        let _held = lanes.places.hold().map_err(DriverError::from)?;
        self.open_series()?;
        self.recover_lanes(&lanes).await?;
        self.warn_of_unread()?;
        let merging = Merging {
            places: Rc::clone(&lanes.places),
            work: self.work.clone(),
            observer: self.observer.clone(),
        };
        let mut going = Going { runs: Vec::new(), merge: None, end: None, parked: Vec::new() };
        loop {
            let is_stopping = self.executor.is_stopping();
            if going.end.is_none() && !is_stopping {
                let begun = self.begin_more(&lanes, &merging, &mut going);
                begun.unwrap_or_else(|error| self.fail(&mut going, error.into()));
            }
            if going.is_over() {
                break;
            }
            match self.next(&mut going).await {
                Happened::Runs => {
                    while let Some((item, grant, ended)) = going.take_ended() {
                        self.end_run(&mut going, (item, grant), ended);
                    }
                }
                Happened::Merge(entry, ended) => {
                    going.merge = None;
                    match going.beside(self.end_merge(&lanes, &entry, ended)).await {
                        Ok(stop) => going.parked.extend(stop.map(|stop| (entry.item, stop))),
                        Err(error) => self.fail(&mut going, error.into()),
                    }
                }
                Happened::Woken => self.cancel_ended(&mut going),
            }
        }
        match going.end {
            Some(LaneEnd::Failed(error)) => Err(error),
            Some(LaneEnd::Withheld(status)) => Ok(BacklogEnd::Withheld(status)),
            Some(LaneEnd::Stopped(stop)) => Ok(self.stop(stop)?),
            None => {
                let stop = self.find_lane_stop(going.parked)?;
                Ok(self.stop(stop)?)
            }
        }
    }

    /// Begins a merge and as many runs as may go on beside those that do.
    fn begin_more<'a>(
        &mut self,
        lanes: &LaneSetup,
        merging: &Merging,
        going: &mut Going<'a, E::Error>,
    ) -> Result<(), DriverError>
    where
        E: 'a,
    {
        if going.merge.is_none()
            && let Some(entry) = self.find_unmerged(going)
        {
            let merging = merging.clone();
            going.merge = Some(Box::pin(async move {
                let ended = Box::pin(merging.merge(&entry)).await;
                (entry, ended)
            }));
        }
        self.unpark_answered(going)?;
        if self.is_paused(going)? {
            return Ok(());
        }
        let max = if self.setup.once { 1 } else { lanes.max };
        while going.runs.len() < max && (!self.setup.once || self.is_first) {
            if self.work.state().waits_for_start && !going.runs.is_empty() {
                break;
            }
            let Some((item, resume, candidates)) = self.choose_lane_item(going)? else { break };
            let free = (max - going.runs.len()).min(candidates);
            let reserved = going.reservations();
            let Some(grant) =
                self.grant(&item.id, resume.as_ref(), (&reserved, free, candidates > 1))?
            else {
                break;
            };
            self.begin_lanes(lanes)?;
            let is_first = std::mem::take(&mut self.is_first);
            self.work.state().waits_for_start = is_first && self.has_commands_at_start();
            let order = LaneOrder {
                item: item.clone(),
                resume: resume.map(|entry| entry.run),
                limits: grant.limits.clone(),
                is_first,
                once: self.setup.once,
            };
            let run = LaneRun::new(self, Rc::clone(&lanes.places));
            let future = Box::pin(run.perform(order));
            going.runs.push(GoingRun { item, grant, future, ended: None });
        }
        Ok(())
    }

    fn has_commands_at_start(&self) -> bool {
        let hooks = self.setup.hooks.as_ref();
        hooks.is_some_and(|hooks| !hooks.commands(HookEvent::BeforeRun).is_empty())
    }

    /// Has the items go on whose questions were answered meanwhile.
    fn unpark_answered(&self, going: &mut Going<'_, E::Error>) -> Result<(), DriverError> {
        let mut parked = Vec::new();
        for (item, stop) in std::mem::take(&mut going.parked) {
            let is_question = stop.reason == StopReason::NeedsHuman && !self.is_held(&item);
            let state = if is_question { self.read_latest(&item)? } else { None };
            let is_answered = state.is_some_and(|state| {
                state.question().is_none() && state.open_answers().any(|it| it.question.is_some())
            });
            if !is_answered {
                parked.push((item, stop));
            }
        }
        going.parked = parked;
        Ok(())
    }

    /// Returns whether all that goes on is paused: then nothing further begins.
    fn is_paused(&self, going: &Going<'_, E::Error>) -> Result<bool, DriverError> {
        for run in &going.runs {
            let state = self.read_latest(&run.item.id)?;
            if !state.is_some_and(|state| state.is_pause_requested()) {
                return Ok(false);
            }
        }
        Ok(!going.runs.is_empty())
    }

    /// Returns whether anybody holds the run of an item, as whoever writes an answer into it.
    fn is_held(&self, item: &str) -> bool {
        let state = self.work.state();
        let entry = state.ledger.latest_of(item);
        entry.is_some_and(|entry| Lock::holder(&entry.layout(&self.setup.layout)).is_some())
    }

    /// Returns the state of the run that was begun last for an item.
    fn read_latest(&self, item: &str) -> Result<Option<State>, DriverError> {
        let Some(entry) = self.work.state().ledger.latest_of(item).cloned() else {
            return Ok(None);
        };
        read_state(&entry.layout(&self.setup.layout), &entry.run)
    }

    /// Records that the work begins, and onto which branch lanes are merged.
    fn begin_lanes(&mut self, lanes: &LaneSetup) -> Result<(), DriverError> {
        self.begin_series()?;
        // What it was wanted for is done: nothing of a run before is resumed in a lane.
        self.setup.restart = false;
        let trunk = lanes.places.trunk();
        let mut state = self.work.state();
        if state.ledger.trunk.as_ref() != Some(&trunk) {
            state.append(&SeriesRecord::LanesStarted { trunk })?;
        }
        Ok(())
    }

    /// Returns the next item to begin, with its run to be resumed, and how many could begin.
    fn choose_lane_item(
        &mut self,
        going: &Going<'_, E::Error>,
    ) -> Result<Option<(BacklogItem, Option<ItemRun>, usize)>, DriverError> {
        let snapshot = self.load()?;
        let ledger = self.work.state().ledger.clone();
        let is_waiting = |id: &str| {
            let waits = |entry: &ItemRun| entry.item == id && !entry.is_written;
            ledger.unmerged().any(waits)
                || ledger
                    .runs
                    .iter()
                    .any(|entry| waits(entry) && entry.merged == MergeState::Merged)
        };
        let mut free: Vec<&BacklogItem> = snapshot
            .selectable()
            .filter(|item| {
                !going.works_on(&item.id) && !going.is_parked(&item.id) && !is_waiting(&item.id)
            })
            .collect();
        // What was begun comes first, also where the format cannot say so.
        free.sort_by(|one, other| {
            let is_new = |item: &BacklogItem| !ledger.lanes.contains_key(&item.id);
            is_new(one).cmp(&is_new(other)).then_with(|| snapshot.order.compare(one, other))
        });
        let Some(item) = free.first().map(|item| (*item).clone()) else { return Ok(None) };
        // Items that were added after everything was complete are new work.
        self.begins |= ledger.is_complete();
        let resume = ledger.unfinished_of(&item.id).filter(|entry| entry.state.is_some());
        let resume = resume.filter(|_| !self.begins).cloned();
        Ok(Some((item, resume, free.len())))
    }

    /// Returns a run whose work is to be merged, in the order in which they were complete.
    fn find_unmerged(&self, going: &Going<'_, E::Error>) -> Option<ItemRun> {
        // What was complete before a new beginning is no part of it.
        if self.begins {
            return None;
        }
        let ledger = &self.work.state().ledger;
        let mut unmerged = ledger.unmerged().filter(|entry| !going.is_parked(&entry.item));
        unmerged.next().cloned()
    }

    /// Waits until something happens.
    async fn next(&self, going: &mut Going<'_, E::Error>) -> Happened {
        let woken = self.work.ending.notified();
        tokio::pin!(woken);
        poll_fn(|context| {
            if woken.as_mut().poll(context).is_ready() {
                return Poll::Ready(Happened::Woken);
            }
            going.poll_runs(context);
            if going.runs.iter().any(|run| run.ended.is_some()) {
                return Poll::Ready(Happened::Runs);
            }
            if let Some(merge) = &mut going.merge
                && let Poll::Ready((entry, ended)) = merge.as_mut().poll(context)
            {
                return Poll::Ready(Happened::Merge(Box::new(entry), ended));
            }
            Poll::Pending
        })
        .await
    }

    /// Cancels the runs that are not to go on: all of them if something failed.
    fn cancel_ended(&self, going: &mut Going<'_, E::Error>) {
        if let Some(failure) = self.work.state().failure.take() {
            self.fail(going, failure.into());
            return;
        }
        let ledger = self.work.state().ledger.clone();
        for run in &going.runs {
            if ledger.set_aside.contains_key(&run.item.id)
                && let Some(entry) = ledger.latest_of(&run.item.id)
            {
                self.executor.cancel(&entry.run);
            }
        }
    }

    /// Ends all that goes on, and then the work.
    fn fail(&self, going: &mut Going<'_, E::Error>, error: E::Error) {
        if going.end.is_none() {
            going.end = Some(LaneEnd::Failed(error));
        }
        let ledger = self.work.state().ledger.clone();
        let runs = going.runs.iter().filter_map(|run| ledger.latest_of(&run.item.id));
        runs.for_each(|entry| self.executor.cancel(&entry.run));
    }

    /// Leaves an item to a person whose question is open; else nothing further begins.
    fn withhold(&self, going: &mut Going<'_, E::Error>, item: BacklogItem, status: u8) {
        let state = self.read_latest(&item.id).ok().flatten();
        match state.as_ref().and_then(|state| state.question().map(str::to_owned)) {
            Some(question) => {
                let text = format!("item `{}`: {question}", item.id);
                let mut stop = Stop::new(StopReason::NeedsHuman, text);
                stop.state = state.map(Box::new);
                going.parked.push((item.id, stop));
            }
            None => {
                going.end.get_or_insert(LaneEnd::Withheld(status));
            }
        }
    }

    /// Records how a run in a lane ended. Only a latch completes it, and only its merge completes the item.
    fn end_run(
        &mut self,
        going: &mut Going<'_, E::Error>,
        (item, grant): (BacklogItem, Grant),
        ended: Result<RunEnd, E::Error>,
    ) {
        let report = match ended {
            Ok(RunEnd::Ended(report)) => report,
            Ok(RunEnd::Withheld(status)) => return self.withhold(going, item, status),
            Err(error) => return self.fail(going, error),
        };
        if let Some(failure) = self.work.state().failure.take() {
            self.fail(going, failure.into());
        }
        // It ended before they did, or since they failed: nothing of this start is to happen.
        let is_withheld = std::mem::take(&mut self.work.state().waits_for_start);
        match self.record_end(&item, &report, &grant) {
            Ok(None) => {}
            Ok(Some(stop)) if self.setup.once || is_withheld => {
                going.end.get_or_insert(LaneEnd::Stopped(stop));
            }
            Ok(Some(stop)) => going.parked.push((item.id, stop)),
            Err(error) => self.fail(going, error.into()),
        }
    }

    /// Records the end of a run. Returns why its item waits, if it does.
    fn record_end(
        &self,
        item: &BacklogItem,
        report: &RunReport,
        grant: &Grant,
    ) -> Result<Option<Stop>, DriverError> {
        let is_complete = report.state.completion().is_some();
        let is_share = !is_complete && grant.is_share_used(report);
        let find_block = || if is_share { None } else { self.find_block(report) };
        let record = ended(&item.id, report, find_block);
        self.work.state().append(&record)?;
        let is_aside = self.announce_end(item, report)?;
        let goes_on = !self.setup.once && (is_share || is_aside);
        Ok(if is_complete || goes_on { None } else { Some(Stop::from_report(item, report)) })
    }

    /// Writes the status of an item that is merged, and removes its lane. Returns why the item waits, if it does.
    async fn end_merge(
        &self,
        lanes: &LaneSetup,
        entry: &ItemRun,
        ended: Result<MergeEnd, DriverError>,
    ) -> Result<Option<Stop>, DriverError> {
        match ended? {
            MergeEnd::Merged => {
                self.write_completion().await?;
                self.close_lanes(lanes).await?;
            }
            MergeEnd::SentBack => self.end_sent_back(entry)?,
            MergeEnd::Interrupted => {
                let text =
                    format!("item `{}`: interrupted before its merge was proved", entry.item);
                return Ok(Some(Stop::new(StopReason::Interrupted, text)));
            }
        }
        Ok(None)
    }

    /// Blocks an item that was sent back too often.
    fn end_sent_back(&self, entry: &ItemRun) -> Result<(), DriverError> {
        let ledger = self.work.state().ledger.clone();
        let times = ledger.count_sent_back(&entry.item);
        let most = self.setup.limits.max_rejections.and_then(|most| usize::try_from(most).ok());
        if most.is_none_or(|most| times < most) {
            return Ok(());
        }
        let why = format!(
            "complete by itself, and {times} times not with what was merged meanwhile (limits.max_rejections)"
        );
        self.work.state().append(&SeriesRecord::ItemStopped {
            item: entry.item.clone(),
            run: entry.run.clone(),
            reason: StopReason::Thrashing,
            message: why.clone(),
            usage: entry.usage,
            blocked: Some(why),
        })?;
        self.write_blocked()
    }

    /// Removes the lanes of items that are merged and written.
    async fn close_lanes(&self, lanes: &LaneSetup) -> Result<(), DriverError> {
        let ledger = self.work.state().ledger.clone();
        for (item, open) in &ledger.lanes {
            let is_written = ledger.latest_of(item).is_some_and(|entry| entry.is_written);
            let Some((_, merge)) = &open.merge else { continue };
            if open.step != MergeStep::Merged || !is_written {
                continue;
            }
            let closed = lanes.places.close(&open.lane, &merge.theirs).await;
            let warning =
                closed.map_err(|problem| DriverError::Lane { item: item.clone(), problem })?;
            warning.into_iter().for_each(|warning| self.warn(warning));
            self.work.state().append(&SeriesRecord::LaneClosed { item: item.clone() })?;
        }
        Ok(())
    }

    /// Finishes what a killed driver has begun.
    async fn recover_lanes(&mut self, lanes: &LaneSetup) -> Result<(), DriverError> {
        if self.begins {
            self.name_left_lanes();
        }
        let start = self.find_lane_start();
        lanes.places.prepare(start).await.map_err(|problem| DriverError::Lanes { problem })?;
        for message in self.work.recover()? {
            self.warn(message);
        }
        let runs = self.work.state().ledger.runs.clone();
        for entry in runs.iter().filter(|entry| !entry.is_initializer && entry.reason.is_none()) {
            self.recover_run(entry)?;
        }
        while self.work.state().ledger.unwritten().is_some() {
            self.write_completion().await?;
        }
        self.write_blocked()?;
        self.close_lanes(lanes).await?;
        self.find_unblocked()
    }

    fn find_lane_start(&self) -> LaneStart {
        let ledger = &self.work.state().ledger;
        let is_moving = |open: &OpenLane| open.step == MergeStep::Proved;
        match ledger.trunk {
            None => LaneStart::New,
            Some(_) if self.begins => LaneStart::New,
            Some(_) if ledger.lanes.values().any(is_moving) => LaneStart::Merging,
            Some(_) => LaneStart::Resumed,
        }
    }

    /// Records how far a run has come whose end nobody recorded: what it has used counts, and it can be resumed.
    fn recover_run(&self, entry: &ItemRun) -> Result<(), DriverError> {
        let layout = entry.layout(&self.setup.layout);
        let Some(state) = read_state(&layout, &entry.run)? else { return Ok(()) };
        if let Some(note) = state.handoff_note() {
            let message = self.work.note_handoff((&entry.item, &entry.run), note)?;
            message.into_iter().for_each(|message| self.warn(message));
        }
        // A complete one is found to be so when it is opened.
        if state.completion().is_some() {
            return Ok(());
        }
        let (reason, message) = match &state.stop {
            Some(stop) => (stop.reason, stop.message.clone()),
            None => (StopReason::Interrupted, "the orchestrator was killed".to_owned()),
        };
        let is_stopped = state.stop.is_some();
        let report = RunReport { run: entry.run.clone(), reason, message, state };
        // A share of a limit may be used up, and not what the item may use.
        let may_block = is_stopped && report.reason.budget().is_none();
        let block = if may_block { self.find_block(&report) } else { None };
        self.work.state().append(&stopped(&entry.item, &report, block))
    }

    /// Names the lanes of the work before a new beginning: what is in them is on no other branch.
    fn name_left_lanes(&self) {
        let lanes = self.work.state().ledger.lanes.clone();
        for (item, open) in lanes {
            let folder = open.lane.paths().folder;
            self.warn(format!(
                "backlog: the work on item `{item}` before this beginning is not merged: branch {} in the worktree {}",
                open.lane.branch,
                folder.display()
            ));
        }
    }

    /// Returns why nothing goes on any more.
    fn find_lane_stop(&mut self, parked: Vec<(String, Stop)>) -> Result<Stop, DriverError> {
        let snapshot = self.load()?;
        let next = snapshot.select_next();
        if matches!(next, NextItem::Complete) {
            let is_known = self.work.state().ledger.is_complete() && !self.begins;
            return Ok(complete(&snapshot, is_known));
        }
        if self.executor.is_stopping() {
            return Ok(Stop::new(StopReason::Interrupted, "stop requested"));
        }
        if self.setup.once && parked.is_empty() {
            let mut stop = Stop::new(StopReason::Once, "one item was worked on (`--once`)");
            stop.ended_well = true;
            return Ok(stop);
        }
        if let Some(stop) = self.find_used_up(None)? {
            return Ok(stop);
        }
        if let Some((_, stop)) = parked.into_iter().next() {
            return Ok(stop);
        }
        match next {
            NextItem::Blocked { waiting } => Ok(blocked(waiting)),
            NextItem::Empty | NextItem::Complete => {
                let path = self.setup.backlog.path().display().to_string();
                Err(DriverError::Empty { path })
            }
            // Less is left of a limit than one run needs.
            NextItem::Item { item } => {
                let text =
                    format!("item `{}` cannot begin: a limit of all runs is reserved", item.id);
                Ok(Stop::new(StopReason::MaxIterations, text))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::merging::bare_item;

    #[tokio::test]
    async fn runs_go_on_while_something_else_is_awaited() {
        let (said, heard) = tokio::sync::oneshot::channel();
        let run = GoingRun::<DriverError> {
            item: bare_item("one", "One"),
            grant: Grant::default(),
            future: Box::pin(async move {
                said.send(()).unwrap();
                Ok(RunEnd::Withheld(0))
            }),
            ended: None,
        };
        let mut going = Going { runs: vec![run], merge: None, end: None, parked: Vec::new() };
        // What is awaited ends only if the run goes on.
        let bounded = tokio::time::timeout(Duration::from_secs(60), going.beside(heard));
        bounded.await.unwrap().unwrap();
        let (item, _, ended) = going.take_ended().unwrap();
        assert_eq!(item.id, "one");
        assert!(matches!(ended, Ok(RunEnd::Withheld(0))));
        assert!(going.is_over());
    }
}
