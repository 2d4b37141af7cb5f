//! Words that sound like completion. They change nothing; they are counted, so that an agent that
//! means to be done can be told what a claim looks like.

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

/// Whether the text speaks of being done.
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
