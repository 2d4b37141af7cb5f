//! JSON objects that say at their top level how something went.

use serde::de::IgnoredAny;

use super::{Failure, at};

const TOOL: &str = "JSON status";

/// Whether the text is a JSON object, and then the failure that it reports.
pub(super) fn find(text: &str) -> Option<Option<Failure>> {
    if !text.trim_start().starts_with('{') || serde_json::from_str::<IgnoredAny>(text).is_err() {
        return None;
    }
    let failed = Members { text, at: text.find('{')? + 1 }
        .find(|member| says_no(&unquote(member.key), member.value));
    Some(failed.map(|member| at(text, member.at, TOOL)))
}

fn says_no(key: &str, value: &str) -> bool {
    let no = ["fail", "failed", "failure", "error"];
    match key {
        "status" if value.starts_with('"') => {
            let word = unquote(value);
            no.iter().any(|no| word.eq_ignore_ascii_case(no))
        }
        "status" | "status_code" | "statusCode" => {
            value.parse().is_ok_and(|code: u16| (500..600).contains(&code))
        }
        "success" | "ok" | "passed" => value == "false",
        _ => false,
    }
}

fn unquote(text: &str) -> String {
    serde_json::from_str(text).unwrap_or_default()
}

/// A member of an object.
struct Member<'a> {
    /// The first byte of its key in the document.
    at: usize,
    /// As it is written, with quotes.
    key: &'a str,
    /// As it is written; of an array or object no more than its first byte.
    value: &'a str,
}

/// The members of the outermost object. The text is known to be JSON.
struct Members<'a> {
    text: &'a str,
    /// After the byte that opens the object, or after a member.
    at: usize,
}

impl<'a> Members<'a> {
    /// The string that begins at this byte, with its quotes.
    fn string(&self, start: usize) -> Option<&'a str> {
        let mut escaped = false;
        let rest = self.text.get(start..)?;
        for (index, byte) in rest.bytes().enumerate().skip(1) {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => return rest.get(..=index),
                _ => {}
            }
        }
        None
    }

    /// The first byte from here on that is no white space.
    fn skip_space(&self, from: usize) -> Option<usize> {
        let rest = self.text.get(from..)?;
        Some(from + rest.find(|c: char| !c.is_ascii_whitespace())?)
    }

    /// The end of the array or object that begins at this byte.
    fn end_of_nested(&self, start: usize) -> Option<usize> {
        let (mut depth, mut at) = (0_usize, start);
        loop {
            match self.text.as_bytes().get(at)? {
                b'"' => {
                    at += self.string(at)?.len();
                    continue;
                }
                b'[' | b'{' => depth += 1,
                b']' | b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            at += 1;
            if depth == 0 {
                return Some(at);
            }
        }
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = Member<'a>;

    fn next(&mut self) -> Option<Member<'a>> {
        let mut start = self.skip_space(self.at)?;
        if self.text.as_bytes().get(start) == Some(&b',') {
            start = self.skip_space(start + 1)?;
        }
        let key = self.string(start).filter(|key| key.starts_with('"'))?;
        let colon = self.skip_space(start + key.len())?;
        let begin = self.skip_space(colon + 1)?;
        let rest = self.text.get(begin..)?;
        let value = match rest.as_bytes().first()? {
            b'"' => self.string(begin)?,
            b'[' | b'{' => rest.get(..1)?,
            _ => rest.split([',', '}', ' ', '\t', '\r', '\n']).next()?,
        };
        self.at = match value {
            "[" | "{" => self.end_of_nested(begin)?,
            value => begin + value.len(),
        };
        Some(Member { at: start, key, value })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value};

    use super::*;

    /// Values of all kinds, nested, with everything in their strings that could mislead a scanner.
    fn value() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            Just("fail".to_owned()),
            Just("Error".to_owned()),
            Just("passed".to_owned()),
            "[a\"\\\\{}:,\\[\\]\n é]{0,6}",
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (490..610_i64).prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            text.prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                object(inner).prop_map(Value::Object),
            ]
        })
    }

    fn object(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
        let key = prop_oneof![
            Just("status".to_owned()),
            Just("statusCode".to_owned()),
            Just("ok".to_owned()),
            "[a\"\\\\{}:,é]{0,4}",
        ];
        prop::collection::vec((key, inner), 0..5).prop_map(Map::from_iter)
    }

    fn expected((key, value): (&String, &Value)) -> bool {
        let class_5 = || value.as_u64().is_some_and(|code| (500..600).contains(&code));
        match key.as_str() {
            "status" => class_5() || matches!(value.as_str(), Some("fail" | "Error")),
            "statusCode" => class_5(),
            "ok" => *value == Value::Bool(false),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn only_the_top_level_decides(object in object(value()), pretty in any::<bool>()) {
            let reports = object.iter().any(expected);
            let value = Value::Object(object);
            let text = if pretty { format!(" {value:#}\n") } else { value.to_string() };
            prop_assert_eq!(find(&text).map(|found| found.is_some()), Some(reports), "{}", text);
            if let Some(Some(failure)) = find(&text).filter(|_| pretty) {
                prop_assert_eq!(text.lines().nth(failure.line - 1).unwrap().trim(), failure.text);
            }
        }
    }
}
