//! Counts of the claims of a run, and why they were rejected.

use ralph_orchestrator_contract::Verdict;
use serde::Serialize;

use super::normalize::normalize;
use super::policy::CompletionTrigger;
use super::verdict::{ValidatorVerdict, is_unchecked};

/// The most causes of rejections that are counted apart.
pub const MOST_CAUSES: usize = 100;
/// The longest cause, in characters.
const LONGEST_CAUSE: usize = 120;
/// What comes before the message of a validator that reached no verdict.
const NOT_CHECKED: &str = "not checked: ";

/// A cause of rejections, with how often it occurred.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RejectionCause {
    /// The validator that rejected.
    pub validator: String,
    /// The reason without its details, as it was first given.
    pub text: String,
    /// The text normalized, by which causes are compared.
    #[serde(skip)]
    key: String,
    /// The validator could not check the work at all.
    pub is_error: bool,
    /// In how many validations.
    pub times: u64,
}

/// Counts of the claims of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClaimStats {
    /// How often completion was claimed.
    pub claims: u64,
    /// Validations that did not accept.
    pub rejections: u64,
    /// Those of them in which nothing was said of the work: no validator could check it.
    pub unchecked: u64,
    /// Why, in the order in which the causes first occurred.
    pub causes: Vec<RejectionCause>,
    /// Iterations whose text spoke of being done.
    pub says_done: u64,
    /// What makes the validators run: without claims, nothing is said of them.
    #[serde(skip)]
    trigger: CompletionTrigger,
    /// The work was validated, and nothing was claimed or done since.
    #[serde(skip)]
    is_settled: bool,
    /// The work was accepted.
    #[serde(skip)]
    is_accepted: bool,
}

impl ClaimStats {
    /// Sets what has a run validated.
    pub const fn set_trigger(&mut self, trigger: CompletionTrigger) {
        self.trigger = trigger;
    }

    /// Whether the work is validated only if the agent claims.
    #[must_use]
    pub fn needs_claims(&self) -> bool {
        self.trigger == CompletionTrigger::Claimed
    }

    /// Counts a claim.
    pub const fn count_claim(&mut self) {
        self.claims = self.claims.saturating_add(1);
    }

    /// Counts a statement of the agent that the work is done.
    pub fn count_done_statement(&mut self, says_done: bool) {
        self.says_done = self.says_done.saturating_add(u64::from(says_done));
    }

    /// Notes a claim, or an iteration: the validation that follows counts.
    pub const fn expect_validation(&mut self) {
        self.is_settled = false;
    }

    /// Whether a validation would only repeat the last one, as at the start of a run that goes on.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Notes that the work was accepted.
    pub const fn count_acceptance(&mut self) {
        (self.is_settled, self.is_accepted) = (true, true);
    }

    /// Counts a rejection, unless it only repeats the last one. Returns the indices of its causes.
    pub fn count_rejection(
        &mut self,
        verdicts: &[ValidatorVerdict],
        reasons: &[String],
    ) -> Vec<usize> {
        let more = u64::from(!std::mem::replace(&mut self.is_settled, true));
        self.rejections = self.rejections.saturating_add(more);
        let mut causes = Vec::new();
        for named in verdicts.iter().filter(|named| named.required) {
            let (text, is_error) = match &named.verdict {
                Verdict::Accepted { .. } => continue,
                Verdict::Rejected { reasons } => (reasons.first(), false),
                Verdict::Error { message } => (Some(message), true),
            };
            let text = text.map_or("rejected", String::as_str);
            causes.push(self.count_cause(&named.validator, text, is_error, more));
        }
        if causes.is_empty() {
            let text = reasons.first().map_or("rejected", String::as_str);
            causes.push(self.count_cause("", text, false, more));
        }
        let unchecked = if is_unchecked(verdicts, reasons) { more } else { 0 };
        self.unchecked = self.unchecked.saturating_add(unchecked);
        causes
    }

    /// Counts a cause that was one so often more. Returns its index.
    fn count_cause(&mut self, validator: &str, reason: &str, is_error: bool, more: u64) -> usize {
        let text = first_clause(reason);
        let key = normalize(&text);
        let same = |cause: &RejectionCause| {
            (cause.validator.as_str(), cause.key.as_str(), cause.is_error)
                == (validator, key.as_str(), is_error)
        };
        let full = self.causes.len() > MOST_CAUSES;
        let at = match self.causes.iter().position(same) {
            Some(at) => at,
            // The last one collects all further causes.
            None if full => self.causes.len() - 1,
            None => {
                let text =
                    if self.causes.len() == MOST_CAUSES { "other reasons".into() } else { text };
                let validator = validator.to_owned();
                self.causes.push(RejectionCause { validator, text, key, is_error, times: 0 });
                self.causes.len() - 1
            }
        };
        if let Some(cause) = self.causes.get_mut(at) {
            cause.times += more;
        }
        at
    }

