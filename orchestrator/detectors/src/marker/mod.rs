//! A line in the prompt file that says the task is complete.

mod line;

use std::borrow::Cow;
use std::ops::Range;

use ralph_orchestrator_contract::{
    BuildContext, BuildError, Claim, ClaimKind, ClaimSource, CompletionDetector, Findings,
    NearMiss, View, async_trait, parse_config,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use unicode_normalization::UnicodeNormalization as _;

use crate::structure::{Inside, Structure};
use crate::{MAX_NEAR_MISSES, text, word};
use line::{NotQuite, Reading};

/// The detector's name in `[completion] detectors`.
pub const NAME: &str = "marker";

/// Lines longer than this, in bytes, are prose, and not worth normalising.
const LONGEST_LINE: usize = 4096;
const LONGEST_SHOWN: usize = 200;
/// How often a prompt is read again for claims that were hidden by others. One is more than enough
/// for any prompt but one that was made to take long.
const MOST_STRIPS: usize = 16;
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

/// A line of the prompt that has to do with the marker.
struct Found<'a> {
    /// With its line ending.
    whole: Range<usize>,
    number: u64,
    text: &'a str,
    reading: Reading,
}

impl Marker {
    /// The lines that are claims or nearly so, in order.
    fn look<'a>(&self, prompt: &'a str) -> Vec<Found<'a>> {
        // Offsets are those of the prompt, but a byte order mark is no part of its Markdown.
        let bom = if prompt.starts_with(BOM) { BOM.len() } else { 0 };
        let body = prompt.get(bom..).unwrap_or_default();
        let mut structure = None;
        let mut found = Vec::new();
        for ((line, end), number) in text::lines(body).zip(1..) {
            let text = body.get(line.clone()).unwrap_or_default();
            if text.len() > LONGEST_LINE {
                continue;
            }
            let reading = line::read(&text::normalise(text), &self.word);
            if reading == Reading::Nothing {
                continue;
            }
            let structure = structure.get_or_insert_with(|| Structure::of(body));
            let indent = text.len() - text.trim_start().len();
            let reading = match (structure.at(line.start + indent), reading) {
                // That is where examples stand: the prompt's author shows what a marker looks like.
                (Some(Inside::Fence | Inside::Indented | Inside::Html), _) => continue,
                (Some(Inside::Code), Reading::Claim) => Reading::NotQuite(NotQuite::Code),
                (_, reading) => reading,
            };
            found.push(Found { whole: bom + line.start..bom + end, number, text, reading });
        }
        found
    }

    /// The prompt without the lines that are claims; `None` if there are none.
    fn strip_once(&self, prompt: &str) -> Option<String> {
        let mut out = String::new();
        let mut kept = 0;
        for found in self.look(prompt) {
            if found.reading == Reading::Claim {
                out.push_str(prompt.get(kept..found.whole.start).unwrap_or_default());
                kept = found.whole.end;
            }
        }
        if kept == 0 {
            return None;
        }
        out.push_str(prompt.get(kept..).unwrap_or_default());
        Some(out)
    }

    fn near_miss(&self, found: &Found<'_>, why: NotQuite) -> NearMiss {
        let word = &self.word;
        NearMiss {
            detector: NAME.into(),
            text: text::cut(found.text.trim(), LONGEST_SHOWN),
            line: found.number,
            hint: format!(
                "{}, so it claims nothing. To claim that the task is complete, put one of these on \
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

    async fn inspect(&self, view: View<'_>) -> Findings {
        let found = self.look(view.prompt.unwrap_or_default());
        if let Some(claim) = found.iter().find(|found| found.reading == Reading::Claim) {
            let claim = Claim {
                kind: ClaimKind::Complete,
                detector: NAME.into(),
                source: ClaimSource::State,
                text: text::cut(&text::normalise(claim.text), LONGEST_SHOWN),
            };
            return Findings { claims: vec![claim], ..Findings::default() };
        }
        let near_misses = found
            .iter()
            .filter_map(|found| match found.reading {
                Reading::NotQuite(why) => Some(self.near_miss(found, why)),
                Reading::Claim | Reading::Nothing => None,
            })
            .take(MAX_NEAR_MISSES)
            .collect();
        Findings { near_misses, ..Findings::default() }
    }

    async fn strip_claims<'a>(&self, prompt: &'a str) -> Cow<'a, str> {
        let mut stripped = Cow::Borrowed(prompt);
        // Without a claim's line, what follows it may be read otherwise: a fence in a list item whose
        // text was the claim ends elsewhere, and what stood in it is a claim now.
        for _ in 0..MOST_STRIPS {
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
