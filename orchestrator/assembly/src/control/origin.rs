//! Who sends a control, and the id by which it takes effect once.

use jiff::Timestamp;
use ralph_orchestrator_engine::new_run_id;
use ralph_orchestrator_machine::ControlOrigin;
use ralph_orchestrator_store::{Layout, StateError, read_current_run};

/// Characters of an id before those that a key decides: the time, the version and the variant.
const TIME: usize = 20;

/// Returns the origin of a control that is sent now by this part of the program.
pub fn own_origin(program: &str) -> ControlOrigin {
    let sent_ms = u64::try_from(Timestamp::now().as_millisecond()).unwrap_or_default();
    ControlOrigin { id: new_run_id(), user: user_name(), program: program.to_owned(), sent_ms }
}

/// The origin of a control to which its sender has given a key.
pub struct KeyedOrigin {
    /// Who sends it, and when.
    pub origin: ControlOrigin,
    /// The run has recorded the control of this key.
    pub is_recorded: bool,
}

impl KeyedOrigin {
    /// Returns the origin with an id that is the same whenever the key is the same, across restarts of whoever
    /// sends it: the random part of the id is derived from the key, and one that is known already is used again.
    ///
    /// # Errors
    /// The run cannot be read.
    pub fn new(layout: &Layout, program: &str, key: &str) -> Result<Self, StateError> {
        let mut origin = own_origin(program);
        let digest = blake3::hash(key.as_bytes()).to_hex();
        let random = format!(
            "{}-{}",
            digest.get(..3).unwrap_or_default(),
            digest.get(3..15).unwrap_or_default()
        );
        let recorded = read_current_run(layout, |_| {})?.and_then(|found| {
            let mut received = found.state.controls.received.into_iter();
            received.find(|id| id.ends_with(&random))
        });
        let is_recorded = recorded.is_some();
        let known = recorded.or_else(|| waiting(layout, &random));
        origin.id = known.unwrap_or_else(|| {
            let time = origin.id.get(..TIME).unwrap_or_default();
            format!("{time}{random}")
        });
        Ok(Self { origin, is_recorded })
    }
}

/// Returns the id of a message in the inbox that ends like this.
fn waiting(layout: &Layout, random: &str) -> Option<String> {
    let names = std::fs::read_dir(layout.inbox()).ok()?.flatten();
    let mut ids = names.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        Some(name.split('.').next()?.to_owned())
    });
    ids.find(|id| id.ends_with(random))
}

/// The name of the user who runs this program, or the number.
fn user_name() -> String {
    let uid = rustix::process::geteuid().as_raw().to_string();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid).then(|| name.to_owned())
    });
    name.unwrap_or_else(|| format!("user {uid}"))
}
