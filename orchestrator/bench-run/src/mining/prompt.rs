//! What a commit's message asks for, without what would give its work away.

use std::collections::BTreeSet;

use ralph_orchestrator_text::truncate;

use super::issues::IssueTexts;

/// Stands before what is asked for.
const HEAD: &str = "Make the following change to the project in this folder. Tests that you do not see check the \
                    result.\n\n";
/// The most characters of a prompt.
const LONGEST: usize = 16_384;
/// The shortest word that is taken for an abbreviated id: git's own are not shorter.
const SHORTEST_ID: usize = 7;
/// Lines that say who did what, or where something is kept, wherever they are.
const TRAILERS: [&str; 19] = [
    "acked-by",
    "backport-of",
    "bug",
    "cc",
    "change-id",
    "co-authored-by",
    "cr-commit-position",
    "git-svn-id",
    "github-pull-request",
    "helped-by",
    "link",
    "merge-request",
    "pull-request",
    "reported-by",
    "reviewed-by",
    "reviewed-on",
    "signed-off-by",
    "suggested-by",
    "tested-by",
];
/// Words that begin a line which only refers to something else.
const REFERENCES: [&str; 12] = [
    "fix", "fixes", "fixed", "close", "closes", "closed", "resolve", "resolves", "resolved", "ref",
    "refs", "see",
];

/// The prompt of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskPrompt(String);

impl TaskPrompt {
    /// Makes it of a commit's message, or of the issues that it names. `merged` are the messages of the commits that a merge
    /// brings: they count where its own says nothing. None if nothing is said.
    #[must_use]
    pub fn from_message(message: &str, merged: &[String], issues: &IssueTexts) -> Option<Self> {
        let all = std::iter::once(message).chain(merged.iter().map(String::as_str));
        let mut linked: Vec<&str> = Vec::new();
        for text in all.flat_map(|text| issues.find_linked(text)) {
            if !linked.contains(&text) {
                linked.push(text);
            }
        }
        if !linked.is_empty() {
            return Some(Self(linked.join("\n\n")));
        }
        let own = clean_message(without_merge_line(message));
        if !own.is_empty() {
            return Some(Self(own));
        }
        let merged: Vec<String> = merged.iter().map(|text| clean_message(text)).collect();
        let text = merged.join("\n\n").trim().to_owned();
        (!text.is_empty()).then_some(Self(text))
    }

    /// Returns the words that may be ids of objects, abbreviated or not.
    #[must_use]
    pub fn list_hashes(&self) -> Vec<String> {
        let found: BTreeSet<&str> = find_hashes(&self.0).map(|(_, word)| word).collect();
        found.into_iter().map(str::to_owned).collect()
    }

    /// Removes these words, which are ids.
    #[must_use]
    pub fn without(&self, hashes: &BTreeSet<String>) -> Self {
        Self(remove_hashes(&self.0, hashes))
    }

    /// Returns the first line.
    #[must_use]
    pub fn subject(&self) -> &str {
        self.0.lines().next().unwrap_or_default()
    }

    /// Returns what the agent reads.
    #[must_use]
    pub fn instruction(&self) -> String {
        format!("{HEAD}{}\n", truncate(&self.0, LONGEST))
    }
}

/// Returns a message without the line that a merge begins with.
fn without_merge_line(message: &str) -> &str {
    match message.trim_start().split_once('\n') {
        Some((first, rest)) if is_merge_line(first) => rest,
        None if is_merge_line(message.trim_start()) => "",
        _ => message,
    }
}

fn is_merge_line(line: &str) -> bool {
    let starts = ["branch", "branches", "pull", "remote-tracking", "tag", "commit", "bitbucket"];
    let rest = line.strip_prefix("Merge ").or_else(|| line.strip_prefix("Merged "));
    let word = rest.and_then(|rest| rest.split_whitespace().next()).unwrap_or_default();
    starts.contains(&word) || word.starts_with('#')
}

/// Returns a message without trailers, references and marks of cherry-picks.
fn clean_message(message: &str) -> String {
    let text = message.replace("\r\n", "\n");
    let paragraphs: Vec<&str> = text.trim().split("\n\n").collect();
    let mut kept = Vec::new();
    for (at, paragraph) in paragraphs.iter().enumerate() {
        let is_last = at + 1 == paragraphs.len();
        if at > 0 && is_last && paragraph.lines().all(is_trailer_like) {
            continue;
        }
        let kept_lines = paragraph.lines().filter(|line| !is_dropped(line));
        let lines: Vec<String> =
            kept_lines.map(|line| hide_references(&without_numbers(line))).collect();
        if !lines.join("").trim().is_empty() {
            kept.push(lines.join("\n"));
        }
    }
    kept.join("\n\n").trim().to_owned()
}

