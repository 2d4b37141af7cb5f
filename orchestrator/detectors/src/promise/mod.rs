//! A tag in the agent's final message that says the task is complete, or that a human is needed.

mod echo;
mod tags;

use ralph_orchestrator_contract::{
    BuildContext, BuildError, Claim, ClaimKind, ClaimSource, CompletionDetector, DetectorInput,
    Findings, NearMiss, async_trait, parse_config,
};
use ralph_orchestrator_text::{is_zero_width, strip_escape_sequences, truncate};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::{MAX_NEAR_MISSES, word};

use echo::{AgentInput, MAX_CLAIMS};
use tags::{Message, Pair, TagNearMiss};

/// The detector's name in `[completion] detectors`.
pub const NAME: &str = "promise";

const MAX_TEXT: usize = 4096;
const MAX_SHOWN: usize = 200;

/// The options of the `promise` detector.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Keys {
    /// The word of the tag. At least four letters, digits, `_` or `-`, and no common word.
    tag: String,
    /// The word in it that claims completion.
    complete: String,
    /// The word in it that asks for a human.
    needs_human: String,
}

impl Default for Keys {
    fn default() -> Self {
        Self {
            tag: "promise".into(),
            complete: "COMPLETE".into(),
            needs_human: "NEEDS_HUMAN".into(),
        }
    }
}

/// Builds the detector. Its keys are `tag`, the tag's word (default `promise`), and the two words
/// that may stand in it, `complete` (default `COMPLETE`) and `needs_human` (default `NEEDS_HUMAN`).
///
/// # Errors
/// An unknown key, a tag that cannot be told from prose or HTML, or two words that cannot be told
/// from each other.
pub fn build(
    config: Value,
    _context: &BuildContext,
) -> Result<Box<dyn CompletionDetector>, BuildError> {
    let config: Keys = parse_config(config)?;
    word::check_distinct(&config.tag, "take one like `promise`")
        .map_err(|what| BuildError::at("tag", format!("the tag's word {what}")))?;
    for (key, value) in [("complete", &config.complete), ("needs_human", &config.needs_human)] {
        word::check_form(value)
            .map_err(|what| BuildError::at(key, format!("the word for `{key}` {what}")))?;
    }
    if config.complete.to_lowercase() == config.needs_human.to_lowercase() {
        let same = &config.needs_human;
        let message = format!("`{same}` cannot mean both `complete` and `needs_human`");
        return Err(BuildError::at("needs_human", message));
    }
    Ok(Box::new(Promise { config }))
}

struct Promise {
    config: Keys,
}

/// The classified content of a pair of tags.
enum Content<'a> {
    Claim(ClaimKind, &'a str),
    NearMiss(TagNearMiss),
    /// Not meant as a claim.
    Other,
}

