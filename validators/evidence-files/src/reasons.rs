//! What the agent is told.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use ralph_orchestrator_contract::Verdict;
use ralph_orchestrator_text::{escape_line, truncate};

/// Reasons in one verdict; what is more is counted.
const MOST: usize = 20;
/// Characters of a file's name.
const LONGEST_NAME: usize = 120;
/// Characters of a quoted line.
const LONGEST_QUOTE: usize = 120;
/// Characters of one reason.
const LONGEST_REASON: usize = 500;

/// A path that is safe to print on one line and in a prompt: control, invisible and undecodable
/// characters escaped, cut.
pub(crate) fn show(path: &Path) -> String {
    let mut out = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        out.push_str(&escape_line(chunk.valid()));
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    truncate(&out, LONGEST_NAME)
}

/// A line of a file, cut, with control and invisible characters escaped.
pub(crate) fn quote(line: &str) -> String {
    // One more than is shown, so that it is known whether it was cut.
    let some: String = line.chars().take(LONGEST_QUOTE + 1).collect();
    truncate(&escape_line(&some), LONGEST_QUOTE)
}

/// A number of bytes for people.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: &[(u32, &str)] = &[(30, "GiB"), (20, "MiB"), (10, "KiB")];
    for (shift, unit) in UNITS {
        let whole = bytes >> shift;
        if whole > 0 {
            let tenths = ((bytes - (whole << shift)) * 10) >> shift;
            return format!("{whole}.{tenths} {unit}");
        }
    }
    format!("{bytes} bytes")
}

/// `1 file`, `2 files`.
pub(crate) fn files(count: usize) -> String {
    if count == 1 { "1 file".into() } else { format!("{count} files") }
}

/// A rejection for these reasons: the first ones in full, the rest counted.
pub(crate) fn rejected(mut reasons: Vec<String>) -> Verdict {
    if reasons.len() > MOST {
        let more = reasons.len() - (MOST - 1);
        reasons.truncate(MOST - 1);
        reasons.push(format!("and {more} more of this kind"));
    }
    Verdict::Rejected {
        reasons: reasons.into_iter().map(|reason| truncate(&reason, LONGEST_REASON)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn names_are_made_harmless() {
        let table: [(&[u8], &str); 4] = [
            (b"a b.png", "a b.png"),
            ("é\u{202e}gnp.exe".as_bytes(), "é\\u{202e}gnp.exe"),
            (b"a\n\x1b[2Jb", "a\\n\\u{1b}[2Jb"),
            (b"a\xff\xfeb", "a\\xff\\xfeb"),
        ];
        for (raw, shown) in table {
            assert_eq!(show(Path::new(OsStr::from_bytes(raw))), shown, "{raw:?}");
        }
        assert_eq!(show(Path::new(&"ä".repeat(300))).chars().count(), 121);
    }

    #[test]
    fn sizes_for_people() {
        let table = [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1024, "1.0 KiB"),
            (u64::MAX, "17179869183.9 GiB"),
        ];
        for (size, shown) in table {
            assert_eq!(bytes(size), shown);
        }
        assert_eq!(bytes((10 << 20) + (1 << 19)), "10.5 MiB");
    }

    #[test]
    fn many_reasons_are_counted() {
        let of = |n: usize| match rejected(vec!["x".into(); n]) {
            Verdict::Rejected { reasons } => (reasons.len(), reasons[reasons.len() - 1].clone()),
            verdict => panic!("{verdict:?}"),
        };
        assert_eq!(of(20), (20, "x".into()));
        assert_eq!(of(21), (20, "and 2 more of this kind".into()));
    }
}
