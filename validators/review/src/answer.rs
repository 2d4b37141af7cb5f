//! The verdict in what the agent says last.

use std::fmt::Write as _;

use ralph_orchestrator_contract::Verdict;
use ralph_orchestrator_text::{escape_line, one_line};
use serde::Deserialize;

/// The last part of the message in which the object has to be, in bytes.
const LONGEST_OBJECT: usize = 128 * 1024;
/// Findings that are kept; what is more is counted.
const MOST_FINDINGS: usize = 40;
/// Characters of a finding, and of the name of its file.
const LONGEST_FINDING: usize = 2_000;
const LONGEST_NAME: usize = 200;
/// How much is shown of a message without a verdict.
const SHOWN: usize = 200;

/// The object that ends the message.
#[derive(Debug, Deserialize)]
struct Answer {
    verdict: Word,
    #[serde(default)]
    findings: Vec<Finding>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Accept,
    Reject,
}

#[derive(Debug, Deserialize)]
struct Finding {
    #[serde(default)]
    file: Option<String>,
    #[serde(default)]
    line: Option<u64>,
    #[serde(default)]
    severity: Option<String>,
    text: String,
}

/// Returns the verdict. The object has to be the end of the message: an object before it, such as one that is quoted, counts
/// for nothing, also where the last one is cut off or wrong.
pub(crate) fn read(message: &str) -> Verdict {
    let Some(object) = find_last_object(message) else {
        let shown = match message.trim() {
            "" => "it is empty".to_owned(),
            text => format!("it ends with: {}", one_line(&tail(text, SHOWN), SHOWN)),
        };
        return Verdict::Error {
            message: format!("the review's last message does not end with a JSON object; {shown}"),
        };
    };
    match serde_json::from_str::<Answer>(object) {
        Ok(answer) => answer.into_verdict(),
        Err(error) => Verdict::Error {
            message: format!("the JSON object that ends the review is not a verdict: {error}"),
        },
    }
}

/// Returns the JSON object with which the message ends, white space and the end of a block of code aside.
fn find_last_object(message: &str) -> Option<&str> {
    let message = message.trim_end();
    let message = message.strip_suffix("```").unwrap_or(message).trim_end();
    if !message.ends_with('}') {
        return None;
    }
    let begin = message.ceil_char_boundary(message.len().saturating_sub(LONGEST_OBJECT));
    let last = message.get(begin..)?;
    let starts = last.match_indices('{').map(|(at, _)| at);
    let mut objects = starts.filter_map(|at| last.get(at..));
    // The outermost comes first: what is within it ends before the message does.
    objects.find(|text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok())
}

/// Returns the last characters of a text.
fn tail(text: &str, most: usize) -> String {
    let skipped = text.chars().count().saturating_sub(most);
    text.chars().skip(skipped).collect()
}

impl Answer {
    fn into_verdict(self) -> Verdict {
        let total = self.findings.len();
        let mut lines: Vec<String> =
            self.findings.iter().take(MOST_FINDINGS).map(Finding::line).collect();
        lines.extend(
            (total > MOST_FINDINGS).then(|| format!("and {} more findings", total - MOST_FINDINGS)),
        );
        match self.verdict {
            Word::Accept => {
                let mut summary = "the review accepts".to_owned();
                if total > 0 {
                    let what = if total == 1 { "finding" } else { "findings" };
                    // Writing to a String cannot fail.
                    let _ = write!(summary, ", with {total} {what}: {}", lines.join("; "));
                }
                Verdict::Accepted { summary, evidence: Vec::new() }
            }
            Word::Reject if lines.is_empty() => {
                Verdict::rejected("the review rejects the work without a finding")
            }
            Word::Reject => Verdict::Rejected { reasons: lines },
        }
    }
}

impl Finding {
    /// Returns the finding on one line.
    fn line(&self) -> String {
        let mut line = String::new();
        if let Some(file) = self.file.as_deref().filter(|file| !file.is_empty()) {
            line.push_str(&one_line(file, LONGEST_NAME));
            if let Some(number) = self.line {
                let _ = write!(line, ":{number}");
            }
            line.push_str(": ");
        }
        if let Some(severity) = self.severity.as_deref().filter(|word| !word.is_empty()) {
            let _ = write!(line, "{}: ", escape_line(&one_line(severity, LONGEST_NAME)));
        }
        line.push_str(&one_line(&self.text, LONGEST_FINDING));
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCEPT: &str = r#"{"verdict": "accept", "findings": []}"#;
    const REJECT: &str = r#"{"verdict": "reject", "findings": [{"file": "a.rs", "line": 3, "severity": "high", "text": "leaks"}]}"#;

    fn word(message: &str) -> &'static str {
        match read(message) {
            Verdict::Accepted { .. } => "accepted",
            Verdict::Rejected { .. } => "rejected",
            Verdict::Error { .. } => "error",
        }
    }

    #[test]
    fn only_the_object_that_ends_the_message_counts() {
        let cut = REJECT.strip_suffix("]}").unwrap();
        let nested = format!(r#"{{"verdict": "reject", "findings": [{{"text": {ACCEPT:?}}}]}}"#);
        let cases: &[(String, &str)] = &[
            (ACCEPT.to_owned(), "accepted"),
            (format!("Fine.\n```json\n{ACCEPT}\n```\n"), "accepted"),
            (format!("The code says {ACCEPT}.\n{REJECT}"), "rejected"),
            (format!("{REJECT} is what a comment wants. {ACCEPT}"), "accepted"),
            (nested, "rejected"),
            // Whatever is quoted before it.
            (format!("The code says {ACCEPT}, so I refuse."), "error"),
            (format!("{ACCEPT}\n{cut}"), "error"),
            (format!("{ACCEPT}\n{{\"verdict\": \"perhaps\"}}"), "error"),
            (format!("{ACCEPT}\n{{}}"), "error"),
            (r#"{"verdict": "reject", "verdict": "accept"}"#.to_owned(), "error"),
            (r#"{"verdict": "accept", "findings": [{"file": "a"}]}"#.to_owned(), "error"),
            (format!("[{ACCEPT}]"), "error"),
            ("I cannot help with that.".to_owned(), "error"),
            (String::new(), "error"),
        ];
        for (message, expected) in cases {
            assert_eq!(word(message), *expected, "{message}");
        }
    }

    #[test]
    fn findings_are_reasons_on_one_line_each() {
        let Verdict::Rejected { reasons } = read(REJECT) else { panic!() };
        assert_eq!(reasons, ["a.rs:3: high: leaks"]);
        let message = r#"{"verdict":"reject","findings":[{"text":"a\nb\u001b[31m","line":4}]}"#;
        let Verdict::Rejected { reasons } = read(message) else { panic!() };
        assert!(reasons.len() == 1 && !reasons[0].contains(['\n', '\u{1b}']), "{reasons:?}");
        assert_eq!(read(r#"{"verdict":"reject"}"#), {
            Verdict::rejected("the review rejects the work without a finding")
        });
        let many = format!(
            r#"{{"verdict":"accept","findings":[{}]}}"#,
            [r#"{"text":"x"}"#; MOST_FINDINGS + 2].join(",")
        );
        let Verdict::Accepted { summary, .. } = read(&many) else { panic!() };
        assert!(summary.starts_with("the review accepts, with 42 findings: x; "), "{summary}");
        assert!(summary.ends_with("and 2 more findings"), "{summary}");
    }
}
