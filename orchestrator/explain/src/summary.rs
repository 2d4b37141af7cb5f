//! Says in words what is known about the parts.

use std::collections::BTreeMap;
use std::time::Duration;

use ralph_orchestrator_text::{duration, escape_line};

use crate::content::FileRole;
use crate::explanation::{ExplainedPart, Explanation, PartVerdict, StopCause};
use crate::patch::{FileEvent, PartRegion};

/// More files are only counted.
const MAX_FILES: usize = 8;

/// Says in a few sentences which parts of the work the checks notice.
#[must_use]
pub fn summarize(explanation: &Explanation) -> String {
    let list = |role: fn(FileRole) -> bool, is_wanted: fn(&PartVerdict) -> bool| {
        list_files(explanation, |part| role(part.role) && is_wanted(&part.verdict), true)
    };
    let list_needed = |is_wanted: fn(&PartVerdict) -> bool| {
        let is_other = |part: &ExplainedPart| part.role != FileRole::SteersChecks;
        list_files(explanation, |part| is_other(part) && is_wanted(&part.verdict), false)
    };
    let is_needed = |verdict: &PartVerdict| matches!(verdict, PartVerdict::Needed { .. });
    let is_unnoticed = |verdict: &PartVerdict| *verdict == PartVerdict::NoCheckNotices;
    let is_other = |role| role != FileRole::SteersChecks;
    let is_no_test = |role| !matches!(role, FileRole::SteersChecks | FileRole::OwnTest);
    let gone = match explanation.is_unnoticed_together {
        true => "No check notices if these are gone",
        false => "No check notices if one of these is gone; all together were not tried",
    };
    let endless = format!("The checks do not end within {} without", spell(explanation.time_limit));
    let mut sentences = vec![
        ("needed", list_needed(is_needed)),
        (gone, list(is_no_test, is_unnoticed)),
        ("Holds the build", list(is_other, |verdict| *verdict == PartVerdict::HoldsBuild)),
        (&endless, list(is_other, |verdict| *verdict == PartVerdict::DoesNotEnd)),
    ];
    let groups = explanation.alternatives.iter().map(|group| list_alternatives(explanation, group));
    sentences.extend(groups.map(|group| ("One of these is enough", group)));
    sentences.extend([
        (
            "Only the work's own tests need",
            list(is_other, |verdict| *verdict == PartVerdict::OnlyOwnTests),
        ),
        (
            "The checks are also green without the work's own tests",
            list(|role| role == FileRole::OwnTest, is_unnoticed),
        ),
        (
            "Rewritten by the checks, so leaving it out shows nothing",
            list(is_other, |verdict| *verdict == PartVerdict::RewrittenByChecks),
        ),
        (
            "Unstable, a repeated run without it had another result",
            list(is_other, |verdict| *verdict == PartVerdict::Unstable),
        ),
        ("Steers the checks", list_steering(explanation)),
    ]);
    let not_tried = list(is_other, |verdict| *verdict == PartVerdict::NotTried);
    sentences.push(("Not tried", not_tried));
    let sentences = sentences.into_iter().filter(|(_, files)| !files.is_empty());
    let sentences = sentences.map(|(words, files)| format!("{words}: {files}."));
    describe_stop(explanation).into_iter().chain(sentences).collect::<Vec<_>>().join(" ")
}

/// Says that not everything was tried, and why.
fn describe_stop(explanation: &Explanation) -> Option<String> {
    let all = explanation.parts.len();
    let is_tried = |part: &&ExplainedPart| part.verdict != PartVerdict::NotTried;
    let tried = explanation.parts.iter().filter(is_tried).count();
    let parts = if all == 1 { "part" } else { "parts" };
    let begin = format!("explained in part: {tried} of {all} {parts} tried");
    let taken = spell(explanation.elapsed);
    match explanation.stopped.as_ref()? {
        StopCause::Budget => {
            let budget = spell(explanation.budget);
            Some(format!(
                "{begin} in {taken}; a further run of the checks may not end within {budget}."
            ))
        }
        StopCause::Cancelled => Some(format!("{begin} in {taken}, then it was stopped.")),
        StopCause::Error { message } => {
            Some(format!("{begin}, then the checks could not run ({}).", escape_line(message)))
        }
    }
}

