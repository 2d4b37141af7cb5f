//! What became of the claims of a run, put together.

use serde::Serialize;

use super::normalize::normalize;
use super::record::NamedVerdict;
use ralph_orchestrator_contract::Verdict;

/// Different causes of rejections that are told apart.
pub(super) const MOST_CAUSES: usize = 100;
/// Characters of a cause.
const LONGEST_CAUSE: usize = 120;

/// Why claims were rejected, put together with all that were rejected for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// The validator that rejected.
    pub validator: String,
    /// The reason without its details, as it was given first.
    pub text: String,
    /// The same without what differs by chance, which tells causes apart.
    #[serde(skip)]
    key: String,
    /// The validator could not check the work at all.
    pub is_error: bool,
    /// In how many validations.
    pub times: u64,
}

/// What became of the claims of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClaimTally {
    /// Claims of completion.
    pub claims: u64,
    /// Validations that did not accept.
    pub rejections: u64,
    /// Why, in the order in which the causes first turned up.
    pub causes: Vec<Cause>,
    /// Iterations that said that they were done without a claim.
    pub says_done: u64,
}

impl ClaimTally {
    pub(super) const fn count_claim(&mut self) {
        self.claims = self.claims.saturating_add(1);
    }

    pub(super) fn count_words(&mut self, says_done: bool) {
        self.says_done = self.says_done.saturating_add(u64::from(says_done));
    }

    /// Counts a rejection. Returns the places of its causes.
    pub(super) fn count_rejection(
        &mut self,
        verdicts: &[NamedVerdict],
        reasons: &[String],
    ) -> Vec<usize> {
        self.rejections = self.rejections.saturating_add(1);
        let mut causes = Vec::new();
        for named in verdicts.iter().filter(|named| named.required) {
            let (text, is_error) = match &named.verdict {
                Verdict::Accepted { .. } => continue,
                Verdict::Rejected { reasons } => (reasons.first(), false),
                Verdict::Error { message } => (Some(message), true),
            };
            let text = text.map_or("rejected", String::as_str);
            causes.push(self.cause(&named.validator, text, is_error));
        }
        if causes.is_empty() {
            let text = reasons.first().map_or("rejected", String::as_str);
            causes.push(self.cause("", text, false));
        }
        causes
    }

    /// The place of this cause, which happened once more.
    fn cause(&mut self, validator: &str, reason: &str, is_error: bool) -> usize {
        let text = gist(reason);
        let key = normalize(&text);
        let same = |cause: &Cause| {
            (cause.validator.as_str(), cause.key.as_str(), cause.is_error)
                == (validator, key.as_str(), is_error)
        };
        let full = self.causes.len() > MOST_CAUSES;
        let at = match self.causes.iter().position(same) {
            Some(at) => at,
            // The last one stands for all that are too many to be told apart.
            None if full => self.causes.len() - 1,
            None => {
                let text =
                    if self.causes.len() == MOST_CAUSES { "other reasons".into() } else { text };
                let validator = validator.to_owned();
                self.causes.push(Cause { validator, text, key, is_error, times: 0 });
                self.causes.len() - 1
            }
        };
        if let Some(cause) = self.causes.get_mut(at) {
            cause.times += 1;
        }
        at
    }

    /// What became of all claims, in one line, such as `claimed 50×, rejected 50×, always: evidence
    /// directory not found`. `None` if there was nothing of the kind.
    #[must_use]
    pub fn line(&self) -> Option<String> {
        if self.claims == 0 && self.rejections == 0 {
            return (self.says_done > 0)
                .then(|| format!("said to be done {}×, never claimed", self.says_done));
        }
        let claimed = format!("claimed {}×", self.claims);
        if self.rejections == 0 {
            return Some(claimed);
        }
        let always: Vec<String> = self
            .causes
            .iter()
            .filter(|cause| cause.times == self.rejections)
            .map(|cause| self.cause_text(cause))
            .collect();
        let most = self.causes.iter().max_by_key(|cause| cause.times);
        let why = match (self.rejections, most) {
            (1, _) => format!(": {}", always.join("; ")),
            (_, _) if !always.is_empty() => format!(", always: {}", always.join("; ")),
            (_, Some(cause)) => format!(", mostly ({}×): {}", cause.times, self.cause_text(cause)),
            (_, None) => String::new(),
        };
        Some(format!("{claimed}, rejected {}×{why}", self.rejections))
    }

    /// A cause, with its validator if there are several.
    #[must_use]
    pub fn cause_text(&self, cause: &Cause) -> String {
        let several = self.causes.iter().any(|other| other.validator != cause.validator);
        let name = if several && !cause.validator.is_empty() {
            format!("{}: ", cause.validator)
        } else {
            String::new()
        };
        let how = if cause.is_error { "could not be checked: " } else { "" };
        format!("{name}{how}{}", cause.text)
    }
}

/// The first clause of a reason: what it says before it goes into details.
pub(super) fn gist(reason: &str) -> String {
    let line = reason.trim().lines().next().unwrap_or_default();
    let (mut quoted, mut end) = (false, line.len());
    let mut rest = line.char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        match c {
            '`' => quoted = !quoted,
            ':' | '.' | ';' if !quoted && rest.peek().is_none_or(|(_, next)| *next == ' ') => {
                end = at;
                break;
            }
            _ => {}
        }
    }
    let clause = line.get(..end).unwrap_or(line).trim();
    match clause.char_indices().nth(LONGEST_CAUSE) {
        Some((at, _)) => format!("{}…", clause.get(..at).unwrap_or_default()),
        None => clause.to_owned(),
    }
}