    /// Returns a summary in one line, such as `claimed 50×, rejected 50×, always: evidence
    /// directory not found`, or `checked 3 times, always rejected: tests failed`. `None` if nothing was
    /// claimed, validated or said to be done.
    #[must_use]
    pub fn summary_line(&self) -> Option<String> {
        if !self.needs_claims() && self.claims == 0 {
            return self.checks_line();
        }
        if self.claims == 0 && self.rejections == 0 {
            return (self.says_done > 0)
                .then(|| format!("said to be done {}×, never claimed", self.says_done));
        }
        let claimed = format!("claimed {}×", self.claims);
        if self.rejections == 0 {
            return Some(claimed);
        }
        Some(format!("{claimed}, {}", self.outcome_line()))
    }

    /// What became of the validations that did not accept, and why. Of work that nobody could check nothing is
    /// known.
    fn outcome_line(&self) -> String {
        let never_checked = self.unchecked == self.rejections;
        let outcome = match (self.rejections.saturating_sub(self.unchecked), self.unchecked) {
            (rejected, 0) => format!("rejected {rejected}×"),
            (0, unchecked) => format!("not checked {unchecked}×"),
            (rejected, unchecked) => format!("rejected {rejected}×, not checked {unchecked}×"),
        };
        let text = |cause: &RejectionCause| {
            let text = self.cause_text(cause);
            if never_checked { text.replacen(NOT_CHECKED, "", 1) } else { text }
        };
        let always: Vec<String> =
            self.causes.iter().filter(|cause| cause.times == self.rejections).map(text).collect();
        let most = self.causes.iter().max_by_key(|cause| cause.times);
        let why = match (self.rejections, most) {
            (1, _) => format!(": {}", always.join("; ")),
            (_, _) if !always.is_empty() && self.is_accepted => format!(": {}", always.join("; ")),
            (_, _) if !always.is_empty() => format!(", always: {}", always.join("; ")),
            (_, Some(cause)) => format!(", {}: {}", frequency(cause), text(cause)),
            (_, None) => String::new(),
        };
        format!("{outcome}{why}")
    }

    /// The summary where no claim is needed.
    fn checks_line(&self) -> Option<String> {
        if self.unchecked > 0 {
            return Some(self.outcome_line());
        }
        let always = self.causes.iter().filter(|cause| cause.times == self.rejections);
        let always: Vec<String> = always.map(|cause| self.cause_text(cause)).collect();
        let most = self.causes.iter().max_by_key(|cause| cause.times);
        Some(match (self.rejections, always.as_slice(), most) {
            (0, _, _) => return None,
            (times, always, _) if self.is_accepted && !always.is_empty() => {
                format!("checked {} times, rejected {times}×: {}", times + 1, always.join("; "))
            }
            (1, always, _) => format!("checked once, rejected: {}", always.join("; ")),
            (times, [], Some(cause)) => format!(
                "checked {times} times, rejected each time, {}: {}",
                frequency(cause),
                self.cause_text(cause)
            ),
            (times, [], None) => format!("checked {times} times, rejected each time"),
            (times, always, _) => {
                format!("checked {times} times, always rejected: {}", always.join("; "))
            }
        })
    }

    /// Returns the text of a cause, with its validator if there are several.
    #[must_use]
    pub fn cause_text(&self, cause: &RejectionCause) -> String {
        let several = self.causes.iter().any(|other| other.validator != cause.validator);
        let name = if several && !cause.validator.is_empty() {
            format!("{}: ", cause.validator)
        } else {
            String::new()
        };
        let how = if cause.is_error { NOT_CHECKED } else { "" };
        format!("{name}{how}{}", cause.text)
    }
}

/// Returns the first clause of a reason, without its details. A name in backticks before a colon is not yet one.
pub fn first_clause(reason: &str) -> String {
    let line = reason.trim().lines().next().unwrap_or_default();
    let (mut quoted, mut end, mut before) = (false, line.len(), ' ');
    let mut rest = line.char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        let is_end = !quoted && rest.peek().is_none_or(|(_, next)| *next == ' ');
        match c {
            '`' => quoted = !quoted,
            ':' if before == '`' => {}
            ':' | '.' | ';' if is_end => {
                end = at;
                break;
            }
            _ => {}
        }
        before = c;
    }
    let clause = line.get(..end).unwrap_or(line).trim();
    match clause.char_indices().nth(LONGEST_CAUSE) {
        Some((at, _)) => format!("{}…", clause.get(..at).unwrap_or_default()),
        None => clause.to_owned(),
    }
}

/// How often the most frequent cause was one, where none always was.
fn frequency(cause: &RejectionCause) -> String {
    if cause.times > 1 { format!("mostly ({}×)", cause.times) } else { "such as".to_owned() }
}
