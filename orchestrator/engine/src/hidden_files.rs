//! What checks in a checkout did not see, in the words of a rejection.

use ralph_orchestrator_checkout::PreparedCheckout;
use ralph_orchestrator_contract::Verdict;
use ralph_orchestrator_text::escape_line;

/// How many hidden paths a rejection names.
const NAMED: usize = 10;

/// Says, where a check rejects, what it did not see.
pub(super) fn explain_hidden(verdict: Verdict, checkout: &PreparedCheckout) -> Verdict {
    let lists = [
        (
            &checkout.hidden,
            "the check did not see these, which git ignores and which are new or changed since the run began",
        ),
        (&checkout.gone, "these, which git ignores, were there when the run began"),
    ];
    let Verdict::Rejected { mut reasons } = verdict else { return verdict };
    for (paths, what) in lists.iter().filter(|(paths, _)| !paths.is_empty()) {
        let names = paths.iter().take(NAMED).map(|path| escape_line(&path.to_string_lossy()));
        let names: Vec<String> = names.collect();
        let more = match paths.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        reasons.push(format!(
            "{what}: {}{more}. If the check needs them, have it make them itself",
            names.join(", ")
        ));
    }
    Verdict::Rejected { reasons }
}
