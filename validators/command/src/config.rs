//! The validator's own keys.

use std::path::{Component, Path, PathBuf};

use ralph_orchestrator_contract::{BuildError, parse_config};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `[[validator]]` with `kind = "command"`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The program and its arguments.
    pub(crate) program: Vec<String>,
    /// The exit status that it must have.
    #[serde(default)]
    pub(crate) expect_exit: i32,
    /// Each must match a line of the output. Where it has groups `ran` and `skipped`, the first number must
    /// be greater.
    #[serde(default)]
    pub(crate) must_match: Patterns,
    /// None may match a line of the output.
    #[serde(default)]
    pub(crate) must_not_match: Patterns,
    /// Globs of what must be as it was when the run began.
    #[serde(default)]
    pub(crate) protect: Vec<String>,
    /// How many times in a row it has to pass.
    #[serde(default = "one")]
    pub(crate) passes_required: u32,
    /// Whether any change that it makes to the workspace is its error.
    #[serde(default)]
    pub(crate) read_only: bool,
    /// Whether fewer tests may run than when the run began.
    #[serde(default)]
    pub(crate) tests_may_fall: bool,
    /// Whether the tests that ran are counted, by what it prints.
    #[serde(default = "yes")]
    pub(crate) count_tests: bool,
    /// Where it runs, relative to the workspace.
    #[serde(default = "workspace")]
    pub(crate) cwd: PathBuf,
}

/// One regular expression, or a list of them.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a regular expression, or a list of them")]
pub(crate) enum Patterns {
    /// A single one.
    One(String),
    /// Any number.
    Many(Vec<String>),
}

impl Default for Patterns {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl Patterns {
    /// All of them.
    pub(crate) fn as_slice(&self) -> &[String] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }

    /// The key of the pattern at `index` below `key`.
    pub(crate) fn key(&self, key: &str, index: usize) -> Vec<String> {
        match self {
            Self::One(_) => vec![key.to_owned()],
            Self::Many(_) => vec![key.to_owned(), index.to_string()],
        }
    }
}

const fn yes() -> bool {
    true
}

const fn one() -> u32 {
    1
}

fn workspace() -> PathBuf {
    PathBuf::from(".")
}

impl Config {
    pub(crate) fn parse(table: Value) -> Result<Self, BuildError> {
        let config: Self = parse_config(table)?;
        match config.program.first() {
            None => {
                let message = r#"expected a program and its arguments, such as ["cargo", "test"]"#;
                return Err(BuildError::at("program", message));
            }
            Some(name) if name.trim().is_empty() => {
                return Err(at_part(0, "expected the name or path of a program"));
            }
            Some(_) => {}
        }
        if let Some(at) = config.program.iter().position(|part| part.contains('\0')) {
            return Err(at_part(at, "a program or argument cannot contain a NUL character"));
        }
        if !(0..=255).contains(&config.expect_exit) {
            return Err(BuildError::at("expect_exit", "expected an exit status from 0 to 255"));
        }
        if config.passes_required == 0 {
            let message = "expected how many times in a row it has to pass, at least 1";
            return Err(BuildError::at("passes_required", message));
        }
        if !stays_inside(&config.cwd) {
            let message = "expected a folder inside the workspace, relative to it, without `..`";
            return Err(BuildError::at("cwd", message));
        }
        Ok(config)
    }

    /// Returns where it runs, relative to the workspace; empty if in the workspace itself.
    pub(crate) fn folder(&self) -> PathBuf {
        self.cwd.components().filter(|part| matches!(part, Component::Normal(_))).collect()
    }
}

fn at_part(index: usize, message: &str) -> BuildError {
    BuildError::at_element(&["program"], index, message)
}

fn stays_inside(cwd: &Path) -> bool {
    cwd.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn defaults() {
        let config = Config::parse(json!({"program": ["cargo", "test"]})).unwrap();
        assert_eq!((config.expect_exit, config.passes_required, config.read_only), (0, 1, false));
        assert!(config.must_match.as_slice().is_empty() && config.folder() == Path::new(""));
    }

    #[test]
    fn one_pattern_or_many() {
        let with = |patterns: Value| {
            let config = Config::parse(json!({"program": ["a"], "must_match": patterns}));
            config.map(|config| config.must_match.as_slice().to_vec())
        };
        assert_eq!(with(json!("x")).unwrap(), ["x"]);
        assert_eq!(with(json!(["x", "y"])).unwrap(), ["x", "y"]);
        let error = with(json!(7)).unwrap_err();
        assert_eq!(error.key, ["must_match"]);
        assert!(error.message.contains("regular expression"), "{error}");
    }

    #[test]
    fn mistakes_are_named_by_their_key() {
        let key = |table| Config::parse(table).unwrap_err().key.join(".");
        assert_eq!(key(json!({"program": []})), "program");
        assert_eq!(key(json!({"program": [""]})), "program.0");
        assert_eq!(key(json!({"program": ["a", "\u{0}"]})), "program.1");
        assert_eq!(key(json!({"program": ["a"], "passes_required": 0})), "passes_required");
        assert_eq!(key(json!({"program": ["a"], "expect_exit": 256})), "expect_exit");
        assert_eq!(key(json!({"program": ["a"], "expect_exit": -1})), "expect_exit");
        for cwd in ["/etc", "..", "a/../..", "a/../b"] {
            assert_eq!(key(json!({"program": ["a"], "cwd": cwd})), "cwd", "{cwd}");
        }
        let inside = Config::parse(json!({"program": ["a"], "cwd": "./sub/dir"})).unwrap();
        assert_eq!(inside.folder(), Path::new("sub/dir"));
        let unknown = Config::parse(json!({"program": ["a"], "must_macth": "x"})).unwrap_err();
        assert_eq!(unknown.unknown_key.as_deref(), Some("must_macth"));
    }
}
