//! The line splitter: any pieces give the lines of the whole.

use ralph_orchestrator_supervisor::lines::LineSplitter;

use crate::bytes::Bytes;

/// The first byte is the longest line; the next ones cut the rest into pieces.
pub fn check(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let max = usize::from(bytes.byte());
    let sizes: Vec<usize> = bytes.piece().iter().map(|size| usize::from(*size)).collect();
    let stream = bytes.rest();

    let mut splitter = LineSplitter::new(max);
    let mut lines = Vec::new();
    let mut rest = stream;
    for size in &sizes {
        let (piece, after) = rest.split_at((*size).min(rest.len()));
        splitter.push(piece, |line| lines.push((line.text.into_owned(), line.dropped)));
        rest = after;
    }
    splitter.push(rest, |line| lines.push((line.text.into_owned(), line.dropped)));
    splitter.finish(|line| lines.push((line.text.into_owned(), line.dropped)));
    splitter.finish(|line| panic!("a second end gave {line:?}"));
    assert_eq!(lines, expected(stream, max));
}

/// The same said another way, on the whole at once.
fn expected(stream: &[u8], max: usize) -> Vec<(String, u64)> {
    let mut lines: Vec<&[u8]> = stream.split(|byte| *byte == b'\n').collect();
    let last = lines.pop().unwrap_or_default();
    let ended = lines.into_iter().map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    ended
        .chain((!last.is_empty()).then_some(last))
        .map(|line| {
            let kept = &line[..line.len().min(max)];
            let dropped = u64::try_from(line.len() - kept.len()).unwrap();
            (String::from_utf8_lossy(kept).into_owned(), dropped)
        })
        .collect()
}
