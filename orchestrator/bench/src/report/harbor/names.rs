//! Names and ids, which follow from the job and the trial: writing a job again gives the same.

use uuid::{Builder, Uuid};

use crate::report::harbor::facts::JobFacts;
use crate::trial::TrialKey;

/// The characters of Harbor's random names: those of base 57, none of which is mistaken for another.
const ALPHABET: &[u8] = b"23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
/// How many of them follow the task's name.
const SUFFIX: usize = 7;
/// How much of the task's name there is.
const PREFIX: usize = 32;
/// The longest name of a job's folder, in bytes.
const LONGEST: usize = 100;

/// Returns the name of a trial and of its folder, such as `csv-to-json__aB3dE5f`.
pub(super) fn name_trial(facts: &JobFacts, key: &TrialKey) -> String {
    let task = key.task.rsplit('/').next().unwrap_or_default();
    let prefix = name_folder(task, PREFIX);
    let prefix = prefix.trim_end_matches(['_', '-']);
    let suffix: String = hash_trial(facts, key)
        .iter()
        .filter_map(|byte| ALPHABET.get(usize::from(*byte) % ALPHABET.len()))
        .take(SUFFIX)
        .map(|byte| char::from(*byte))
        .collect();
    format!("{}__{suffix}", if prefix.is_empty() { "task" } else { prefix })
}

/// Returns the name of a job's folder.
pub(super) fn name_job(facts: &JobFacts) -> String {
    let name = name_folder(&facts.name, LONGEST);
    if name.is_empty() { facts.id.to_string() } else { name }
}

/// Returns a name for a folder: letters and digits of ASCII, `.`, `_` and `-`, without a leading point.
fn name_folder(name: &str, longest: usize) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let safe: String =
        name.chars().take(longest).map(|c| if is_safe(c) { c } else { '-' }).collect();
    safe.trim_start_matches('.').to_owned()
}

/// Returns a trial's id.
pub(super) fn identify_trial(facts: &JobFacts, key: &TrialKey) -> Uuid {
    let mut bytes = [0; 16];
    for (to, from) in bytes.iter_mut().zip(hash_trial(facts, key).iter().skip(SUFFIX)) {
        *to = *from;
    }
    Builder::from_custom_bytes(bytes).into_uuid()
}

fn hash_trial(facts: &JobFacts, key: &TrialKey) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(facts.id.as_bytes());
    let variant = key.column.variant.as_deref().map_or_else(String::new, |name| format!("+{name}"));
    for part in [&key.column.agent, &variant, &key.task] {
        // With its length, so that no two trials have the same bytes.
        hasher.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.update(&key.trial.to_le_bytes());
    *hasher.finalize().as_bytes()
}