impl Promise {
    fn parse_content<'a>(&self, content: &'a str) -> Content<'a> {
        let content = content.trim_matches(is_blank);
        let Keys { complete, needs_human, .. } = &self.config;
        for (word, kind) in [(complete, ClaimKind::Complete), (needs_human, ClaimKind::NeedsHuman)]
        {
            let Some(rest) = content.strip_prefix(word.as_str()) else { continue };
            let rest = rest.trim_start_matches(is_blank);
            if let Some(message) = rest.strip_prefix([':', '：']) {
                return Content::Claim(kind, message.trim_matches(is_blank));
            }
            if rest.is_empty() {
                return Content::Claim(kind, "");
            }
        }
        if content.contains(char::is_alphanumeric) {
            Content::NearMiss(TagNearMiss::Keyword)
        } else {
            Content::Other
        }
    }

    /// Whether text begins like the content of a tag, in any letter case.
    fn begins_with_keyword(&self, content: &str) -> bool {
        let content = content.trim_start_matches(is_blank);
        [&self.config.complete, &self.config.needs_human].iter().any(|word| {
            content.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word))
        })
    }

    fn classify<'a>(&self, message: &Message<'a>, pair: &Pair) -> Content<'a> {
        let Some(closing) = &pair.closing else {
            return if self.begins_with_keyword(message.after(&pair.opening)) {
                Content::NearMiss(TagNearMiss::Unclosed)
            } else {
                Content::Other
            };
        };
        match (
            self.parse_content(message.between(&pair.opening, closing)),
            message.near_miss_reason(pair),
        ) {
            (Content::Other, _) => Content::Other,
            (_, Some(reason)) => Content::NearMiss(reason),
            (content, None) => content,
        }
    }

    fn near_miss(&self, message: &Message<'_>, pair: &Pair, why: TagNearMiss) -> NearMiss {
        let Keys { tag, complete, needs_human } = &self.config;
        let (line, shown) = message.line_of(&pair.opening);
        NearMiss {
            detector: NAME.into(),
            text: truncate(self.without_claims(shown.trim()).trim(), MAX_SHOWN),
            line,
            hint: format!(
                "{}, so it is not a claim. To claim that the task is complete, end your final \
                 message with a line `<{tag}>{complete}: what was done</{tag}>`, and say after the \
                 colon in your own words what was done; to ask for a human, with \
                 `<{tag}>{needs_human}: what is needed</{tag}>`; as plain text, outside code and \
                 quotes, with nothing after it on its line",
                why.explain(tag, complete, needs_human)
            ),
        }
    }

    /// Removes the messages of claims from a line. The agent is shown the line, and its corrected claim must
    /// not be an echo of it.
    fn without_claims(&self, line: &str) -> String {
        let Some(message) = Message::parse(line, &self.config.tag) else { return line.to_owned() };
        let (mut out, mut kept) = (String::new(), 0);
        for between in message.contents() {
            let content = line.get(between.clone()).unwrap_or_default();
            let Content::Claim(_, text) = self.parse_content(content) else { continue };
            let Some(at) = content.rfind(text).filter(|_| !text.is_empty()) else { continue };
            out.push_str(line.get(kept..between.start + at).unwrap_or_default());
            out.push('…');
            kept = between.start + at + text.len();
        }
        out.push_str(line.get(kept..).unwrap_or_default());
        out
    }

    fn find(&self, final_text: &str, given: Option<&str>) -> Findings {
        let clean = strip_escape_sequences(final_text);
        let Some(message) = Message::parse(&clean, &self.config.tag) else {
            return Findings::default();
        };
        let (mut complete, mut needs_human) = (Vec::new(), Vec::new());
        let mut near_misses = Vec::new();
        for pair in message.pairs() {
            match self.classify(&message, &pair) {
                Content::Claim(ClaimKind::Complete, text) => complete.push((pair, text)),
                Content::Claim(ClaimKind::NeedsHuman, text) => needs_human.push((pair, text)),
                Content::NearMiss(why) if near_misses.len() < MAX_NEAR_MISSES => {
                    near_misses.push(self.near_miss(&message, &pair, why));
                }
                Content::NearMiss(_) | Content::Other => {}
            }
        }
        let given = (!complete.is_empty() || !needs_human.is_empty())
            .then(|| AgentInput::new(given.unwrap_or_default()));
        let (mut claims, mut echoes) = (Vec::new(), Vec::new());
        for (kind, made) in [(ClaimKind::Complete, complete), (ClaimKind::NeedsHuman, needs_human)]
        {
            match (self.last_original(kind, &made, given.as_ref()), made.last()) {
                (Some(text), _) => claims.push(claim(kind, text)),
                (None, Some((pair, _))) => {
                    echoes.push(self.near_miss(&message, pair, TagNearMiss::Echo));
                }
                (None, None) => {}
            }
        }
        if claims.is_empty() {
            // Echoes first: they are why the agent has no claim.
            echoes.append(&mut near_misses);
            echoes.truncate(MAX_NEAR_MISSES);
        } else {
            echoes.clear();
        }
        Findings { claims, near_misses: echoes, ..Findings::default() }
    }

    /// Returns the last claim of a kind that is not an echo: later claims supersede earlier ones.
    fn last_original<'a>(
        &self,
        kind: ClaimKind,
        made: &[(Pair, &'a str)],
        given: Option<&AgentInput>,
    ) -> Option<&'a str> {
        let Keys { tag, complete, needs_human } = &self.config;
        let word = match kind {
            ClaimKind::Complete => complete,
            ClaimKind::NeedsHuman => needs_human,
        };
        let mut texts: Vec<&str> = made.iter().rev().map(|(_, text)| *text).collect();
        texts.dedup();
        let echoed = |text: &str| given.is_some_and(|given| given.contains(tag, word, text));
        texts.into_iter().take(MAX_CLAIMS).find(|text| !echoed(text))
    }
}

fn claim(kind: ClaimKind, message: &str) -> Claim {
    Claim {
        kind,
        detector: NAME.into(),
        source: ClaimSource::Message,
        text: truncate(message, MAX_TEXT),
    }
}

fn is_blank(c: char) -> bool {
    c.is_whitespace() || is_zero_width(c)
}

#[async_trait]
impl CompletionDetector for Promise {
    fn name(&self) -> &str {
        NAME
    }

    async fn inspect(&self, input: DetectorInput<'_>) -> Findings {
        input.final_text.map(|text| self.find(text, input.given)).unwrap_or_default()
    }

    fn instructions(&self) -> String {
        let Keys { tag, complete, needs_human } = &self.config;
        format!(
            "When the task is complete and you have checked that it is, end your final message with \
             a line `<{tag}>{complete}: what was done</{tag}>`, in your own words after the colon, as \
             plain text, not in a code block or quote. If you cannot go on without a human, end it with \
             `<{tag}>{needs_human}: what is needed</{tag}>` instead."
        )
    }

    fn forms(&self) -> Vec<String> {
        vec![format!("<{}>", self.config.tag)]
    }
}
