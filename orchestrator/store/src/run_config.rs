//! The configuration that a run began with: a text for people without its secrets, and all of it, sealed.

use std::borrow::Cow;

use super::disk::Disk;
use super::error::StateError;
use super::key::Key;
use super::layout::Layout;

/// Larger than any configuration, in bytes.
const LARGEST: usize = 64 << 20;

/// What a text without secrets begins with, so that it is never taken for all of a configuration.
const MASKED: &str = "# For people: secrets are ***. The run itself reads config.sealed.\n";

impl Key {
    /// Returns what a run's folder has as [`Layout::CONFIG`] and, if `masked` is another text than the configuration, as
    /// [`Layout::SEALED_CONFIG`]: the configuration, and which text for people belongs to it.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn hide_config(
        &self,
        config: String,
        masked: &str,
    ) -> Result<(String, Option<Vec<u8>>), StateError> {
        if masked == config {
            return Ok((config, None));
        }
        let shown = format!("{MASKED}{masked}");
        let digest = blake3::hash(shown.as_bytes());
        let sealed = self.seal(&[digest.as_bytes(), config.as_bytes()].concat())?;
        Ok((shown, Some(sealed)))
    }
}

/// Returns the configuration that a run began with, its secrets included.
///
/// # Errors
/// A file of it cannot be read, or was changed from outside.
pub fn read_run_config(layout: &Layout, run: &str) -> Result<String, StateError> {
    let disk = Disk::default();
    let path = layout.config(run);
    let gone = || StateError::damaged(&path, "is missing");
    let shown = disk.read_if_exists(&path, LARGEST)?.ok_or_else(gone)?;
    let sealed_path = layout.run(run).join(Layout::SEALED_CONFIG);
    let broken =
        || StateError::damaged(&sealed_path, "was changed from outside, or config.toml was");
    let config = match disk.read_if_exists(&sealed_path, LARGEST)? {
        None if shown.starts_with(MASKED.as_bytes()) => return Err(broken()),
        None => shown,
        Some(sealed) => {
            let key = Key::read(&disk, &layout.key())?.ok_or_else(broken)?;
            let content = key.unseal(&sealed).filter(|content| matches!(content, Cow::Owned(_)));
            let content = content.ok_or_else(broken)?;
            let belongs = |(digest, _): &(&[u8], &[u8])| blake3::hash(&shown).as_bytes() == digest;
            let (_, config) =
                content.split_at_checked(blake3::OUT_LEN).filter(belongs).ok_or_else(broken)?;
            config.to_vec()
        }
    };
    String::from_utf8(config).map_err(|_| StateError::damaged(&path, "is not UTF-8"))
}
