//! What checks in a checkout did not see, in the words of a rejection.

use ralph_orchestrator_checkout::PreparedCheckout;
use ralph_orchestrator_contract::Verdict;
use ralph_orchestrator_text::escape_line;

use super::protection::join_names;

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
        let names = paths.iter().map(|path| escape_line(&path.to_string_lossy()));
        reasons.push(format!(
            "{what}: {}. If the check needs them, have it make them itself",
            join_names(names.collect())
        ));
    }
    Verdict::Rejected { reasons }
}
