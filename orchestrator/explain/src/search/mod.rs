//! Tries parts, in an order that takes few runs.

mod alternatives;
mod trials;

use std::collections::BTreeMap;

use crate::conditions::ExplainConditions;
use crate::content::{FileRole, WorkFile};
use crate::explanation::{ExplainedPart, Explanation, PartVerdict};
use crate::inert::is_likely_inert;
use crate::patch::{PartSet, Patch};
use crate::units::{PartWords, collect_part_words, find_clusters, find_units};
use crate::variant::VariantChecker;
use alternatives::find_alternatives;
use trials::{Stop, Trials};

/// Finds out which parts of the work the checks notice.
pub async fn explain(
    files: &BTreeMap<String, WorkFile>,
    conditions: &ExplainConditions,
    checker: &mut dyn VariantChecker,
) -> Explanation {
    let patch = Patch::from_files(files);
    let mut search = PartSearch {
        words: collect_part_words(&patch),
        patch: &patch,
        trials: Trials::start(&patch, conditions, checker),
        unnoticed: Vec::new(),
        own_tests: PartSet::new(),
        alternatives: Vec::new(),
        is_unnoticed_together: false,
    };
    let mut stopped = search.try_parts().await.err();
    // For this the time was held back.
    search.trials.held_back = 0;
    if !matches!(stopped, Some(Stop::Error(_))) {
        let rest = search.try_together().await.err();
        stopped = stopped.or(rest);
    }
    search.finish(stopped)
}

/// The state of the search.
struct PartSearch<'a> {
    patch: &'a Patch<'a>,
    words: Vec<PartWords>,
    trials: Trials<'a>,
    /// What no check notices. A set was left out as one, and stays together.
    unnoticed: Vec<PartSet>,
    /// The work's own tests without which the checks are green.
    own_tests: PartSet,
    alternatives: Vec<Vec<PartSet>>,
    is_unnoticed_together: bool,
}

