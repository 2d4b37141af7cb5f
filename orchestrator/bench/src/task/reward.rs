//! Reads the rewards that a verifier left, by Harbor's rule, and sums up those of several steps.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use ralph_orchestrator_safe_fs::{
    FileFingerprint, ReadError, open_file_at, open_folder_nofollow, read_bounded,
};
use rustix::fd::AsFd as _;
use rustix::io::Errno;

use super::settings::{RewardGate, RewardStrategy};
use crate::trial::REWARD;

/// What the owner of a folder needs to write files there.
const ACCESS: u32 = 0o700;

/// The name of the file with one number.
pub const REWARD_TEXT: &str = "reward.txt";
/// The name of the file with several numbers by name. It counts if both are there.
pub const REWARD_JSON: &str = "reward.json";
/// Bytes of a reward file.
pub const MAX_REWARD_BYTES: usize = 1 << 20;
/// The largest reward, and the smallest with its sign changed. Harbor's rule takes every finite number; beyond this one,
/// sums and squares of a job's rewards would say nothing of any other trial.
pub const MAX_REWARD: f64 = 1e9;

/// A verifier left no valid reward. Its exit status does not matter.
#[derive(Debug, thiserror::Error)]
pub enum RewardError {
    /// There is neither file.
    #[error("{} has neither {REWARD_JSON} nor {REWARD_TEXT}: the tests have to write one of them", folder.display())]
    NotFound {
        /// The folder.
        folder: PathBuf,
    },
    /// The tests printed no results.
    #[error("the tests printed no \"short test summary info\" with results, as `pytest -rA` does")]
    NoSummary,
    /// The file is empty.
    #[error("{}: the file is empty", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The file has something else in it than numbers that a reward can be.
    #[error("{}: {reason}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl RewardError {
    /// Returns the kind of the fault, by the name that Harbor has for it.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "RewardFileNotFoundError",
            Self::Empty { .. } => "RewardFileEmptyError",
            Self::NoSummary | Self::Invalid { .. } => "VerifierOutputParseError",
        }
    }
}

