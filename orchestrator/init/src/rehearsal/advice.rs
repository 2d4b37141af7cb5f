//! What to add to a configuration by which a cheat would be accepted.

use std::path::{Path, PathBuf};

use ralph_orchestrator_checkout::Variant;
use ralph_orchestrator_config::ValidatorConfig;
use ralph_orchestrator_workspace::ProtectedPaths;

use super::moves::{Move, MoveKind};
use crate::protect;
use crate::systems::patterns;
use crate::test_files::{self, escape};
use crate::toml_list::list;

/// Returns the line to add for something that went wrong, or what else helps.
pub(super) fn advise(
    workspace: &Path,
    check: &ValidatorConfig,
    one: &Move,
    visible: &Variant,
) -> String {
    if one.kind.is_honest() {
        return format!("take what covers {} out of `protect`", one.what);
    }
    if one.is_inline {
        return "the tests are in a source file, which the agent has to edit: put those that prove the work into files of their \
                own, and name these in `protect`"
            .to_owned();
    }
    match one.kind {
        MoveKind::EarlyExit => advise_match(workspace, check),
        _ => advise_protect(workspace, check, visible),
    }
}

fn advise_match(workspace: &Path, check: &ValidatorConfig) -> String {
    let commands = protect::find_commands(&folder(workspace, check), &strings(check, "program"));
    let pattern = commands.iter().flat_map(|command| patterns::of_command(command)).next();
    match pattern.filter(|_| check.config.get("must_match").is_none()) {
        Some(pattern) => format!("must_match = '{pattern}'"),
        None => "have the check print how many tests passed, and require that by `must_match`: its exit status alone decides"
            .to_owned(),
    }
}

fn folder(workspace: &Path, check: &ValidatorConfig) -> PathBuf {
    workspace.join(check.config.get("cwd").and_then(|cwd| cwd.as_str()).unwrap_or_default())
}

/// Returns the globs by which what was changed is protected, as far as it is there: one that matches nothing is refused.
fn advise_protect(workspace: &Path, check: &ValidatorConfig, visible: &Variant) -> String {
    let known = strings(check, "protect");
    let mut globs = known.clone();
    let mut missing = Vec::new();
    if known.is_empty() {
        let found = protect::find(workspace, &strings(check, "program"));
        globs.extend(found.globs);
    }
    let of_tests = test_files::find_globs(workspace);
    for path in visible.keys() {
        let covers = |glob: &&String| {
            ProtectedPaths::new(&[(*glob).clone()]).is_ok_and(|glob| glob.contains(path))
        };
        let text = escape(&path.to_string_lossy());
        if globs.iter().any(|glob| covers(&glob)) {
            continue;
        }
        if workspace.join(path).exists() {
            globs.push(of_tests.iter().find(covers).cloned().unwrap_or(text));
        } else {
            missing.push(text);
        }
    }
    // Beside what is protected, a setting that a runner would find is rejected when it appears.
    let is_enough = known.is_empty() && !globs.is_empty();
    if is_enough {
        missing.clear();
    }
    let first = match missing.as_slice() {
        [] => String::new(),
        names => format!("commit an empty {}, and then: ", names.join(", ")),
    };
    globs.extend(missing);
    match list(&globs) {
        Ok(list) if !globs.is_empty() => format!("{first}protect = {list}"),
        _ => "no file of tests was found: name what proves the work in `protect`".to_owned(),
    }
}

/// Returns a list of strings in the table of a validator.
pub(super) fn strings(check: &ValidatorConfig, key: &str) -> Vec<String> {
    let list = check.config.get(key).and_then(|list| list.as_array()).into_iter().flatten();
    list.filter_map(|word| word.as_str().map(str::to_owned)).collect()
}
