//! Controls of a run that no orchestrator holds: they are recorded at once, by the rules that hold while it is
//! active.

use ralph_orchestrator_machine::{Control, Effect, Input, Now, ReceivedControl, State, step};
use ralph_orchestrator_store::{InboxReader, StateError, Store, StoredRun};

/// What became of a control.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedControl {
    /// The state of the run after it, and after what has followed.
    pub state: State,
    /// The iteration during which it was recorded.
    pub iteration: Option<u64>,
    /// Why it cannot take effect, if it cannot.
    pub refused: Option<String>,
}

/// Records a control, after those that are still in the inbox.
///
/// # Errors
/// The state cannot be read or written.
pub fn record_control(
    store: &mut Store,
    found: StoredRun,
    control: ReceivedControl,
) -> Result<RecordedControl, StateError> {
    let StoredRun { run, mut state, .. } = found;
    let waiting = store.read_inbox(&run, &mut InboxReader::default())?.controls;
    for earlier in waiting {
        let id = earlier.origin.id.clone();
        // Nobody is there to be stopped.
        if earlier.control != Control::Stop {
            state = record(store, state, earlier)?.state;
        }
        store.remove_message(&id)?;
    }
    record(store, state, control)
}

fn record(
    store: &mut Store,
    state: State,
    control: ReceivedControl,
) -> Result<RecordedControl, StateError> {
    let now = Now { runtime_ms: state.budget.runtime_ms, unix_ms: super::clock::unix_ms() };
    let is_complete = state.completion().is_some();
    let (state, effects) = step(state, Input::Control(control), now);
    let mut refused = is_complete.then(|| "the run is complete".to_owned());
    for effect in effects {
        // There is no agent to be cancelled.
        let Effect::Append(record) = effect else { continue };
        store.append(&record)?;
        refused = refused.or_else(|| record.refusal().map(str::to_owned));
    }
    Ok(RecordedControl { state, iteration: None, refused })
}
