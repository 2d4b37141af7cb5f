//! What a pull request says: the receipt for people.

use ralph_orchestrator_driver::ItemRun;
use ralph_orchestrator_forge::{CodeHost, PullRequestText, TextSection};
use ralph_orchestrator_git::make_inert;
use ralph_orchestrator_safe_fs::{SymlinkPolicy, read_file};
use ralph_orchestrator_shell_text::{quote_command, quote_word};
use ralph_orchestrator_store::WorktreeRecord;
use ralph_orchestrator_story::completion_report::describe_completion;
use ralph_orchestrator_text::one_line;

use super::branch_work::{BranchWork, CompleteRun};
use super::worktree_maker::shorten_commit;
use crate::context::Context;

/// The longest title, in characters.
const LONGEST_TITLE: usize = 100;
/// The longest prompt of which the first line is the title, in bytes.
const LARGEST_PROMPT: usize = 1024 * 1024;

/// Returns the title: that of the only item, or their number, or the first line of the prompt; else the branch.
pub(super) fn find_title(context: &Context, work: &BranchWork) -> String {
    let items: Vec<&ItemRun> = work.complete.iter().filter_map(|run| run.item.as_ref()).collect();
    let title = match items.as_slice() {
        [] => read_task(context).unwrap_or_default(),
        [only] => only.title.clone(),
        several => format!("{} items of the backlog", several.len()),
    };
    // It is the subject of the commit where the request is merged as one.
    let title = one_line(&make_inert(&title), LONGEST_TITLE);
    if title.trim().is_empty() { work.record.branch.clone() } else { title }
}

fn read_task(context: &Context) -> Option<String> {
    let run = &context.loaded.config.run;
    let read = |path: &std::path::PathBuf| {
        let text = read_file(path, LARGEST_PROMPT, SymlinkPolicy::Refuse).ok()?;
        String::from_utf8(text).ok()
    };
    let text = run.prompt_text.clone().or_else(|| run.prompt.as_ref().and_then(read))?;
    let mut lines = text.lines().map(|line| line.trim_start_matches('#').trim());
    lines.find(|line| !line.is_empty()).map(str::to_owned)
}

/// Returns what is said of the work on the branch.
pub(super) fn describe(
    context: &Context,
    work: &BranchWork,
    workflows: &[String],
) -> PullRequestText {
    let closes = work.unproved.is_empty();
    let opening = describe_workflows(workflows) + &describe_unproved(&work.unproved);
    PullRequestText {
        opening: opening + &describe_verification(work),
        sections: work.complete.iter().map(|run| describe_run(context, run, closes)).collect(),
    }
}

/// Names what the host runs once it is there.
fn describe_workflows(files: &[String]) -> String {
    if files.is_empty() {
        return String::new();
    }
    let named = files.iter().map(|file| format!("- `{}`\n", file.replace('`', "'")));
    format!(
        "**The branch changes what the host runs**, with the repository's secrets: read it before you let it run.\n\n{}\n",
        named.collect::<String>()
    )
}

fn describe_run(context: &Context, run: &CompleteRun, closes: bool) -> TextSection {
    let CompleteRun { found, item } = run;
    let describe_item = |item: &ItemRun| {
        format!("## {}\n\n{}", name_item(item), describe_item(context, item, closes))
    };
    TextSection {
        opening: item.as_ref().map(describe_item).unwrap_or_default(),
        details: describe_completion(&found.run, &found.state),
    }
}

fn describe_verification(work: &BranchWork) -> String {
    let WorktreeRecord { branch, base, .. } = &work.record;
    let of_item = |item: &ItemRun| {
        format!("ralph-orchestrator verify --item {}\n", quote_word(one_line(&item.item, 80)))
    };
    let items: String =
        work.complete.iter().filter_map(|run| run.item.as_ref()).map(of_item).collect();
    let commands = if items.is_empty() { "ralph-orchestrator verify\n".to_owned() } else { items };
    format!(
        "An agent made the commits on this branch since `{base}`; no person has read them yet. To run the checks again:\n\n\
         ```sh\ngit fetch origin {branch} && git switch {branch}\n{commands}```\n\n",
        base = shorten_commit(base),
    )
}

/// Says of which work that is on the branch no check has accepted anything.
fn describe_unproved(unproved: &[ItemRun]) -> String {
    if unproved.is_empty() {
        return String::new();
    }
    let items: String = unproved.iter().map(|item| format!("- {}\n", name_item(item))).collect();
    format!(
        "**The branch also has work on items that are not complete**, which no check has accepted, and which may have changed \
         what is complete:\n\n{items}\n"
    )
}

fn name_item(item: &ItemRun) -> String {
    let title = one_line(&item.title, LONGEST_TITLE).replace('`', "'");
    format!("Item {}: `{title}`", one_line(&item.item, 80))
}

/// Says which issue an item is, and by what it is checked besides. An issue is closed by merging only what was proved.
fn describe_item(context: &Context, item: &ItemRun, closes: bool) -> String {
    let Some(backlog) = &context.loaded.config.backlog else { return String::new() };
    let mut text = String::new();
    if CodeHost::from_name(&backlog.kind).is_some() {
        let word = if closes { "Closes" } else { "Part of" };
        let repository = backlog.tracker.repository.as_deref().map(name_repository);
        let repository = repository.unwrap_or_default();
        text.push_str(&format!("{word} {repository}#{}.\n\n", one_line(&item.item, 80)));
    }
    let check = backlog.check_of(&item.item, None);
    if !check.is_empty() {
        let command = one_line(&quote_command(&check), LONGEST_TITLE).replace('`', "'");
        text.push_str(&format!("Its own check: `{command}`\n\n"));
    }
    text
}

/// Returns a repository as references to issues have it, of "acme/widgets", "host/acme/widgets" or an address.
fn name_repository(text: &str) -> String {
    let name = text.trim_end_matches('/').trim_end_matches(".git");
    let path = name.split_once("://").map_or(name, |(_, rest)| rest).replace(':', "/");
    match path.split_once('/') {
        Some((host, rest)) if host.contains('.') && rest.contains('/') => rest.to_owned(),
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_named_without_its_host() {
        for text in [
            "acme/widgets",
            "github.com/acme/widgets",
            "https://github.com/acme/widgets.git",
            "https://github.com/acme/widgets/",
            "git@github.com:acme/widgets.git",
        ] {
            assert_eq!(name_repository(text), "acme/widgets", "{text}");
        }
        assert_eq!(name_repository("https://gitlab.com/a/b/c"), "a/b/c");
        assert_eq!(name_repository("acme.org/widgets"), "acme.org/widgets");
    }
}
