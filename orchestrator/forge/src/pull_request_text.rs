//! The text of a pull request: what is said of the work stands between two marks, and what a person writes outside of them
//! stays.

/// The longest text that hosts take, in bytes.
const LONGEST: usize = 60_000;
/// The marks, which are not seen where the text is shown.
const BEGIN: &str = "<!-- ralph-orchestrator begins -->";
const END: &str = "<!-- ralph-orchestrator ends -->";
/// What stands instead of details for which there is no room.
const LEFT_OUT: &str = "The details are left out: the text would be too long.\n";

/// What is said of the work on a branch, in Markdown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullRequestText {
    /// What is said of all.
    pub opening: String,
    /// What is said of each piece of work.
    pub sections: Vec<TextSection>,
}

/// What is said of a piece of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextSection {
    /// What is never left out for want of room.
    pub opening: String,
    /// The rest.
    pub details: String,
}

impl PullRequestText {
    /// Returns the whole text. `before` is what the pull request says now.
    pub(crate) fn render(&self, before: &str) -> String {
        let (above, below) = split_own(before);
        let room = LONGEST.saturating_sub(above.len() + below.len() + BEGIN.len() + END.len() + 8);
        let text = self.fit(room);
        let end = text.floor_char_boundary(room);
        let text = text.get(..end).unwrap_or_default();
        format!("{above}{BEGIN}\n{text}\n{END}{below}")
    }

    /// Returns what is said, with as many details as there is room for.
    fn fit(&self, room: usize) -> String {
        let opening = |section: &TextSection| section.opening.len() + LEFT_OUT.len() + 1;
        let needed = self.opening.len() + self.sections.iter().map(opening).sum::<usize>();
        let mut left = room.saturating_sub(needed);
        let mut text = self.opening.clone();
        for TextSection { opening, details } in &self.sections {
            let fits = details.len() <= left + LEFT_OUT.len();
            let shown = if fits { details } else { LEFT_OUT };
            left = left.saturating_sub(shown.len().saturating_sub(LEFT_OUT.len()));
            text.push_str(&format!("{opening}{shown}\n"));
        }
        text
    }
}

/// Returns what stands above and below the marks. Where there are none, all of it is a person's.
fn split_own(text: &str) -> (String, String) {
    if text.trim().is_empty() {
        return (String::new(), "\n".to_owned());
    }
    // What is said of the work may have the marks in it, but nothing comes before the first or after the last.
    let begin = text.find(BEGIN);
    let end = text.rfind(END).map(|at| at + END.len());
    match begin.zip(end).filter(|(begin, end)| begin < end) {
        Some((begin, end)) => {
            let above = text.get(..begin).unwrap_or_default();
            (above.to_owned(), text.get(end..).unwrap_or_default().to_owned())
        }
        None => (format!("{}\n\n", text.trim_end()), "\n".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(details: usize, sections: usize) -> PullRequestText {
        let section = |n| TextSection {
            opening: format!("## Item {n}\n\nCloses #{n}.\n\n"),
            details: "x".repeat(details),
        };
        PullRequestText {
            opening: "Read it.\n\n".to_owned(),
            sections: (1..=sections).map(section).collect(),
        }
    }

    #[test]
    fn what_a_person_wrote_outside_of_the_marks_stays_and_what_is_between_them_is_written_anew() {
        let first = text(3, 1).render("");
        assert_eq!(
            first,
            format!("{BEGIN}\nRead it.\n\n## Item 1\n\nCloses #1.\n\nxxx\n\n{END}\n")
        );
        let edited = format!("Mine, above.\n\n{first}\nMine, below.\n");
        let second = text(2, 2).render(&edited);
        let own = second.strip_prefix("Mine, above.\n\n").unwrap();
        let own = own.strip_suffix("\nMine, below.\n").unwrap();
        assert_eq!(own, text(2, 2).render(""));
        // An end that agents or people name is none.
        let hostile = PullRequestText { opening: format!("`{END}`\n"), sections: Vec::new() };
        let shown = hostile.render("");
        assert_eq!(text(1, 1).render(&shown), text(1, 1).render(""));
        // A person has removed the marks.
        let both = text(1, 1).render("Only mine.");
        assert_eq!(both, format!("Only mine.\n\n{}", text(1, 1).render("")));
    }

    #[test]
    fn what_is_too_long_loses_details_and_no_issue_that_is_closed() {
        let above = "Mine.\n".repeat(100);
        let shown = text(20_000, 20).render(&above);
        assert!(shown.len() <= LONGEST, "{}", shown.len());
        assert!(shown.ends_with(&format!("{END}\n")) && shown.starts_with(&above));
        for n in 1..=20 {
            assert!(shown.contains(&format!("Closes #{n}.\n")), "{n}");
        }
        assert_eq!(shown.matches("xxx\n").count(), 2);
        assert_eq!(shown.matches(LEFT_OUT).count(), 18);
        assert!(text(1, 100_000).render("é").len() <= LONGEST);
    }
}
