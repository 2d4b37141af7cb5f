//! The tests that ran before any agent worked, as a file of the run: a resumed run compares with the same.

use std::collections::BTreeMap;

use ralph_orchestrator_store::{Layout, list_runs};
use serde::{Deserialize, Serialize};

use super::error::EngineError;
use super::session::Session;
use super::stored_object::{read_closed_object, read_object, store_object};
use super::test_floor::{BaseTests, TestFloor};

/// The stored form, in JSON.
#[derive(Serialize, Deserialize)]
struct StoredFloor {
    checks: BTreeMap<String, BaseTests>,
}

impl Session {
    /// Stores what the checks ran before any agent worked.
    pub(super) fn store_test_floor(&mut self) -> Result<(), EngineError> {
        let stored = StoredFloor { checks: self.test_floor.checks() };
        let (store, redactor) = (&mut self.journal.store, &self.context.redactor);
        store_object(store, redactor, Layout::TESTS, &stored)
    }

    /// Has the tests count that ran when the run before began, whose work is sent back: where that is in conflict with what was
    /// merged meanwhile, the marks in its files keep tests from being found.
    pub(super) fn carry_test_floor(&mut self) -> Result<(), EngineError> {
        let (layout, own) = (self.journal.store.layout(), &self.context.run);
        let Some(before) = list_runs(layout)?.into_iter().find(|run| run != own) else {
            return Ok(());
        };
        if let Some(stored) = read_closed_object::<StoredFloor>(layout, &before, Layout::TESTS)? {
            self.test_floor.carry(stored.checks);
        }
        Ok(())
    }

    /// Reads what the checks ran before any agent worked; where that is missing, the numbers of the journal count.
    pub(super) fn resume_test_floor(&mut self) -> Result<(), EngineError> {
        let Some(stored) = read_object::<StoredFloor>(&self.journal.store, Layout::TESTS)? else {
            let verdicts = &self.journal.state.validation.baseline_verdicts;
            self.test_floor = TestFloor::from_verdicts(verdicts).into();
            return Ok(());
        };
        self.test_floor = TestFloor::new(stored.checks).into();
        Ok(())
    }
}
