//! The keys of the validator.

use std::path::PathBuf;

use ralph_orchestrator_contract::{BuildError, size};
use regex::{Regex, RegexBuilder};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How old evidence may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Fresh {
    /// No older than the present workspace tree.
    Tree,
    /// No older than the run.
    Run,
    /// Any age.
    Any,
}

/// What becomes of evidence that says itself that something failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ReportsFailure {
    /// The claim is rejected.
    Reject,
    /// It counts as any other.
    Allow,
}

/// `[[validator]]` with `kind = "evidence-files"`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The folder with the evidence, beside the prompt file.
    dir: PathBuf,
    /// How many files have to count.
    #[schemars(range(min = 1))]
    min_files: usize,
    /// The types of files that can count.
    extensions: Vec<String>,
    /// How old evidence may be.
    fresh: Fresh,
    /// Regular expressions: each must match a text or JSON file.
    must_match: Vec<String>,
    /// Regular expressions: none may match a text or JSON file.
    must_not_match: Vec<String>,
    /// What becomes of a file that itself reports a failure.
    reports_failure: ReportsFailure,
    /// The largest file that can count.
    #[schemars(schema_with = "size_schema")]
    max_file_size: Size,
    /// The most files that are examined.
    #[schemars(range(min = 1))]
    max_files: usize,
    /// The least width and height of a picture, in pixels.
    min_image_size: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            dir: "validation-evidence".into(),
            min_files: 3,
            extensions: ["png", "txt", "json"].map(String::from).to_vec(),
            fresh: Fresh::Tree,
            must_match: Vec::new(),
            must_not_match: Vec::new(),
            reports_failure: ReportsFailure::Reject,
            max_file_size: Size(10 << 20),
            max_files: 200,
            min_image_size: 2,
        }
    }
}

/// A configuration that makes sense.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) dir: PathBuf,
    pub(crate) min_files: usize,
    /// Lower case, without the dot.
    pub(crate) extensions: Vec<String>,
    pub(crate) fresh: Fresh,
    pub(crate) must_match: Vec<Regex>,
    pub(crate) must_not_match: Vec<Regex>,
    pub(crate) reports_failure: ReportsFailure,
    /// In bytes.
    pub(crate) max_file_size: u64,
    pub(crate) max_files: usize,
    /// In pixels.
    pub(crate) min_image_size: u32,
}

impl Config {
    pub(crate) fn into_settings(self) -> Result<Settings, BuildError> {
        if self.min_files == 0 {
            let message = "must be at least 1: without evidence every claim would stand";
            return Err(BuildError::at("min_files", message));
        }
        if self.max_files < self.min_files {
            let message = format!(
                "is {}, fewer than min_files = {}: no evidence could ever be enough",
                self.max_files, self.min_files
            );
            return Err(BuildError::at("max_files", message));
        }
        if self.extensions.is_empty() {
            let message = "must name at least one type of file, such as \"txt\"";
            return Err(BuildError::at("extensions", message));
        }
        Ok(Settings {
            dir: self.dir,
            min_files: self.min_files,
            extensions: each("extensions", &self.extensions, extension)?,
            fresh: self.fresh,
            must_match: each("must_match", &self.must_match, regex)?,
            must_not_match: each("must_not_match", &self.must_not_match, regex)?,
            reports_failure: self.reports_failure,
            max_file_size: self.max_file_size.0,
            max_files: self.max_files,
            min_image_size: self.min_image_size,
        })
    }
}

fn each<T>(
    key: &str,
    values: &[String],
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, BuildError> {
    let read_one = |(index, value): (usize, &String)| {
        read(value).map_err(|message| BuildError::at_element(&[key], index, message))
    };
    values.iter().enumerate().map(read_one).collect()
}

fn extension(text: &str) -> Result<String, String> {
    let bare = text.strip_prefix('.').unwrap_or(text);
    if bare.is_empty() || !bare.chars().all(char::is_alphanumeric) {
        return Err(format!("`{text}` is no file extension; write one like \"txt\""));
    }
    Ok(bare.to_lowercase())
}

fn regex(text: &str) -> Result<Regex, String> {
    RegexBuilder::new(text)
        .multi_line(true)
        .crlf(true)
        .build()
        .map_err(|error| format!("`{text}` is no regular expression: {error}"))
}

/// A number of bytes, at least 1: a whole number, or a string such as `10 MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size(u64);

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        size::serialize(self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        size::deserialize(deserializer, "10 MiB").map(Self)
    }
}

fn size_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": ["string", "integer"], "minimum": 1, "pattern": r"^\s*\d"})
}