impl PartSearch<'_> {
    async fn try_parts(&mut self) -> Result<(), Stop> {
        let patch = self.patch;
        let units = find_units(patch);
        let own = patch.select(|_, file| file.role == FileRole::OwnTest);
        let inert = patch
            .select(|part, file| file.role == FileRole::Work && is_likely_inert(patch, part, file));
        let (own, rest): (Vec<_>, Vec<_>) = units.into_iter().partition(|u| u.is_subset(&own));
        let (inert, rest): (Vec<_>, Vec<_>) = rest.into_iter().partition(|u| u.is_subset(&inert));
        self.try_group(inert, false).await?;
        let noticed = std::mem::take(&mut self.unnoticed);
        let tried = self.try_group(own, false).await;
        self.own_tests =
            std::mem::replace(&mut self.unnoticed, noticed).into_iter().flatten().collect();
        tried?;
        for cluster in find_clusters(patch, &rest, &self.words) {
            self.try_cluster(cluster).await?;
        }
        for unit in rest {
            self.try_unit(&unit).await?;
        }
        self.try_coupled().await
    }

    /// Leaves a set out, and records what that shows. Returns whether no check notices.
    async fn try_unit(&mut self, unit: &PartSet) -> Result<bool, Stop> {
        if unit.iter().any(|part| self.has_finding(*part)) {
            return Ok(false);
        }
        loop {
            let left_out = self.trials.without_rewritten(unit);
            if left_out.is_empty() {
                return Ok(false);
            }
            let verdict = self.trials.find_verdict(&left_out).await?;
            if self.trials.without_rewritten(unit) != left_out {
                // The checks wrote one of the files anew: the run says nothing about the others.
                continue;
            }
            let is_unnoticed = verdict == PartVerdict::NoCheckNotices;
            match is_unnoticed {
                true => self.add_unnoticed(left_out),
                false => self.trials.set_verdict(&left_out, &verdict),
            }
            return Ok(is_unnoticed);
        }
    }

    /// Records what no check notices. Together with whatever is found later it takes another run.
    fn add_unnoticed(&mut self, parts: PartSet) {
        self.unnoticed.push(parts);
        self.trials.held_back = 1;
    }

    fn has_finding(&self, part: usize) -> bool {
        self.trials.verdict(part) != &PartVerdict::NotTried
            || self.unnoticed.iter().any(|unit| unit.contains(&part))
    }

    /// Leaves a set out as one; only what is green is recorded.
    async fn try_as_one(&mut self, set: &PartSet) -> Result<bool, Stop> {
        let left_out = self.trials.without_rewritten(set);
        let is_green = !left_out.is_empty() && self.trials.is_green_once(&left_out).await?;
        let is_unchanged = self.trials.without_rewritten(set) == left_out;
        if is_green && is_unchanged {
            self.trials.set_verdict(&left_out, &PartVerdict::NotTried);
            self.add_unnoticed(left_out);
        }
        Ok(is_green && is_unchanged)
    }

    /// Tries parts that are likely inert: all of them at first, then halves of what is noticed.
    async fn try_group(&mut self, group: Vec<PartSet>, is_noticed: bool) -> Result<(), Stop> {
        let mut groups = vec![(group, is_noticed)];
        while let Some((group, is_noticed)) = groups.pop() {
            let (first, second) = group.split_at(group.len() / 2);
            let Some(unit) = second.first() else { continue };
            if first.is_empty() {
                self.try_unit(unit).await?;
                continue;
            }
            if !is_noticed && self.try_whole_group(&group).await? {
                continue;
            }
            let is_first_green = match first {
                [unit] => self.try_unit(unit).await?,
                _ => self.try_whole_group(first).await?,
            };
            // If nothing of the first half is noticed, something of the second one is.
            groups.push((second.to_vec(), is_first_green));
            if !is_first_green && first.len() > 1 {
                groups.push((first.to_vec(), true));
            }
        }
        Ok(())
    }

    /// Leaves all of a group out in one run; where it is green, its units are unnoticed one by one.
    async fn try_whole_group(&mut self, group: &[PartSet]) -> Result<bool, Stop> {
        let all = group.iter().flatten().copied().collect();
        let is_green = self.try_as_one(&all).await?;
        if is_green {
            self.unnoticed.pop();
            self.unnoticed.extend(group.iter().cloned());
        }
        Ok(is_green)
    }

    /// Leaves parts that belong together out as one; what is noticed is tried by its files, if it is most of the work.
    async fn try_cluster(&mut self, cluster: Vec<PartSet>) -> Result<(), Stop> {
        let all: PartSet = cluster.iter().flatten().copied().collect();
        if self.try_as_one(&all).await? || all.len() * 2 <= self.patch.parts.len() {
            return Ok(());
        }
        let mut by_file: BTreeMap<usize, PartSet> = BTreeMap::new();
        for unit in &cluster {
            if let Some((place, _)) = unit.first().and_then(|part| self.patch.part(*part)) {
                by_file.entry(place.file).or_default().extend(unit);
            }
        }
        for parts in by_file.values().filter(|parts| parts.len() > 1 && by_file.len() > 1) {
            self.try_as_one(parts).await?;
        }
        Ok(())
    }

    /// Leaves out as one what fails no test that the work repaired: a changed signature and its calls are each noticed
    /// alone, and not together.
    async fn try_coupled(&mut self) -> Result<(), Stop> {
        let coupled: PartSet = (0..self.patch.parts.len())
            .filter(|part| self.trials.breaks_no_repaired_test(*part))
            .collect();
        if coupled.len() > 1 {
            self.try_as_one(&coupled).await?;
        }
        Ok(())
    }

    /// Leaves everything out that no check notices, and names the alternatives if that is noticed.
    async fn try_together(&mut self) -> Result<(), Stop> {
        self.exclude_rewritten();
        let left_out: PartSet = self.unnoticed.iter().flatten().copied().collect();
        let verdict = match left_out.is_empty() {
            true => PartVerdict::NoCheckNotices,
            false => self.trials.find_verdict(&left_out).await?,
        };
        match verdict {
            PartVerdict::NoCheckNotices => self.is_unnoticed_together = true,
            PartVerdict::Unstable => {}
            _ => {
                self.exclude_rewritten();
                let found = find_alternatives(&mut self.trials, &self.unnoticed).await;
                match found {
                    Ok(found) => {
                        self.unnoticed = found.unnoticed;
                        self.alternatives = found.groups;
                        self.is_unnoticed_together = found.is_together;
                    }
                    Err(Stop::Unstable) => {}
                    Err(stop) => return Err(stop),
                }
            }
        }
        self.try_without_own_tests().await
    }

    /// Removes what the checks write anew from what no check notices.
    fn exclude_rewritten(&mut self) {
        let sets = self.unnoticed.iter().map(|set| self.trials.without_rewritten(set));
        self.unnoticed = sets.filter(|set| !set.is_empty()).collect();
        self.unnoticed.sort();
    }

    /// Finds what only the work's own tests need: the checks are green without both.
    async fn try_without_own_tests(&mut self) -> Result<(), Stop> {
        let own: Vec<&PartWords> =
            self.own_tests.iter().filter_map(|part| self.words.get(*part)).collect();
        let names_part = |part: &usize| {
            let words = self.words.get(*part);
            words.is_some_and(|words| own.iter().any(|own| own.has_common(words)))
        };
        let is_candidate = |part: &usize| match self.trials.verdict(*part) {
            PartVerdict::Needed { .. } => self.trials.breaks_no_repaired_test(*part),
            PartVerdict::HoldsBuild | PartVerdict::DoesNotEnd => names_part(part),
            _ => false,
        };
        let candidates: PartSet = (0..self.patch.parts.len()).filter(is_candidate).collect();
        if own.is_empty() || candidates.is_empty() {
            return Ok(());
        }
        let one_by_one = candidates.iter().map(|part| PartSet::from([*part]));
        for set in std::iter::once(candidates.clone()).chain(one_by_one) {
            let left_out: PartSet = set.union(&self.own_tests).copied().collect();
            if self.trials.is_green_once(&left_out).await? {
                self.trials.set_verdict(&set, &PartVerdict::OnlyOwnTests);
                if set == candidates {
                    break;
                }
            }
        }
        Ok(())
    }

    fn finish(mut self, stopped: Option<Stop>) -> Explanation {
        let own = std::mem::take(&mut self.own_tests);
        for unit in self.unnoticed.iter().chain([&own]) {
            self.trials.set_verdict(unit, &PartVerdict::NoCheckNotices);
        }
        let patch = self.patch;
        for (number, part) in patch.parts.iter().enumerate() {
            let is_member = |group: &&Vec<PartSet>| group.iter().any(|set| set.contains(&number));
            let groups = self.alternatives.iter().enumerate();
            let groups: Vec<usize> =
                groups.filter(|(_, group)| is_member(group)).map(|(index, _)| index).collect();
            let set = PartSet::from([number]);
            if !groups.is_empty() {
                self.trials.set_verdict(&set, &PartVerdict::OneIsEnough { groups });
            }
            if self.trials.is_rewritten(part.file) {
                self.trials.set_verdict(&set, &PartVerdict::RewrittenByChecks);
            }
        }
        let parts = patch.parts.iter().enumerate().filter_map(|(number, part)| {
            let file = patch.files.get(part.file)?;
            Some(ExplainedPart {
                path: file.path.to_owned(),
                role: file.role,
                region: part.region,
                verdict: self.trials.verdict(number).clone(),
            })
        });
        let groups = self
            .alternatives
            .iter()
            .map(|group| group.iter().map(|set| set.iter().copied().collect()).collect());
        Explanation {
            parts: parts.collect(),
            alternatives: groups.collect(),
            is_unnoticed_together: self.is_unnoticed_together,
            runs: self.trials.runs,
            time_limit: self.trials.time_limit(),
            elapsed: self.trials.elapsed(),
            budget: self.trials.budget(),
            stopped: stopped.and_then(Stop::into_cause),
        }
    }
}
