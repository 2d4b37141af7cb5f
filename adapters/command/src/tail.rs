//! The end of an agent's text, in bounded memory.

use crate::utf8::decode;

/// How much of the end is kept as the final message.
pub(crate) const FINAL_TEXT_MAX: usize = 256 * 1024;

/// Keeps the end of a text.
#[derive(Debug, Default)]
pub(crate) struct TextTail {
    /// The last bytes, up to twice what is wanted so that they are seldom moved.
    bytes: Vec<u8>,
    cut: bool,
}

impl TextTail {
    /// Adds what follows.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > 2 * FINAL_TEXT_MAX {
            self.shorten();
        }
    }

    /// Returns the end of the text, from the start of a line; `None` if there is none.
    pub(crate) fn into_text(mut self) -> Option<String> {
        if self.bytes.len() > FINAL_TEXT_MAX {
            self.shorten();
            self.cut = true;
        }
        if self.cut {
            // Half a line could read as something that the whole line does not say.
            let whole = self.bytes.iter().position(|&byte| byte == b'\n').map(|at| at + 1);
            self.bytes.drain(..whole.unwrap_or(self.bytes.len()));
        }
        Some(decode(self.bytes)).filter(|text| !text.is_empty())
    }

    fn shorten(&mut self) {
        // One byte more, so that a line which begins exactly at the cut is seen to be whole.
        let surplus = self.bytes.len().saturating_sub(FINAL_TEXT_MAX + 1);
        if surplus > 0 {
            self.bytes.drain(..surplus);
            self.cut = true;
        }
    }
}