/// Whether git could take a line for a trailer, or the continuation of one.
fn is_trailer_like(line: &str) -> bool {
    let is_key =
        |key: &str| !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    line.starts_with([' ', '\t'])
        || is_dropped(line)
        || line.split_once(": ").is_some_and(|(key, _)| is_key(key) && key.contains('-'))
}

/// Whether a line says nothing of what is to be done.
fn is_dropped(line: &str) -> bool {
    let line = line.trim();
    let lower = line.to_lowercase();
    let key = lower.split(':').next().unwrap_or_default();
    TRAILERS.contains(&key) && lower.contains(':')
        || lower.starts_with("(cherry picked from commit ")
        || lower.starts_with("this reverts commit ")
        || is_reference(&lower)
        || is_address(&lower)
}

/// Whether a line consists of a word such as `Fixes` and of what it refers to.
fn is_reference(lower: &str) -> bool {
    let mut words = lower.split([' ', ',', ':', '(', ')']).filter(|word| !word.is_empty());
    let is_verb = |word: &str| REFERENCES.contains(&word);
    let Some(first) = words.next() else { return false };
    let is_target = |word: &str| {
        let number = word.trim_end_matches('.').rsplit('#').next().unwrap_or_default();
        let is_number = word.contains('#') && number.chars().all(|c| c.is_ascii_digit());
        is_number || is_hash(word.trim_end_matches('.')) || is_address(word)
    };
    let rest: Vec<&str> = words.collect();
    // The subject of a commit comes after its id.
    let is_fixed_commit = rest.first().is_some_and(|word| is_hash(word)) && lower.contains(": ");
    let are_targets = rest.iter().all(|word| {
        is_target(word) || is_verb(word) || ["and", "issue", "commit", "also"].contains(word)
    });
    let has_target = rest.iter().any(|word| is_target(word)) || is_target(first);
    (is_verb(first) || is_target(first)) && has_target && (are_targets || is_fixed_commit)
}

fn is_address(word: &str) -> bool {
    (word.starts_with("http://") || word.starts_with("https://")) && !word.contains(' ')
}

fn is_hash(word: &str) -> bool {
    word.len() >= SHORTEST_ID && word.chars().all(|c| c.is_ascii_hexdigit())
}

/// Returns a line without numbers of issues and pull requests in brackets at its end, such as ` (#12)`.
fn without_numbers(line: &str) -> String {
    let mut line = line.trim_end();
    while let Some((start, end)) = line.rsplit_once(" (") {
        let inner = end.strip_suffix(')').unwrap_or("x");
        let is_number = |word: &str| {
            let digits = word.trim().trim_start_matches(['#', '!']);
            digits.len() < word.trim().len() && digits.chars().all(|c| c.is_ascii_digit())
        };
        if !inner.split(',').all(is_number) {
            break;
        }
        line = start.trim_end();
    }
    line.to_owned()
}

/// Returns a line in which nothing leads to the work: numbers of issues and addresses of requests and commits.
fn hide_references(line: &str) -> String {
    let is_number = |digits: &str| !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit());
    let hide = |word: &str| {
        let inner = word.trim_matches(|c: char| "()[]<>,.;:'\"`".contains(c));
        let is_issue = inner
            .rsplit_once('#')
            .is_some_and(|(of, digits)| (of.is_empty() || of.contains('/')) && is_number(digits))
            || inner.strip_prefix("GH-").is_some_and(is_number);
        let places = ["/pull/", "/issues/", "/merge_requests/", "/commit/"];
        let is_link = is_address(inner) && places.iter().any(|place| inner.contains(place));
        match is_issue || is_link {
            true => word.replacen(inner, "[reference]", 1),
            false => word.to_owned(),
        }
    };
    line.split(' ').map(hide).collect::<Vec<_>>().join(" ")
}

/// Returns the runs of hexadecimal digits that are long enough for an id, with where they begin.
fn find_hashes(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut rest = 0;
    let runs = text.split(|c: char| !c.is_ascii_hexdigit()).map(move |run| {
        let at = rest;
        rest += run.len();
        // What ends a run may have several bytes.
        rest += text.get(rest..).and_then(|tail| tail.chars().next()).map_or(0, char::len_utf8);
        (at, run)
    });
    runs.filter(|(_, run)| (SHORTEST_ID..=64).contains(&run.len()))
}

