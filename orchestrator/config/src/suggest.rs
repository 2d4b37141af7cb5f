//! Finds the name that was probably meant.

/// Returns the candidate that is most like `name`, if one is like it at all: a few letters wrong, `-` for
/// `_`, another case, or one of the two is a part of the other.
pub fn nearest<'a, S: AsRef<str> + ?Sized + 'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a S>,
) -> Option<&'a str> {
    let candidates = candidates.into_iter().map(AsRef::as_ref).collect::<Vec<&str>>();
    misspelt(name, candidates.iter().copied()).or_else(|| {
        let wanted = folded(name);
        let part_of = |candidate: &&str| {
            let other = folded(candidate);
            let shorter = wanted.chars().count().min(other.chars().count());
            shorter >= 4 && (other.contains(&wanted) || wanted.contains(&other))
        };
        candidates.into_iter().filter(part_of).min_by_key(|candidate| candidate.len())
    })
}

/// Returns the candidate of which at most every third character is wrong in `name`.
pub(crate) fn misspelt<'a, S: AsRef<str> + ?Sized + 'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a S>,
) -> Option<&'a str> {
    misspelt_within(usize::MAX, name, candidates)
}

/// Returns the same, if at most `most` characters are wrong: among many candidates some are alike by chance.
pub fn misspelt_within<'a, S: AsRef<str> + ?Sized + 'a>(
    most: usize,
    name: &str,
    candidates: impl IntoIterator<Item = &'a S>,
) -> Option<&'a str> {
    let wanted = folded(name);
    candidates
        .into_iter()
        .map(AsRef::as_ref)
        .filter_map(|candidate: &str| {
            let other = folded(candidate);
            let distance = strsim::damerau_levenshtein(&wanted, &other);
            let longer = wanted.chars().count().max(other.chars().count());
            (distance <= most && distance * 3 <= longer).then_some((distance, candidate))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

fn folded(name: &str) -> String {
    name.to_lowercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::{misspelt_within, nearest};

    #[test]
    fn what_is_near_and_what_is_not() {
        let names = ["max_cost_usd", "max_runtime", "idle_timeout", "iteration_timeout"];
        for (name, expected) in [
            ("max_cost", Some("max_cost_usd")),
            ("max_cost_used", Some("max_cost_usd")),
            ("MAX-RUNTIME", Some("max_runtime")),
            ("timeout", Some("idle_timeout")),
            ("iteration_time", Some("iteration_timeout")),
            ("plugins", None),
            ("", None),
            ("ключ", None),
        ] {
            assert_eq!(nearest(name, &names), expected, "{name}");
        }
        assert_eq!(nearest::<str>("x", []), None);
        let programs = ["ssh-agent", "claude", "cat"];
        for (name, expected) in
            [("my-agent", None), ("clawd", Some("claude")), ("agent", None), ("ct", Some("cat"))]
        {
            assert_eq!(misspelt_within(2, name, &programs), expected, "{name}");
        }
    }
}
