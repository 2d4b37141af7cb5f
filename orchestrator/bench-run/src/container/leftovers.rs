//! Containers that an earlier start of a job left: it was killed before it could remove them.

use super::engine::Engine;
use crate::engine_call::EngineError;

/// Removes all containers of a job, of which none is in use. Returns their names.
///
/// # Errors
/// The engine says why it cannot.
pub(crate) async fn remove_leftovers(
    engine: &Engine,
    job: &str,
) -> Result<Vec<String>, EngineError> {
    let names = engine.list(job).await?;
    for name in &names {
        engine.remove(name).await?;
    }
    Ok(names)
}