/// Returns a text without these ids, nor brackets that have nothing else in them.
#[must_use]
pub fn remove_hashes(text: &str, hashes: &BTreeSet<String>) -> String {
    let mut found: Vec<(usize, &str)> =
        find_hashes(text).filter(|(_, word)| hashes.contains(*word)).collect();
    found.reverse();
    let mut text = text.to_owned();
    for (at, word) in found {
        let end = at + word.len();
        let brackets = [("(", ")"), ("[", "]"), ("`", "`"), ("<", ">")];
        let is_in = |(open, close): &&(&str, &str)| {
            text.get(..at).is_some_and(|before| before.ends_with(open))
                && text.get(end..).is_some_and(|after| after.starts_with(close))
        };
        match brackets.iter().find(is_in) {
            Some(_) => {
                let space = usize::from(text.get(..at - 1).is_some_and(|b| b.ends_with(' ')));
                text.replace_range(at - 1 - space..=end, "");
            }
            None => text.replace_range(at..end, "[commit]"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_to_the_work_is_hidden_within_lines() {
        for (line, hidden) in [
            ("z is 1, fixes #5.", "z is 1, fixes [reference]."),
            (
                "See https://example.org/me/calc/pull/78 and (me/calc#79), GH-80",
                "See [reference] and ([reference]), [reference]",
            ),
            (
                "for C#7, #12a, # 3 and https://example.org/spec",
                "for C#7, #12a, # 3 and https://example.org/spec",
            ),
        ] {
            assert_eq!(hide_references(line), hidden);
        }
    }

    fn prompt(message: &str) -> Option<String> {
        let made = TaskPrompt::from_message(message, &[], &IssueTexts::default());
        made.map(|prompt| prompt.0)
    }

    #[test]
    fn trailers_and_references_are_left_out_and_what_is_said_stays() {
        for (message, expected) in [
            ("Fix the parser (#12)\n\nIt failed.\n", Some("Fix the parser\n\nIt failed.")),
            (
                "fix: empty input\r\n\r\nBody: with a colon\r\n\r\nSigned-off-by: A <a@b>\r\nCo-authored-by: C <c@d>",
                Some("fix: empty input\n\nBody: with a colon"),
            ),
            ("Do it\n\nFixes #12 (abc1234)", Some("Do it")),
            ("Do it\n\nFixes: abc1234def (\"Old work: part\")", Some("Do it")),
            ("Do it\n\nCloses #3, #4 and resolves #5.\nMore.", Some("Do it\n\nMore.")),
            (
                "Fixes the crash of #3 in the lexer",
                Some("Fixes the crash of [reference] in the lexer"),
            ),
            ("Do it\n\n(cherry picked from commit abc1234)", Some("Do it")),
            (
                "Revert it\n\nThis reverts commit abc1234abc.\n\nIt broke.",
                Some("Revert it\n\nIt broke."),
            ),
            ("Do it\n\nX-Own-Key: value\n  continued", Some("Do it")),
            ("Do it\n\nNote: this matters", Some("Do it\n\nNote: this matters")),
            ("Do it\n\nhttps://example.org/pull/3", Some("Do it")),
            ("Do it (!7, #8)", Some("Do it")),
            ("Do it (really)", Some("Do it (really)")),
            ("Signed-off-by: A <a@b>\n", None),
            ("", None),
        ] {
            assert_eq!(prompt(message).as_deref(), expected, "{message:?}");
        }
    }

    #[test]
    fn a_merge_is_what_it_says_beside_its_first_line_else_what_it_brings() {
        let issues = IssueTexts::default();
        let merged = ["Add a\n\nSigned-off-by: x <y>".to_owned(), "Add b".to_owned()];
        for (message, expected) in [
            ("Merge pull request #3 from me/x\n\nAdd both", "Add both"),
            ("Merge branch 'x'", "Add a\n\nAdd b"),
            ("Merge sort is stable", "Merge sort is stable"),
        ] {
            let made = TaskPrompt::from_message(message, &merged, &issues).unwrap();
            assert_eq!(made.0, expected);
        }
        assert!(TaskPrompt::from_message("Merge branch 'x'", &[], &issues).is_none());
    }

    #[test]
    fn ids_are_found_in_any_text_and_removed() {
        let prompt = TaskPrompt(
            "é As in abc1234, (def5678) and v1-3-g0123abc; Ⅷfeedface [ABC1234] deadbeef".to_owned(),
        );
        let hashes = prompt.list_hashes();
        assert_eq!(hashes, ["0123abc", "ABC1234", "abc1234", "deadbeef", "def5678", "feedface"]);
        let gone: BTreeSet<String> = hashes.into_iter().filter(|hash| hash != "deadbeef").collect();
        assert_eq!(
            prompt.without(&gone).0,
            "é As in [commit], and v1-3-g[commit]; Ⅷ[commit] deadbeef"
        );
    }

    #[test]
    fn a_very_large_message_is_cut() {
        let made = TaskPrompt("ä".repeat(1 << 20)).instruction();
        assert!(made.starts_with(HEAD) && made.ends_with("…\n"));
        assert_eq!(made.chars().count(), HEAD.chars().count() + LONGEST + 2);
    }
}
