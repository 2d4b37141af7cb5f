//! Lenient UTF-8 decoding of a stream that is cut at arbitrary places.

/// Decodes pieces of one stream so that a character which lies across two pieces stays whole.
///
/// The decoded pieces joined equal the lossy decoding of the joined bytes.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// The beginning of a character whose rest is still to come: at most three bytes.
    begun: Vec<u8>,
}

impl Decoder {
    /// Decodes the next piece; what begins a character at its end is kept for the next call.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> String {
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(bytes);
        self.begun = all.split_off(all.len() - incomplete_tail(&all));
        decode(all)
    }

    /// What was begun and never ended.
    pub(crate) fn finish(&mut self) -> String {
        decode(std::mem::take(&mut self.begun))
    }
}

/// Lossy, and without copying what is valid.
pub(crate) fn decode(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// How many bytes at the end begin a character that more bytes could complete.
fn incomplete_tail(bytes: &[u8]) -> usize {
    let tail = bytes.get(bytes.len().saturating_sub(3)..).unwrap_or_default();
    let Some(lead) = tail.iter().rposition(|byte| byte & 0xC0 != 0x80) else { return 0 };
    let last = tail.get(lead..).unwrap_or_default();
    match std::str::from_utf8(last) {
        Err(error) if error.error_len().is_none() => last.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn in_pieces(pieces: &[&[u8]]) -> String {
        let mut decoder = Decoder::default();
        let mut text: String = pieces.iter().map(|piece| decoder.push(piece)).collect();
        text.push_str(&decoder.finish());
        text
    }

    #[test]
    fn a_character_across_pieces_stays_whole() {
        assert_eq!(in_pieces(&[b"a\xF0", b"\x9F", b"\xA6", b"\x80b"]), "a\u{1F980}b");
    }

    #[test]
    fn what_never_ends_is_replaced_once() {
        assert_eq!(in_pieces(&[b"a\xF0\x9F\xA6"]), "a\u{FFFD}");
        assert_eq!(in_pieces(&[b"\xE2\x82", b"x"]), "\u{FFFD}x");
    }

    proptest! {
        #[test]
        fn pieces_decode_as_the_whole(
            pieces in prop::collection::vec(
                prop_oneof![
                    prop::collection::vec(any::<u8>(), 0..6),
                    prop::sample::select(vec!["é", "€", "🦀", "a"]).prop_map(|s| s.as_bytes().to_vec()),
                    prop::sample::select(vec![0xF0u8, 0x9F, 0xA6, 0x80, 0xE2, 0xC3, 0xED, 0xA0])
                        .prop_map(|b| vec![b]),
                ],
                0..12,
            )
        ) {
            let whole: Vec<u8> = pieces.concat();
            let parts: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            prop_assert_eq!(in_pieces(&parts), String::from_utf8_lossy(&whole).into_owned());
        }
    }
}
