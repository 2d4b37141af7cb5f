//! Tokens that a session has used, as the transcript of its agent tells.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use ralph_orchestrator_contract::Tokens;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The longest line that is read; of a longer one nothing is counted.
const LONGEST_LINE: u64 = 16 << 20;

/// How far a transcript was counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TranscriptPosition {
    /// Bytes that were read, whole lines.
    bytes: u64,
    /// The last message that was counted: the agent writes each of them in several lines.
    last_message: Option<String>,
    /// What Codex has used since its session began.
    total: Tokens,
}

/// What was used since the position before.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct SessionUsage {
    pub(crate) tokens: Tokens,
    pub(crate) model: Option<String>,
}

impl TranscriptPosition {
    /// Counts what follows the position, and moves it. A transcript that cannot be read counts nothing.
    pub(crate) fn count(&mut self, path: &Path) -> SessionUsage {
        self.try_count(path).unwrap_or_default()
    }

    /// Skips what is there: it was used before.
    pub(crate) fn skip(&mut self, path: &Path) {
        drop(self.try_count(path));
    }

    fn try_count(&mut self, path: &Path) -> std::io::Result<SessionUsage> {
        let mut file = File::open(path)?;
        if !file.metadata()?.is_file() {
            return Ok(SessionUsage::default());
        }
        if file.metadata()?.len() < self.bytes {
            // It is another one.
            *self = Self::default();
        }
        file.seek(SeekFrom::Start(self.bytes))?;
        let mut reader = BufReader::new(file);
        let mut messages: BTreeMap<String, Tokens> = BTreeMap::new();
        let mut usage = SessionUsage::default();
        let mut last_message = None;
        loop {
            let mut line = Vec::new();
            let read = reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)?;
            if read == 0 || line.last() != Some(&b'\n') {
                break;
            }
            self.bytes = self.bytes.saturating_add(u64::try_from(read).unwrap_or_default());
            let Ok(value) = serde_json::from_slice::<Value>(&line) else { continue };
            if let Some((id, tokens)) = claude_message(&value) {
                usage.model = text(&value, "/message/model").or(usage.model);
                if self.last_message.as_ref() != Some(&id) {
                    last_message = Some(id.clone());
                    messages.insert(id, tokens);
                }
            } else if let Some(total) = codex_total(&value) {
                let more = difference(total, self.total);
                usage.tokens += more;
                self.total = self.total.max(total);
            } else if let Some(model) = text(&value, "/payload/model") {
                usage.model = Some(model);
            }
        }
        self.last_message = last_message.or(self.last_message.take());
        usage.tokens = messages.into_values().fold(usage.tokens, |sum, tokens| sum + tokens);
        Ok(usage)
    }
}

/// What one message of Claude Code has used, and its id.
fn claude_message(value: &Value) -> Option<(String, Tokens)> {
    if value.get("type")?.as_str()? != "assistant" {
        return None;
    }
    let id = text(value, "/message/id")?;
    let count = |name: &str| {
        value.pointer(&format!("/message/usage/{name}")).and_then(Value::as_u64).unwrap_or_default()
    };
    let tokens = Tokens {
        input: count("input_tokens"),
        output: count("output_tokens"),
        cache_read: count("cache_read_input_tokens"),
        cache_write: count("cache_creation_input_tokens"),
    };
    Some((id, tokens))
}

/// What a session of Codex has used in all.
fn codex_total(value: &Value) -> Option<Tokens> {
    let total = value.pointer("/payload/info/total_token_usage")?;
    let count = |name: &str| total.get(name).and_then(Value::as_u64).unwrap_or_default();
    let cached = count("cached_input_tokens");
    Some(Tokens {
        input: count("input_tokens").saturating_sub(cached),
        output: count("output_tokens"),
        cache_read: cached,
        cache_write: 0,
    })
}

fn text(value: &Value, pointer: &str) -> Option<String> {
    value.pointer(pointer).and_then(Value::as_str).map(str::to_owned)
}

fn difference(now: Tokens, before: Tokens) -> Tokens {
    Tokens {
        input: now.input.saturating_sub(before.input),
        output: now.output.saturating_sub(before.output),
        cache_read: now.cache_read.saturating_sub(before.cache_read),
        cache_write: now.cache_write.saturating_sub(before.cache_write),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn assistant(id: &str, output: u64) -> String {
        format!(
            "{{\"type\":\"assistant\",\"message\":{{\"id\":\"{id}\",\"model\":\"m\",\"usage\":{{\
             \"input_tokens\":3,\"output_tokens\":{output},\"cache_read_input_tokens\":5}}}}}}\n"
        )
    }

    #[test]
    fn each_message_counts_once_and_nothing_before_the_position() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut position = TranscriptPosition::default();
        write!(file, "{}", assistant("a", 1)).unwrap();
        position.skip(file.path());
        writeln!(file, "{}{}no json", assistant("b", 7), assistant("b", 7)).unwrap();
        let used = position.count(file.path());
        assert_eq!(used.tokens, Tokens { input: 3, output: 7, cache_read: 5, cache_write: 0 });
        assert_eq!(used.model.as_deref(), Some("m"));
        // The last block of the same message, and a line that is not complete yet.
        write!(file, "{}{}", assistant("b", 7), assistant("c", 9).trim_end()).unwrap();
        assert_eq!(position.count(file.path()).tokens, Tokens::default());
        writeln!(file).unwrap();
        assert_eq!(position.count(file.path()).tokens.output, 9);
        // A shorter file is another one.
        std::fs::write(file.path(), assistant("d", 2)).unwrap();
        assert_eq!(position.count(file.path()).tokens.output, 2);
        assert_eq!(position.count(Path::new("/nonexistent")), SessionUsage::default());
    }

    #[test]
    fn a_total_counts_by_what_it_grew() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut position = TranscriptPosition::default();
        let line = |input: u64, output: u64| {
            format!(
                "{{\"type\":\"event_msg\",\"payload\":{{\"type\":\"token_count\",\"info\":{{\"total_token_usage\":\
                 {{\"input_tokens\":{input},\"cached_input_tokens\":4,\"output_tokens\":{output}}}}}}}}}\n"
            )
        };
        write!(file, "{}{}", line(10, 1), line(20, 3)).unwrap();
        let used = position.count(file.path());
        assert_eq!(used.tokens, Tokens { input: 16, output: 3, cache_read: 4, cache_write: 0 });
        write!(file, "{}", line(21, 5)).unwrap();
        let used = position.count(file.path());
        assert_eq!(used.tokens, Tokens { input: 1, output: 2, cache_read: 0, cache_write: 0 });
    }
}
