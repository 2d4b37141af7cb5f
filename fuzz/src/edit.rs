//! What somebody may do to a file of lines.

use crate::bytes::Bytes;

/// The bytes of a file after some edits.
pub(crate) fn edited(content: &[u8], bytes: &mut Bytes<'_>) -> Vec<u8> {
    let mut content = content.to_vec();
    for _ in 0..bytes.byte() % 4 {
        edit(&mut content, bytes);
    }
    content
}

fn edit(content: &mut Vec<u8>, bytes: &mut Bytes<'_>) {
    let length = content.len() + 1;
    match bytes.byte() % 8 {
        0 => content.truncate(bytes.below(length)),
        1 if !content.is_empty() => {
            let at = bytes.below(content.len());
            content[at] ^= bytes.byte();
        }
        2 => {
            let at = bytes.below(length);
            content.splice(at..at, bytes.piece().iter().copied());
        }
        3 => lines(content, |lines| {
            lines.remove(bytes.below(lines.len()));
        }),
        4 => lines(content, |lines| {
            let (a, b) = (bytes.below(lines.len()), bytes.below(lines.len()));
            lines.swap(a, b);
        }),
        5 => lines(content, |lines| {
            let line = lines[bytes.below(lines.len())].clone();
            lines.insert(bytes.below(lines.len() + 1), line);
        }),
        6 => {
            let from = bytes.below(length);
            let to = from + bytes.below(length - from);
            content.drain(from..to);
        }
        7 => *content = bytes.rest().to_vec(),
        _ => {}
    }
}

/// Edits whole lines, if there are any.
fn lines(content: &mut Vec<u8>, edit: impl FnOnce(&mut Vec<Vec<u8>>)) {
    let mut lines: Vec<_> = content.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
    if !lines.is_empty() {
        edit(&mut lines);
        *content = lines.concat();
    }
}
