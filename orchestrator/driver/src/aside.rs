//! Items that are blocked because work on them leads nowhere, so that the others go on.

use ralph_orchestrator_backlog::{ItemStatus, SetAside};
use ralph_orchestrator_config::Limits;
use ralph_orchestrator_machine::{RunUsage, State};

use crate::budget::remaining;
use crate::driver::{BacklogDriver, stopped};
use crate::error::DriverError;
use crate::executor::{Executor, RunReport};
use crate::item_file::{leave_note, write_status};
use crate::ledger::{AsideItem, ItemRun};
use crate::record::SeriesRecord;

impl<E: Executor> BacklogDriver<E> {
    /// Returns the limits of an item's run: what is left for all, and no more than one item may use.
    pub(crate) fn limits_of_item(
        &self,
        item: &str,
        resume: Option<&str>,
        has_others: bool,
    ) -> Limits {
        let limits = &self.setup.limits;
        let left = remaining(limits, self.used_beside(resume));
        let used = match self.begins {
            true => RunUsage::default(),
            false => self.work.state().ledger.used_since_aside(item, resume),
        };
        self.setup.item_limits.bound(&left, limits, used, has_others)
    }

    /// Records that a run blocks its item, if it had stopped for that when the driver was killed.
    pub(crate) fn recover_stop(&self, entry: &ItemRun, state: State) -> Result<(), DriverError> {
        let Some(stop) = state.stop.clone().filter(|_| entry.reason.is_none()) else {
            return Ok(());
        };
        let (reason, message) = (stop.reason, stop.message);
        let report = RunReport { run: entry.run.clone(), reason, message, state };
        match self.find_block(&report) {
            Some(why) => self.work.state().append(&stopped(&entry.item, &report, Some(why))),
            None => Ok(()),
        }
    }

    /// Returns why the end of a run blocks its item; `None` if it is not the item's.
    pub(crate) fn find_block(&self, report: &RunReport) -> Option<String> {
        let others = self.used_beside(Some(&report.run));
        self.setup.item_limits.find_block(report, &self.setup.limits, others)
    }

    /// Writes that items are blocked, with the reason as a note, as far as the format can hold it, and records that
    /// this is done. It can be repeated after a crash.
    pub(crate) fn write_blocked(&self) -> Result<(), DriverError> {
        let set_aside = self.work.state().ledger.set_aside.clone();
        for (item, AsideItem { aside, run, .. }) in
            set_aside.into_iter().filter(|(_, item)| !item.is_written)
        {
            let SetAside::Blocked(why) = aside else { continue };
            let backlog = &*self.setup.backlog;
            write_status(backlog, &item, ItemStatus::Blocked)?;
            let mark = format!("(run {run})");
            let warning = leave_note(backlog, &item, &mark, &format!("Blocked: {why}"))?;
            warning.into_iter().for_each(|warning| self.warn(warning));
            if backlog.load()?.find(&item).is_some() {
                let text = self.setup.redactor.text(&format!("Set aside: {why}")).into_owned();
                backlog.report(&item, &format!("blocked run={run}"), &text)?;
            }
            let status = ItemStatus::Blocked;
            self.work.state().append(&SeriesRecord::StatusWritten { item, run, status })?;
        }
        Ok(())
    }

    /// Opens the items again that a person unblocked in the backlog itself since the last start.
    pub(crate) fn find_unblocked(&self) -> Result<(), DriverError> {
        let snapshot = self.setup.backlog.load()?;
        if !snapshot.storable.contains(&ItemStatus::Blocked) {
            return Ok(());
        }
        let set_aside = self.work.state().ledger.set_aside.clone();
        for (item, _) in set_aside.into_iter().filter(|(_, item)| item.is_written) {
            let status = snapshot.find(&item).map(|item| item.status);
            if matches!(status, Some(ItemStatus::Pending | ItemStatus::InProgress)) {
                self.warn(format!(
                    "backlog: item `{item}` is worked on again: it is blocked no more"
                ));
                self.work.state().append(&SeriesRecord::ItemRetried { item })?;
            }
        }
        Ok(())
    }

    /// Sets the items to pending again that the work before this beginning blocked.
    pub(crate) fn reopen_blocked(&self) -> Result<(), DriverError> {
        let set_aside = self.work.state().ledger.set_aside.clone();
        let blocked = set_aside.iter().filter(|(_, item)| item.aside != SetAside::Skipped);
        for (item, _) in blocked {
            write_status(&*self.setup.backlog, item, ItemStatus::Pending)?;
        }
        Ok(())
    }
}