/// Lists the files of some parts, with how many of their hunks these are, and perhaps where.
fn list_files(
    explanation: &Explanation,
    is_wanted: impl Fn(&ExplainedPart) -> bool,
    with_lines: bool,
) -> String {
    let mut files: BTreeMap<&str, (Vec<PartRegion>, usize)> = BTreeMap::new();
    for part in &explanation.parts {
        let (wanted, all) = files.entry(&part.path).or_default();
        *all = all.saturating_add(1);
        if is_wanted(part) {
            wanted.push(part.region);
        }
    }
    let files = files.into_iter().filter(|(_, (wanted, _))| !wanted.is_empty());
    let names = files.map(|(path, (regions, all))| {
        let path = escape_line(path);
        match (regions.as_slice(), all) {
            ([PartRegion::File { event: FileEvent::Deleted }], 1) => format!("{path} (deleted)"),
            ([_], 1) => path,
            (wanted, all) if wanted.len() == all => format!("{path} ({all} hunks)"),
            (wanted, all) => {
                let lines = if with_lines { list_lines(wanted) } else { String::new() };
                format!("{path} ({} of {all} hunks){lines}", wanted.len())
            }
        }
    });
    shorten(&names.collect::<Vec<_>>(), ", ")
}

/// Says in which lines of the work hunks begin, such as " at lines 12 and 40".
fn list_lines(regions: &[PartRegion]) -> String {
    let first = |region: &PartRegion| match region {
        PartRegion::Hunk { work, .. } => Some(work.start.saturating_add(1).to_string()),
        PartRegion::Mode | PartRegion::File { .. } => None,
    };
    let lines: Vec<String> = regions.iter().filter_map(first).collect();
    match lines.as_slice() {
        [] => String::new(),
        [line] => format!(" at line {line}"),
        [some @ .., last] if lines.len() <= MAX_FILES => {
            format!(" at lines {} and {last}", some.join(", "))
        }
        lines => format!(" at lines {}", shorten(lines, ", ")),
    }
}

fn list_alternatives(explanation: &Explanation, group: &[Vec<usize>]) -> String {
    let names = |alternative: &Vec<usize>| {
        let parts = alternative.iter().filter_map(|part| explanation.parts.get(*part));
        shorten(&parts.map(name_part).collect::<Vec<_>>(), " and ")
    };
    shorten(&group.iter().map(names).collect::<Vec<_>>(), ", ")
}

/// Names a part by its file and its first line in the work.
fn name_part(part: &ExplainedPart) -> String {
    let path = escape_line(&part.path);
    match part.region {
        PartRegion::Hunk { work, .. } => format!("{path}:{}", work.start.saturating_add(1)),
        PartRegion::Mode => format!("{path} (mode)"),
        PartRegion::File { .. } => path,
    }
}

fn spell(time: Duration) -> String {
    duration(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// Lists settings that steer the checks, each with its verdict: that they are needed is no praise.
fn list_steering(explanation: &Explanation) -> String {
    let parts = explanation.parts.iter().filter(|part| part.role == FileRole::SteersChecks);
    let names = parts.map(|part| {
        format!("{} ({})", name_part(part), describe_verdict(&part.verdict, explanation.time_limit))
    });
    shorten(&names.collect::<Vec<_>>(), ", ")
}

/// Says what a verdict means.
fn describe_verdict(verdict: &PartVerdict, limit: Duration) -> String {
    match verdict {
        PartVerdict::Needed { tests } => match tests.first() {
            Some(test) => format!("needed: {} fails without it", escape_line(test)),
            None => "needed: a check fails without it".to_owned(),
        },
        PartVerdict::HoldsBuild => "holds the build".to_owned(),
        PartVerdict::DoesNotEnd => {
            format!("the checks do not end within {} without it", spell(limit))
        }
        PartVerdict::OneIsEnough { .. } => "it or another part is enough".to_owned(),
        PartVerdict::OnlyOwnTests => "only the work's own tests need it".to_owned(),
        PartVerdict::RewrittenByChecks => "rewritten by the checks".to_owned(),
        PartVerdict::Unstable => "unstable".to_owned(),
        PartVerdict::NoCheckNotices => "no check notices if it is gone".to_owned(),
        PartVerdict::NotTried => "not tried".to_owned(),
    }
}

fn shorten(names: &[String], separator: &str) -> String {
    let shown = names.get(..MAX_FILES).unwrap_or(names).join(separator);
    match names.get(MAX_FILES..).unwrap_or_default() {
        [] => shown,
        more => format!("{shown} and {} more", more.len()),
    }
}
