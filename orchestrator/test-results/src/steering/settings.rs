//! The settings of one file.

use std::collections::BTreeMap;

/// Settings that steer checks, by key.
pub(super) type Settings = BTreeMap<String, String>;