/// Removes reward files, whatever has their names. To be called before the verifier runs. Should the agent have put
/// something else in the place of the folder, or removed it, it is made anew.
///
/// # Errors
/// Returns an error if something cannot be removed, or the folder cannot be made.
pub fn remove_rewards(verifier_dir: &Path) -> io::Result<()> {
    if let Some(logs) = verifier_dir.parent().filter(|logs| logs.is_dir()) {
        restore_access(logs)?;
    }
    match verifier_dir.symlink_metadata() {
        Ok(found) if found.is_dir() => {}
        // A link would lead the removal, and the reading, elsewhere.
        Ok(_) => {
            fs::remove_file(verifier_dir)?;
            return fs::create_dir(verifier_dir);
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return fs::create_dir_all(verifier_dir);
        }
        Err(error) => return Err(error),
    }
    restore_access(verifier_dir)?;
    for name in [REWARD_JSON, REWARD_TEXT] {
        let path = verifier_dir.join(name);
        let removed = match path.symlink_metadata() {
            Ok(found) if found.is_dir() => fs::remove_dir_all(&path),
            Ok(_) => fs::remove_file(&path),
            Err(error) => Err(error),
        };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Gives the verifier the access to a folder that an agent has taken away.
fn restore_access(folder: &Path) -> io::Result<()> {
    let mode = folder.symlink_metadata()?.permissions().mode();
    if mode & ACCESS == ACCESS {
        return Ok(());
    }
    fs::set_permissions(folder, Permissions::from_mode(mode | ACCESS))
}

/// Returns the rewards that the verifier left in this folder. A number in `reward.txt` is named "reward".
///
/// # Errors
/// Returns an error if there is no reward file, or the one that counts is empty, a link, larger than 1 MiB, or anything
/// but finite numbers of at most [`MAX_REWARD`] to either side of 0.
pub fn read_rewards(verifier_dir: &Path) -> Result<BTreeMap<String, f64>, RewardError> {
    let not_found = || RewardError::NotFound { folder: verifier_dir.to_owned() };
    let folder = match open_folder_nofollow(verifier_dir) {
        Ok(folder) => folder,
        Err(Errno::NOENT) => return Err(not_found()),
        Err(error) => return Err(invalid(verifier_dir, io::Error::from(error).to_string())),
    };
    for (name, parse) in [(REWARD_JSON, parse_json as Parse), (REWARD_TEXT, parse_text)] {
        let path = verifier_dir.join(name);
        // A link stays one, so that it cannot point at a reward that the tests did not write.
        if FileFingerprint::from_name(folder.as_fd(), name.as_bytes()).is_err() {
            continue;
        }
        let bytes = open_file_at(folder.as_fd(), name.as_bytes())
            .map_err(|error| match error {
                Errno::LOOP => "it is a link: write a file".to_owned(),
                other => ReadError::from(other).to_string(),
            })
            .and_then(|file| {
                read_bounded(&file, MAX_REWARD_BYTES).map_err(|error| error.to_string())
            })
            .map_err(|reason| invalid(&path, reason))?;
        if bytes.is_empty() {
            return Err(RewardError::Empty { path });
        }
        return parse(&bytes).map_err(|reason| invalid(&path, reason));
    }
    Err(not_found())
}

type Parse = fn(&[u8]) -> Result<BTreeMap<String, f64>, String>;

fn invalid(path: &Path, reason: String) -> RewardError {
    RewardError::Invalid { path: path.to_owned(), reason }
}

fn parse_text(bytes: &[u8]) -> Result<BTreeMap<String, f64>, String> {
    let text = str::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())?;
    let number = parse_float(text.trim()).ok_or_else(|| {
        let shown: String = text.trim().chars().take(40).collect();
        format!("it has {shown:?} in it, expected one number")
    })?;
    check_reward(number)?;
    Ok(BTreeMap::from([(REWARD.to_owned(), number)]))
}

/// Refuses what cannot be a reward, with the value.
fn check_reward(number: f64) -> Result<(), String> {
    if !number.is_finite() {
        return Err(format!("{number} is not finite, expected a number from 0 to 1"));
    }
    if number.abs() > MAX_REWARD {
        return Err(format!(
            "{number} is no reward, expected a number from 0 to 1 (at most {MAX_REWARD} to either side of 0)"
        ));
    }
    Ok(())
}

/// Returns the number of a text as Python's `float` takes it, which has `1_000` too.
fn parse_float(text: &str) -> Option<f64> {
    let bytes = text.as_bytes();
    let is_digit =
        |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let mut plain = String::new();
    for (at, c) in text.char_indices() {
        if c != '_' {
            plain.push(c);
        } else if !is_digit(at.checked_sub(1)) || !is_digit(at.checked_add(1)) {
            return None;
        }
    }
    plain.parse().ok()
}

fn parse_json(bytes: &[u8]) -> Result<BTreeMap<String, f64>, String> {
    let value: serde_json::Value =
        serde_json::from_slice(bytes).map_err(|error| format!("it is not JSON: {error}"))?;
    let serde_json::Value::Object(object) = value else {
        return Err("it is not a JSON object of numbers by name".to_owned());
    };
    let mut rewards = BTreeMap::new();
    for (name, value) in object {
        let number = match &value {
            serde_json::Value::Number(number) => number.as_f64(),
            // In Python, in which the rule is written, these are numbers.
            serde_json::Value::Bool(is_true) => Some(f64::from(u8::from(*is_true))),
            _ => None,
        };
        let number = number.ok_or_else(|| format!("{name:?} is {value}, expected a number"))?;
        check_reward(number).map_err(|reason| format!("{name:?}: {reason}"))?;
        rewards.insert(name, number);
    }
    if rewards.is_empty() {
        return Err("it has no reward in it".to_owned());
    }
    Ok(rewards)
}

/// Returns which reward of a step is too low for the next one to begin, in words; none if it may begin. A reward that
/// is missing is too low.
#[must_use]
pub fn find_gate_failure(
    gate: Option<&RewardGate>,
    rewards: Option<&BTreeMap<String, f64>>,
) -> Option<String> {
    gate?.0.iter().find_map(|(name, least)| {
        let reward = rewards.and_then(|rewards| rewards.get(name));
        match reward {
            Some(reward) if reward >= least => None,
            Some(reward) => Some(format!("{name} is {reward}, below {least}")),
            None => Some(format!("{name} is missing, expected at least {least}")),
        }
    })
}

/// Returns the rewards of a trial from those of its steps, in order, as far as it came; `None` for a step whose
/// verifier left no valid reward. None if there is nothing to sum up.
#[must_use]
pub fn combine_rewards(
    strategy: RewardStrategy,
    steps: &[Option<BTreeMap<String, f64>>],
) -> Option<BTreeMap<String, f64>> {
    if strategy == RewardStrategy::Final {
        return steps.last().cloned().flatten();
    }
    let valid: Vec<&BTreeMap<String, f64>> = steps.iter().flatten().collect();
    let count = f64::from(u32::try_from(valid.len()).ok().filter(|count| *count > 0)?);
    let mut means: BTreeMap<String, f64> = BTreeMap::new();
    for (name, reward) in valid.into_iter().flatten() {
        *means.entry(name.clone()).or_default() += reward;
    }
    means.values_mut().for_each(|sum| *sum /= count);
    Some(means).filter(|means| !means.is_empty())
}
