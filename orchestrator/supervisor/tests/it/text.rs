//! Lines and captures, cut anywhere.

use proptest::collection::vec;
use proptest::prelude::*;
use ralph_orchestrator_supervisor::lines::LineSplitter;
use ralph_orchestrator_supervisor::{Capture, CaptureLimit};

type Lines = Vec<(String, u64)>;

/// What the splitter shall give, said another way: on the whole at once.
fn expected(bytes: &[u8], max: usize) -> Lines {
    let mut lines: Vec<&[u8]> = bytes.split(|b| *b == b'\n').collect();
    let last = lines.pop().unwrap();
    let complete = lines.into_iter().map(|l| l.strip_suffix(b"\r").unwrap_or(l));
    let unfinished = (!last.is_empty()).then_some(last);
    complete
        .chain(unfinished)
        .map(|line| {
            let kept = &line[..line.len().min(max)];
            let dropped = u64::try_from(line.len() - kept.len()).unwrap();
            (String::from_utf8_lossy(kept).into_owned(), dropped)
        })
        .collect()
}

fn split<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, max: usize) -> Lines {
    let mut splitter = LineSplitter::new(max);
    let mut lines = Vec::new();
    for piece in pieces {
        splitter.push(piece, |line| lines.push((line.text.into_owned(), line.dropped)));
    }
    splitter.finish(|line| lines.push((line.text.into_owned(), line.dropped)));
    splitter.finish(|line| panic!("a second end gave {line:?}"));
    lines
}

#[test]
fn line_ends_and_odd_bytes() {
    let plain =
        |bytes: &[u8]| split([bytes], 100).into_iter().map(|(text, _)| text).collect::<Vec<_>>();
    assert!(plain(b"").is_empty());
    assert_eq!(plain(b"\n"), [""]);
    assert_eq!(plain(b"a\r\nb\n\nc"), ["a", "b", "", "c"]);
    assert_eq!(plain(b"a\rb\r\r\nc\r"), ["a\rb\r", "c\r"]);
    assert_eq!(plain(b"a\0b\n\xff\n"), ["a\0b", "\u{fffd}"]);
    assert_eq!(plain("grüße\n".as_bytes()), ["grüße"]);
}

#[test]
fn a_character_cut_by_a_piece_is_whole_in_its_line() {
    let text = "grüße → 🦀".as_bytes();
    for cut in 0..=text.len() {
        let (a, b) = text.split_at(cut);
        assert_eq!(split([a, b], 100), [("grüße → 🦀".to_owned(), 0)]);
    }
}

#[test]
fn a_long_line_is_cut_and_its_end_is_not_counted() {
    assert_eq!(split([&b"abcd\r\n"[..]], 4), [("abcd".to_owned(), 0)]);
    assert_eq!(split([&b"abcd"[..], b"\r", b"\n"], 4), [("abcd".to_owned(), 0)]);
    assert_eq!(split([&b"abcde\r\nf\n"[..]], 4), [("abcd".to_owned(), 1), ("f".to_owned(), 0)]);
    assert_eq!(split([&b"abc"[..]], 0), [(String::new(), 3)]);
}

proptest! {
    #[test]
    fn any_pieces_give_the_lines_of_the_whole(
        bytes in vec(prop_oneof![
            Just(b'\n'), Just(b'\r'), Just(b'a'), Just(0), Just(0xff), Just(0xc3), Just(0xbc)
        ], 0..60),
        sizes in vec(1_usize..8, 1..60),
        max in 0_usize..12,
    ) {
        prop_assert_eq!(split([&bytes[..]], max), expected(&bytes, max));
        prop_assert_eq!(split(pieces(&bytes, &sizes), max), expected(&bytes, max));
    }

    #[test]
    fn a_capture_is_the_beginning_and_the_end(
        bytes in vec(any::<u8>(), 0..60),
        sizes in vec(1_usize..20, 1..60),
        head in 0_usize..20,
        tail in 0_usize..20,
    ) {
        let mut capture = Capture::new(CaptureLimit { head, tail });
        for piece in pieces(&bytes, &sizes) {
            capture.push(piece);
        }
        let captured = capture.finish();
        let kept = captured.head.len() + captured.tail.len();
        prop_assert_eq!(kept, bytes.len().min(head + tail));
        prop_assert_eq!(captured.cut, u64::try_from(bytes.len() - kept).unwrap());
        prop_assert!(captured.head.len() <= head && captured.tail.len() <= tail);
        prop_assert!(bytes.starts_with(&captured.head) && bytes.ends_with(&captured.tail));
        prop_assert_eq!(captured.text().contains("bytes cut …]"), captured.cut > 0);
    }
}

fn pieces<'a>(bytes: &'a [u8], sizes: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = bytes;
    let mut sizes = sizes.iter().cycle();
    std::iter::from_fn(move || {
        let size = (*sizes.next()?).min(rest.len());
        let (piece, after) = rest.split_at(size);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}
