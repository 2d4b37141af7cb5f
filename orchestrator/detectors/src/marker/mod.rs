//! A line in the prompt file that says the task is complete.

mod line;

use std::borrow::Cow;
use std::ops::Range;

use ralph_orchestrator_contract::{
    BuildContext, BuildError, Claim, ClaimKind, ClaimSource, CompletionDetector, DetectorInput,
    Findings, NearMiss, async_trait, parse_config,
};
use ralph_orchestrator_text::truncate;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use unicode_normalization::UnicodeNormalization as _;

use crate::markdown::{MarkdownContext, MarkdownStructure};
use crate::{MAX_NEAR_MISSES, text, word};

use line::{LineMatch, LineNearMiss};

/// The detector's name in `[completion] detectors`.
pub const NAME: &str = "marker";

/// Longer lines, in bytes, are prose.
const MAX_LINE: usize = 4096;
const MAX_SHOWN: usize = 200;
/// The number of passes that strip claims which other claims had hidden. One is enough for any prompt
/// that was not made to be slow.
const MAX_STRIPS: usize = 16;
const BOM: &str = "\u{feff}";

/// The options of the `marker` detector.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Keys {
    /// The word of the marker. At least four letters, digits, `_` or `-`, and no common word.
    word: String,
}

impl Default for Keys {
    fn default() -> Self {
        Self { word: "TASK_COMPLETE".into() }
    }
}

/// Builds the detector. Its one key is `word`, the marker's word, by default `TASK_COMPLETE`: at
/// least four letters, digits, `_` or `-`, and no common word.
///
/// # Errors
/// An unknown key, or a word that cannot be told from prose.
pub fn build(
    config: Value,
    _context: &BuildContext,
) -> Result<Box<dyn CompletionDetector>, BuildError> {
    let Keys { word } = parse_config(config)?;
    word::check_distinct(&word, "take one like `TASK_COMPLETE`")
        .map_err(|what| BuildError::at("word", format!("the marker's word {what}")))?;
    // Lines are compared in this form too.
    Ok(Box::new(Marker { word: word.nfkc().collect() }))
}

struct Marker {
    word: String,
}

/// A line of the prompt that is a claim or a near miss.
struct MarkerLine<'a> {
    /// Its range with its line ending.
    range: Range<usize>,
    number: u64,
    text: &'a str,
    matched: LineMatch,
}

impl Marker {
    /// Finds claims and near misses, in order.
    fn find_lines<'a>(&self, prompt: &'a str) -> Vec<MarkerLine<'a>> {
        // Offsets are those of the prompt, but a byte order mark is no part of its Markdown.
        let bom = if prompt.starts_with(BOM) { BOM.len() } else { 0 };
        let body = prompt.get(bom..).unwrap_or_default();
        let mut structure = None;
        let mut found = Vec::new();
        for ((line, end), number) in text::lines(body).zip(1..) {
            let text = body.get(line.clone()).unwrap_or_default();
            if text.len() > MAX_LINE {
                continue;
            }
            let matched = line::classify(&text::normalise(text), &self.word);
            if matched == LineMatch::NoMatch {
                continue;
            }
            let structure = structure.get_or_insert_with(|| MarkdownStructure::parse(body));
            let indent = text.len() - text.trim_start().len();
            let matched = match (structure.context_at(line.start + indent), matched) {
                // Examples: the prompt's author shows the form of a marker.
                (
                    Some(
                        MarkdownContext::Fence | MarkdownContext::Indented | MarkdownContext::Html,
                    ),
                    _,
                ) => continue,
                (Some(MarkdownContext::Code), LineMatch::Claim) => {
                    LineMatch::NearMiss(LineNearMiss::Code)
                }
                (_, matched) => matched,
            };
            found.push(MarkerLine { range: bom + line.start..bom + end, number, text, matched });
        }
        found
    }

    /// Removes the lines that are claims; `None` if there are none.
    fn strip_once(&self, prompt: &str) -> Option<String> {
        let mut out = String::new();
        let mut kept = 0;
        for found in self.find_lines(prompt) {
            if found.matched == LineMatch::Claim {
                out.push_str(prompt.get(kept..found.range.start).unwrap_or_default());
                kept = found.range.end;
            }
        }
        if kept == 0 {
            return None;
        }
        out.push_str(prompt.get(kept..).unwrap_or_default());
        Some(out)
    }

    fn near_miss(&self, found: &MarkerLine<'_>, why: LineNearMiss) -> NearMiss {
        let word = &self.word;
        NearMiss {
            detector: NAME.into(),
            text: truncate(found.text.trim(), MAX_SHOWN),
            line: found.number,
            hint: format!(
                "{}, so it is not a claim. To claim that the task is complete, put one of these on \
                 a line of its own, outside code and quotes: `- [x] {word}`, `[x] {word}`, \
                 `**{word}**`, `{word}`, `Status: {word}`",
                why.explain(word)
            ),
        }
    }
}

#[async_trait]
impl CompletionDetector for Marker {
    fn name(&self) -> &str {
        NAME
    }

    async fn inspect(&self, input: DetectorInput<'_>) -> Findings {
        let found = self.find_lines(input.prompt.unwrap_or_default());
        if let Some(claim) = found.iter().find(|found| found.matched == LineMatch::Claim) {
            let claim = Claim {
                kind: ClaimKind::Complete,
                detector: NAME.into(),
                source: ClaimSource::State,
                text: truncate(&text::normalise(claim.text), MAX_SHOWN),
            };
            return Findings { claims: vec![claim], ..Findings::default() };
        }
        let near_misses = found
            .iter()
            .filter_map(|found| match found.matched {
                LineMatch::NearMiss(why) => Some(self.near_miss(found, why)),
                LineMatch::Claim | LineMatch::NoMatch => None,
            })
            .take(MAX_NEAR_MISSES)
            .collect();
        Findings { near_misses, ..Findings::default() }
    }

    async fn strip_claims<'a>(&self, prompt: &'a str) -> Cow<'a, str> {
        let mut stripped = Cow::Borrowed(prompt);
        // Without a claim's line, what follows may parse differently: a fence in a list item whose text was
        // the claim ends elsewhere, and its content is a claim now.
        for _ in 0..MAX_STRIPS {
            match self.strip_once(&stripped) {
                Some(again) => stripped = Cow::Owned(again),
                None => break,
            }
        }
        stripped
    }

    fn instructions(&self) -> String {
        format!(
            "When the task is complete and you have checked that it is, put the line `- [x] {}` into \
             the prompt file, on a line of its own and not in a code block or quote.",
            self.word
        )
    }

    fn forms(&self) -> Vec<String> {
        vec![self.word.clone()]
    }
}
