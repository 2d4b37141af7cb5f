//! The tests that ran before any agent worked, as a file of the run: a resumed run compares with the same.

use std::collections::BTreeMap;

use ralph_orchestrator_store::{Layout, StateError};
use serde::{Deserialize, Serialize};

use super::error::EngineError;
use super::session::Session;
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
        let object = serde_json::to_string(&stored)
            .map_err(|error| EngineError::Internal(error.to_string()))?;
        let store = &mut self.journal.store;
        // The name of a test may have a secret in it.
        if self.context.redactor.bytes(object.as_bytes()) == object.as_bytes() {
            store.write_signed_file(Layout::TESTS, &object)?;
        } else {
            store.write_sealed_file(Layout::TESTS, &object)?;
        }
        Ok(())
    }

    /// Reads what the checks ran before any agent worked; where that is missing, the numbers of the journal count.
    pub(super) fn resume_test_floor(&mut self) -> Result<(), EngineError> {
        let Some(object) = self.journal.store.read_signed_file(Layout::TESTS)? else {
            let counts = &self.journal.state.validation.baseline_tests;
            self.test_floor = TestFloor::from_counts(counts).into();
            return Ok(());
        };
        let stored: StoredFloor = serde_json::from_str(&object).map_err(|error| {
            StateError::Damaged { path: Layout::TESTS.into(), problem: error.to_string() }
        })?;
        self.test_floor = TestFloor::new(stored.checks).into();
        Ok(())
    }
}
