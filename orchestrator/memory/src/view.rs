//! The bounded view of entries that an agent is given.

/// The bounds of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewBounds {
    /// The most entries.
    pub entries: usize,
    /// The most bytes, the heading included.
    pub bytes: usize,
}

/// Returns the newest entries, the newest last, each whole; empty if none fits. One that is too large by
/// itself is named by its size.
#[must_use]
pub fn bounded_view(heading: &str, entries: &[String], bounds: ViewBounds) -> String {
    let most = bounds.bytes.saturating_sub(heading.len());
    let mut used = 0;
    let mut chosen = Vec::new();
    for entry in entries.iter().rev().take(bounds.entries) {
        let mut text = format!("{}\n\n", entry.trim_end());
        if text.len() > most {
            text = format!("[an entry of {} bytes is left out]\n\n", entry.len());
        }
        used += text.len();
        if used > most {
            break;
        }
        chosen.push(text);
    }
    if chosen.is_empty() {
        return String::new();
    }
    chosen.reverse();
    format!("{heading}{}", chosen.concat())
}
