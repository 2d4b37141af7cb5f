//! JSON objects of a run that are signed, and sealed if a secret is in them: a path of the workspace can have one.

use ralph_orchestrator_store::{Disk, Key, Layout, StateError, Store, read_signed_object};
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
    if redactor.has_secret(object.as_bytes()) {
        store.write_sealed_file(name, &object)?;
    } else {
        store.write_signed_file(name, &object)?;
    }
    Ok(())
}

/// Reads what is stored under this name; `None` if there is nothing.
pub(super) fn read_object<T: DeserializeOwned>(
    store: &Store,
    name: &str,
) -> Result<Option<T>, StateError> {
    let object = store.read_signed_file(name)?;
    object.map(|object| parse(name, &object)).transpose()
}

/// Reads what a run that is not open has stored under this name.
pub(super) fn read_closed_object<T: DeserializeOwned>(
    layout: &Layout,
    run: &str,
    name: &str,
) -> Result<Option<T>, StateError> {
    let disk = Disk::default();
    let Some(key) = Key::read(&disk, &layout.key())? else { return Ok(None) };
    let object = read_signed_object(&disk, &key, &layout.run(run).join(name))?;
    object.map(|object| parse(name, &object)).transpose()
}

fn parse<T: DeserializeOwned>(name: &str, object: &str) -> Result<T, StateError> {
    let damaged = |error: serde_json::Error| StateError::Damaged {
        path: name.into(),
        problem: error.to_string(),
    };
    serde_json::from_str(object).map_err(damaged)
}
