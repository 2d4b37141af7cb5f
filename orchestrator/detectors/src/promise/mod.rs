//! A tag in the agent's final message that says the task is complete, or that a human is needed.

mod echo;
mod tags;

use ralph_orchestrator_contract::{
    BuildContext, BuildError, Claim, ClaimKind, ClaimSource, CompletionDetector, Findings,
    NearMiss, View, async_trait, parse_config,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::{MAX_NEAR_MISSES, text, word};
use echo::{Given, MOST_CLAIMS};
use tags::{Message, NotQuite, Pair};

/// The detector's name in `[completion] detectors`.
pub const NAME: &str = "promise";

const LONGEST_TEXT: usize = 4096;
const LONGEST_SHOWN: usize = 200;

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

/// What stands between an opening and a closing tag.
enum Content<'a> {
    Claim(ClaimKind, &'a str),
    NotQuite(NotQuite),
    /// Nothing that was meant as a claim.
    Other,
}

impl Promise {
    fn read<'a>(&self, content: &'a str) -> Content<'a> {
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
            Content::NotQuite(NotQuite::Keyword)
        } else {
            Content::Other
        }
    }

    /// Whether text begins as the content of a tag would, in any case.
    fn begins(&self, content: &str) -> bool {
        let content = content.trim_start_matches(is_blank);
        [&self.config.complete, &self.config.needs_human].iter().any(|word| {
            content.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word))
        })
    }

    fn judge<'a>(&self, message: &Message<'a>, pair: &Pair) -> Content<'a> {
        let Some(closing) = &pair.closing else {
            return if self.begins(message.after(&pair.opening)) {
                Content::NotQuite(NotQuite::Unclosed)
            } else {
                Content::Other
            };
        };
        match (self.read(message.between(&pair.opening, closing)), message.flaw(pair)) {
            (Content::Other, _) => Content::Other,
            (_, Some(flaw)) => Content::NotQuite(flaw),
            (content, None) => content,
        }
    }

    fn near_miss(&self, message: &Message<'_>, pair: &Pair, why: NotQuite) -> NearMiss {
        let Keys { tag, complete, needs_human } = &self.config;
        let (line, shown) = message.line_of(&pair.opening);
        NearMiss {
            detector: NAME.into(),
            text: text::cut(self.without_claims(shown.trim()).trim(), LONGEST_SHOWN),
            line,
            hint: format!(
                "{}, so it claims nothing. To claim that the task is complete, end your final \
                 message with a line `<{tag}>{complete}: what was done</{tag}>`, and say after the \
                 colon in your own words what was done; to ask for a human, with \
                 `<{tag}>{needs_human}: what is needed</{tag}>`; as plain text, outside code and \
                 quotes, with nothing after it on its line",
                why.explain(tag, complete, needs_human)
            ),
        }
    }

    /// The line without the messages of the claims in it. The agent is told the line: a claim that it
    /// puts right must not be an echo of what it was told.
    fn without_claims(&self, line: &str) -> String {
        let Some(message) = Message::of(line, &self.config.tag) else { return line.to_owned() };
        let (mut out, mut kept) = (String::new(), 0);
        for between in message.contents() {
            let content = line.get(between.clone()).unwrap_or_default();
            let Content::Claim(_, text) = self.read(content) else { continue };
            let Some(at) = content.rfind(text).filter(|_| !text.is_empty()) else { continue };
            out.push_str(line.get(kept..between.start + at).unwrap_or_default());
            out.push('…');
            kept = between.start + at + text.len();
        }
        out.push_str(line.get(kept..).unwrap_or_default());
        out
    }

    fn find(&self, final_text: &str, given: Option<&str>) -> Findings {
        let clean = text::strip_ansi(final_text);
        let Some(message) = Message::of(&clean, &self.config.tag) else {
            return Findings::default();
        };
        let (mut complete, mut needs_human) = (Vec::new(), Vec::new());
        let mut near_misses = Vec::new();
        for pair in message.pairs() {
            match self.judge(&message, &pair) {
                Content::Claim(ClaimKind::Complete, text) => complete.push((pair, text)),
                Content::Claim(ClaimKind::NeedsHuman, text) => needs_human.push((pair, text)),
                Content::NotQuite(why) if near_misses.len() < MAX_NEAR_MISSES => {
                    near_misses.push(self.near_miss(&message, &pair, why));
                }
                Content::NotQuite(_) | Content::Other => {}
            }
        }
        let given = (!complete.is_empty() || !needs_human.is_empty())
            .then(|| Given::of(given.unwrap_or_default()));
        let (mut claims, mut echoes) = (Vec::new(), Vec::new());
        for (kind, made) in [(ClaimKind::Complete, complete), (ClaimKind::NeedsHuman, needs_human)]
        {
            match (self.last_own(kind, &made, given.as_ref()), made.last()) {
                (Some(text), _) => claims.push(claim(kind, text)),
                (None, Some((pair, _))) => {
                    echoes.push(self.near_miss(&message, pair, NotQuite::Echo));
                }
                (None, None) => {}
            }
        }
        if claims.is_empty() {
            // First what keeps the agent from being believed.
            echoes.append(&mut near_misses);
            echoes.truncate(MAX_NEAR_MISSES);
        } else {
            echoes.clear();
        }
        Findings { claims, near_misses: echoes, ..Findings::default() }
    }

    /// The last claim of a kind that is no echo: the last word counts, as in a conversation.
    fn last_own<'a>(
        &self,
        kind: ClaimKind,
        made: &[(Pair, &'a str)],
        given: Option<&Given>,
    ) -> Option<&'a str> {
        let Keys { tag, complete, needs_human } = &self.config;
        let word = match kind {
            ClaimKind::Complete => complete,
            ClaimKind::NeedsHuman => needs_human,
        };
        let mut texts: Vec<&str> = made.iter().rev().map(|(_, text)| *text).collect();
        texts.dedup();
        let echoed = |text: &str| given.is_some_and(|given| given.has(tag, word, text));
        texts.into_iter().take(MOST_CLAIMS).find(|text| !echoed(text))
    }
}

fn claim(kind: ClaimKind, message: &str) -> Claim {
    Claim {
        kind,
        detector: NAME.into(),
        source: ClaimSource::Message,
        text: text::cut(message, LONGEST_TEXT),
    }
}

fn is_blank(c: char) -> bool {
    c.is_whitespace() || text::is_zero_width(c)
}

#[async_trait]
impl CompletionDetector for Promise {
    fn name(&self) -> &str {
        NAME
    }

    async fn inspect(&self, view: View<'_>) -> Findings {
        view.final_text.map(|text| self.find(text, view.given)).unwrap_or_default()
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
