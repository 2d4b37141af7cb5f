//! Phrases that sound like completion. They decide nothing; they are counted, so that the feedback can
//! explain to an agent that speaks of being done what a claim looks like.

const PHRASES: &[&str] = &[
    "all done",
    "task complete",
    "task is complete",
    "tasks are complete",
    "is complete.",
    "completed the task",
    "completed successfully",
    "successfully completed",
    "i have completed",
    "i've completed",
    "have finished",
    "i've finished",
    "is finished",
    "is done",
    "are done",
    "is now complete",
    "fully implemented",
    "all features are passing",
    "all tests pass",
    "nothing left to do",
    "no more work",
    "no remaining work",
    "done.",
    "finished.",
    "completed.",
];

/// Phrases that are only used of the whole task.
const OF_ALL: &[&str] = &[
    "all done",
    "task complete",
    "task is complete",
    "tasks are complete",
    "completed the task",
    "everything is done",
    "everything is complete",
    "work is done",
    "work is complete",
    "project is complete",
    "implementation is complete",
    "all features are passing",
    "nothing left to do",
    "no more work",
    "no remaining work",
];

/// The first words of short messages that say nothing but that.
const FIRST_WORDS: &[&str] = &["done", "finished", "complete", "completed"];

/// More characters and a message says more than that.
const SHORT: usize = 80;

/// Returns whether the text says of the whole task that it is done. A message about one part of it, such as
/// `US-3 is done, next is US-4`, does not.
pub(super) fn says_all_done(text: &str) -> bool {
    let text = text.trim().to_lowercase();
    let first = text.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
    let after = text.get(first.len()..).and_then(|rest| rest.chars().next());
    let short = text.chars().count() <= SHORT
        && FIRST_WORDS.contains(&first)
        && after.is_none_or(|next| matches!(next, '.' | ',' | '!' | ';' | ':' | '-'));
    short || OF_ALL.iter().any(|phrase| text.contains(phrase))
}

/// Returns whether the text speaks of being done.
pub(super) fn says_done(text: &str) -> bool {
    let text = text.to_lowercase();
    let whole = text.trim();
    matches!(whole, "done" | "finished" | "complete" | "completed")
        || PHRASES.iter().any(|phrase| text.contains(phrase))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_the_whole_from_a_part() {
        for text in ["Done", "completed, committed", "All done.", "I have completed the task!"] {
            assert!(says_all_done(text), "{text}");
        }
        for text in [
            "",
            "US-3 is done, next is US-4",
            "Done with the parser; the tests are next, which \
            will take some more time than I have in this session, I am afraid",
            "Completed US-7",
        ] {
            assert!(!says_all_done(text), "{text}");
        }
    }

    #[test]
    fn knows_the_usual_ways_to_say_it() {
        for text in ["Done", "All done, committed.", "The task is complete!", "I have finished it"]
        {
            assert!(says_done(text), "{text}");
        }
        for text in ["", "I will go on with the parser", "abandoned the idea"] {
            assert!(!says_done(text), "{text}");
        }
    }
}
