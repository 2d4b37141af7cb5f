//! Whether a file's content is what its name says.

use std::io::Cursor;

use png::{Decoder, Limits, Transformations};
use ralph_orchestrator_text::is_zero_width;
use serde::de::IgnoredAny;

use crate::cooperative::{Cancellable, STRIDE, Yielder};

/// Pixels of an image.
const MOST_PIXELS: u64 = 64 << 20;
/// Memory for decoding an image, in bytes.
const DECODER_MEMORY: usize = 64 << 20;
/// Arrays and objects within each other.
const DEEPEST_JSON: usize = 128;

/// What a file's content is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content<'a> {
    /// Text or JSON.
    Text(&'a str),
    /// Anything else.
    Binary,
}

/// Extensions whose files have to be text.
const TEXT: &[&str] = &[
    "csv", "diff", "err", "htm", "html", "jsonl", "log", "md", "ndjson", "out", "patch", "svg",
    "tap", "toml", "tsv", "txt", "xml", "yaml", "yml",
];

/// Checks the content of a file with this extension. The inner error says what is wrong with it.
pub(crate) async fn check<'a>(
    content: &'a [u8],
    extension: &str,
    min_side: u32,
    yielder: &mut Yielder<'_>,
) -> Cancellable<Result<Content<'a>, String>> {
    Ok(match extension {
        "png" => image(content, min_side, yielder).await?.map(|()| Content::Binary),
        "json" => text(content).and_then(json).map(Content::Text),
        other if TEXT.contains(&other) => text(content).map(Content::Text),
        _ if content.iter().all(u8::is_ascii_whitespace) => Err("holds only white space".into()),
        _ => Ok(Content::Binary),
    })
}

fn text(content: &[u8]) -> Result<&str, String> {
    let text = std::str::from_utf8(content)
        .map_err(|error| format!("is not UTF-8 text (byte {})", error.valid_up_to() + 1))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if let Some(at) = text.find('\0') {
        return Err(format!("is not text: it has a NUL byte (byte {})", at + 1));
    }
    if text.chars().all(|c| c.is_whitespace() || is_zero_width(c)) {
        return Err("holds only white space".into());
    }
    Ok(text)
}

fn json(text: &str) -> Result<&str, String> {
    // The parser below does not recurse, but others that read the evidence later might.
    if is_deep(text) {
        return Err(format!("is JSON nested deeper than {DEEPEST_JSON} levels"));
    }
    match serde_json::from_str::<IgnoredAny>(text) {
        Ok(_) => Ok(text),
        Err(error) => Err(format!("is not JSON: {error}")),
    }
}

fn is_deep(text: &str) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEEPEST_JSON {
            return true;
        }
    }
    false
}

/// Decodes a PNG image to its end, a row at a time.
async fn image(
    content: &[u8],
    min_side: u32,
    yielder: &mut Yielder<'_>,
) -> Cancellable<Result<(), String>> {
    let damaged = |error: png::DecodingError| format!("is not a PNG image that decodes: {error}");
    let limits = Limits { bytes: DECODER_MEMORY };
    let mut decoder = Decoder::new_with_limits(Cursor::new(content), limits);
    decoder.set_transformations(Transformations::normalize_to_color8());
    let mut reader = match decoder.read_info() {
        Ok(reader) => reader,
        Err(error) => return Ok(Err(damaged(error))),
    };
    let (width, height) = (reader.info().width, reader.info().height);
    if width < min_side || height < min_side {
        let least = format!("at least {min_side}×{min_side} is wanted");
        return Ok(Err(format!("is an image of only {width}×{height} pixels; {least}")));
    }
    if u64::from(width) * u64::from(height) > MOST_PIXELS {
        let most = MOST_PIXELS >> 20;
        return Ok(Err(format!("is an image of {width}×{height} pixels; more than {most} Mi")));
    }
    let samples = reader.output_color_type().0.samples();
    let mut first: Option<Vec<u8>> = None;
    let (mut one_colour, mut done) = (true, 0);
    loop {
        let row = match reader.next_row() {
            Ok(Some(row)) => row.data(),
            Ok(None) => break,
            Err(error) => return Ok(Err(damaged(error))),
        };
        let mut pixels = row.chunks_exact(samples);
        let first = first.get_or_insert_with(|| row.get(..samples).unwrap_or_default().to_vec());
        one_colour = one_colour && pixels.all(|pixel| pixel == first.as_slice());
        done += row.len();
        if done >= STRIDE {
            done = 0;
            yielder.yield_now().await?;
        }
    }
    Ok(match reader.finish() {
        Err(error) => Err(damaged(error)),
        Ok(()) if one_colour => Err("is an image of a single colour, so it shows nothing".into()),
        Ok(()) => Ok(()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_counted_outside_strings() {
        let nested = |n: usize| format!("{}1{}", "[".repeat(n), "]".repeat(n));
        assert_eq!(json(&nested(128)), Ok(nested(128).as_str()));
        assert!(json(&nested(129)).unwrap_err().contains("128 levels"));
        assert!(!is_deep(&format!("[\"\\\"{}\"]", "[".repeat(500))));
        assert!(!is_deep(&"[],".repeat(500)));
    }

    #[test]
    fn texts() {
        let table: [(&[u8], &str); 7] = [
            (b"ok\n", ""),
            (b"\xef\xbb\xbfok", ""),
            (b"\xef\xbb\xbf \n", "only white space"),
            ("\u{200b}\n".as_bytes(), "only white space"),
            (b"a\0b", "NUL byte (byte 2)"),
            (b"abc\xff", "not UTF-8 text (byte 4)"),
            (b"\xff\xfea\0", "not UTF-8"),
        ];
        for (raw, wrong) in table {
            match text(raw) {
                Ok(_) => assert_eq!(wrong, "", "{raw:?}"),
                Err(error) => assert!(!wrong.is_empty() && error.contains(wrong), "{error}"),
            }
        }
    }
}
