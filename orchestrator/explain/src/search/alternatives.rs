//! Finds parts of which one is enough: none is noticed alone, and all together are.

use super::trials::{Stop, Trials};
use crate::patch::PartSet;

/// What is known about parts that are noticed together.
pub(super) struct FoundAlternatives {
    /// Groups of which one alternative is enough.
    pub(super) groups: Vec<Vec<PartSet>>,
    /// What no check notices.
    pub(super) unnoticed: Vec<PartSet>,
    /// Whether one run was green without all of `unnoticed`.
    pub(super) is_together: bool,
}

fn unite<'a>(sets: impl IntoIterator<Item = &'a PartSet>) -> PartSet {
    sets.into_iter().flatten().copied().collect()
}

/// Removes sets as long as the checks stay green, then finds for each one that has to stay which of those removed does
/// as well.
pub(super) async fn find_alternatives(
    trials: &mut Trials<'_>,
    sets: &[PartSet],
) -> Result<FoundAlternatives, Stop> {
    let (gone, kept) = remove_cumulatively(trials, sets).await?;
    let mut groups = Vec::new();
    for set in kept {
        if !trials.is_green(&set).await? {
            // It went unnoticed only together with others.
            let verdict = trials.find_verdict(&set).await?;
            trials.set_verdict(&set, &verdict);
            continue;
        }
        let mut group = vec![set];
        while let Some(other) = find_replacement(trials, &group, &gone).await? {
            group.push(other);
        }
        groups.push(group);
    }
    let is_free = |set: &PartSet| groups.iter().flatten().all(|other| set.is_disjoint(other));
    let unnoticed: Vec<PartSet> = gone.into_iter().filter(is_free).collect();
    let is_together = trials.is_green(&unite(&unnoticed)).await?;
    Ok(FoundAlternatives { groups, unnoticed, is_together })
}

/// Divides sets into those that can go together, and those without which the checks then fail.
async fn remove_cumulatively(
    trials: &mut Trials<'_>,
    sets: &[PartSet],
) -> Result<(Vec<PartSet>, Vec<PartSet>), Stop> {
    let (mut gone, mut kept): (Vec<PartSet>, Vec<PartSet>) = (Vec::new(), Vec::new());
    let mut rest = sets;
    while !trials.is_green(&unite(gone.iter().chain(rest))).await? {
        let (mut green, mut red) = (0, rest.len());
        while red - green > 1 {
            let middle = green.midpoint(red);
            let tried = rest.iter().take(middle);
            match trials.is_green(&unite(gone.iter().chain(tried))).await? {
                true => green = middle,
                false => red = middle,
            }
        }
        gone.extend(rest.iter().take(green).cloned());
        kept.extend(rest.get(green).cloned());
        rest = rest.get(red..).unwrap_or_default();
        if rest.is_empty() {
            return Ok((gone, kept));
        }
    }
    gone.extend(rest.iter().cloned());
    Ok((gone, kept))
}

/// Finds the fewest removed sets that make the checks green again without any of `out`.
async fn find_replacement(
    trials: &mut Trials<'_>,
    out: &[PartSet],
    gone: &[PartSet],
) -> Result<Option<PartSet>, Stop> {
    let hidden = unite(out);
    let mut pool: Vec<&PartSet> = gone.iter().filter(|set| set.is_disjoint(&hidden)).collect();
    if !trials.is_green(&hidden).await? {
        return Ok(None);
    }
    let all = unite(pool.iter().copied());
    let mut back = PartSet::new();
    loop {
        let left_out = |more: &[&PartSet]| -> PartSet {
            let more = unite(more.iter().copied());
            let stays = |part: &&usize| !back.contains(*part) && !more.contains(*part);
            hidden.iter().chain(all.iter().filter(stays)).copied().collect()
        };
        if !back.is_empty() && trials.is_green(&left_out(&[])).await? {
            return Ok(Some(back));
        }
        let (mut red, mut green) = (0, pool.len());
        while green - red > 1 {
            let middle = red.midpoint(green);
            match trials.is_green(&left_out(pool.get(..middle).unwrap_or_default())).await? {
                true => green = middle,
                false => red = middle,
            }
        }
        let Some(set) = pool.get(green.saturating_sub(1)) else { return Ok(None) };
        back.extend(set.iter());
        pool.truncate(green.saturating_sub(1));
    }
}
