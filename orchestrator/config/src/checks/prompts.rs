//! Checks of the prompts of roles, and of what the initializer has to produce.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use super::make_absolute;
use crate::diagnostics::Diagnostics;
use crate::model::{AgentConfig, Initializer, Prompts, Role, Run};
use crate::suggest::nearest;

/// Checks `[prompts]`, and makes its paths absolute. Without it no key may need it.
pub(super) fn check(
    prompts: &mut Option<Prompts>,
    (initializer, has_backlog): (Option<&Initializer>, bool),
    run: &Run,
    agents: &BTreeMap<String, AgentConfig>,
    dir: &Path,
    diagnostics: &mut Diagnostics<'_>,
) {
    if let Some(initializer) = initializer {
        products(initializer, has_backlog, diagnostics);
    }
    let Some(prompts) = prompts else {
        let message = "roles have prompts of their own, and there is no `[prompts]`";
        let help = Some(
            "add a table [prompts], which may be empty: it says where the prompts of roles are",
        );
        if run.role.is_some() {
            diagnostics.add_with_help(&["run", "role"], message, help);
        }
        if initializer.is_some() {
            diagnostics.add_with_help(&["initializer"], message, help);
        }
        return;
    };
    paths(prompts, &run.workspace, dir, diagnostics);
    names(prompts, diagnostics);
    if !diagnostics.is_damaged(&["agents"]) {
        role_agents(prompts, agents, diagnostics);
    }
}

fn paths(prompts: &mut Prompts, workspace: &Path, dir: &Path, diagnostics: &mut Diagnostics<'_>) {
    if prompts.paths.is_empty() {
        let message = "without a path no prompt can be found; \"built-in\" is the text that \
                       comes with the program";
        diagnostics.add(&["prompts", "paths"], message);
    }
    let last = prompts.paths.len().saturating_sub(1);
    for (index, pattern) in prompts.paths.iter_mut().enumerate() {
        let number = index.to_string();
        let key = ["prompts", "paths", number.as_str()];
        if pattern == Prompts::BUILT_IN {
            if index != last {
                diagnostics.add(&key, "\"built-in\" is always found, so nothing can follow it");
            }
            continue;
        }
        if !pattern.contains(Prompts::NAME) {
            let message = "expected a path with `{name}`, which stands for the name of the prompt, \
                           or \"built-in\"";
            diagnostics.add(&key, message);
        }
        let rest = pattern.replace(Prompts::NAME, "").replacen(Prompts::PROJECT, "", 1);
        let project = workspace.display().to_string();
        let in_project = pattern.strip_prefix(Prompts::PROJECT);
        if rest.contains(['{', '}']) || (pattern.contains(Prompts::PROJECT) && in_project.is_none())
        {
            let message = "expected no braces but `{name}`, and `{project}` at the beginning for the \
                           workspace";
            diagnostics.add(&key, message);
            continue;
        }
        let path = match in_project {
            Some(rest) => format!("{project}{rest}"),
            None => pattern.clone(),
        };
        *pattern = make_absolute(Path::new(&path), dir, &key, diagnostics).display().to_string();
    }
}

/// A name is one part of a path.
fn names(prompts: &Prompts, diagnostics: &mut Diagnostics<'_>) {
    for role in Role::ALL {
        let name = prompts.names.of(role);
        let mut parts = Path::new(name).components();
        let is_plain = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
        if !is_plain || name.chars().any(|letter| letter.is_control() || letter == '/') {
            let message = format!("expected the name of a file without its ending, found {name:?}");
            diagnostics.add(&["prompts", "names", role.word()], message);
        }
    }
}

fn role_agents(
    prompts: &Prompts,
    agents: &BTreeMap<String, AgentConfig>,
    diagnostics: &mut Diagnostics<'_>,
) {
    for role in Role::ALL {
        let Some(name) = prompts.agents.of(role).filter(|name| !agents.contains_key(*name)) else {
            continue;
        };
        let near = nearest(name, agents.keys().map(String::as_str));
        let help = near.map_or_else(
            || format!("add a table [agents.{name}]"),
            |near| format!("did you mean \"{near}\"?"),
        );
        let message = format!("there is no agent called {name:?}");
        diagnostics.add_with_help(&["prompts", "agents", role.word()], message, Some(&help));
    }
}

fn products(initializer: &Initializer, has_backlog: bool, diagnostics: &mut Diagnostics<'_>) {
    if !has_backlog && initializer.files().is_empty() && !initializer.commit {
        let message = "the initializer has nothing to produce, so nothing would say when it is done; \
                       name its `products`, `executables`, or `commit = true`";
        diagnostics.add(&["initializer"], message);
    }
    if initializer.max_attempts == 0 {
        diagnostics.add(&["initializer", "max_attempts"], "must be at least 1");
    }
    for (list, paths) in
        [("products", &initializer.products), ("executables", &initializer.executables)]
    {
        for (index, path) in paths.iter().enumerate() {
            let is_inside = !path.as_os_str().is_empty()
                && path
                    .components()
                    .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
            if !is_inside {
                let message = format!(
                    "expected a path within the workspace, found {:?}",
                    path.display().to_string()
                );
                diagnostics.add(&["initializer", list, &index.to_string()], message);
            }
        }
    }
}
