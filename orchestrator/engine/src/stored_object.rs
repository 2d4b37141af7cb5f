//! JSON objects of a run that are signed, and sealed if a secret is in them: a path of the workspace can have one.

use ralph_orchestrator_store::{StateError, Store};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::EngineError;
use super::redact::Redactor;

/// Stores an object under this name.
pub(super) fn store_object<T: Serialize>(
    store: &mut Store,
    redactor: &Redactor,
    name: &str,
    value: &T,
) -> Result<(), EngineError> {
    let object =
        serde_json::to_string(value).map_err(|error| EngineError::Internal(error.to_string()))?;
    if redactor.bytes(object.as_bytes()) == object.as_bytes() {
        store.write_signed_file(name, &object)?;
    } else {
        store.write_sealed_file(name, &object)?;
    }
    Ok(())
}

/// Reads what is stored under this name; `None` if there is nothing.
pub(super) fn read_object<T: DeserializeOwned>(
    store: &Store,
    name: &str,
) -> Result<Option<T>, StateError> {
    let Some(object) = store.read_signed_file(name)? else { return Ok(None) };
    let damaged = |error: serde_json::Error| StateError::Damaged {
        path: name.into(),
        problem: error.to_string(),
    };
    Ok(Some(serde_json::from_str(&object).map_err(damaged)?))
}
