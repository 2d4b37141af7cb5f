//! Decisions out of bytes. When none are left, every decision is the first one.

/// Bytes that are used up from the front.
pub(crate) struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Self(data)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    pub(crate) fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// Less than `bound`, which has to be more than 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let [a, b] = [self.byte(), self.byte()];
        usize::from(u16::from_le_bytes([a, b])) % bound
    }

    /// Mostly small, sometimes of any size.
    pub(crate) fn number(&mut self) -> u64 {
        match self.byte() {
            0xff => {
                let mut bytes = [0; 8];
                bytes.fill_with(|| self.byte());
                u64::from_le_bytes(bytes)
            }
            small @ 0x80.. => u64::from(small) << (self.byte() % 40),
            small => u64::from(small),
        }
    }

    pub(crate) fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// A piece, its length first.
    pub(crate) fn piece(&mut self) -> &'a [u8] {
        let length = usize::from(self.byte());
        self.take(length)
    }

    pub(crate) fn text(&mut self) -> String {
        String::from_utf8_lossy(self.piece()).into_owned()
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}
