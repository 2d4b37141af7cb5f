//! What differs between two versions of a file, key by key, and whether the newer one is only stricter.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ralph_orchestrator_config::{
    Config, Limits, LoadedConfig, SandboxMode, SandboxWorkspace, Sources, load, toml_text,
    values_of,
};
use ralph_orchestrator_machine::{Limit, LimitValue};
use ralph_orchestrator_store::AcceptedVersion;
use ralph_orchestrator_text::{escape_line, one_line};

use crate::defaults::config_defaults;
use crate::{compiled_in, schema};

/// A version of a file that decides what runs.
#[derive(Clone, Debug)]
pub struct FileVersion {
    /// The file, by the real path of its folder.
    pub path: PathBuf,
    /// What it says.
    pub text: String,
}

/// A file that is not obeyed as it is.
#[derive(Clone, Debug)]
pub struct UnacceptedFile {
    /// The file as it is.
    pub now: FileVersion,
    /// What was accepted last; nothing if the file was never accepted.
    pub accepted: Option<String>,
    /// What was accepted that differs least from it.
    pub nearest: Option<String>,
}

/// Characters of a value that are shown, and that nobody accepts more of.
const SHOWN: usize = 8192;
/// Lines that a person sees at once, next to the question.
const SEEN_AT_ONCE: usize = 20;
/// What makes a configuration whole that leaves this to the command line.
const COMPLETE: &str =
    "[[validator]]\nkind = \"command\"\nname = \"tests\"\nprogram = [\"true\"]\n";
/// Keys whose values may be secrets.
const SECRET: &str = "env.set.";
/// Keys whose values are figures: they start and open nothing.
const FIGURES: [&str; 2] = ["limits.", "run.delay"];

/// Returns a line for each key that a file has with another value than what was accepted. None is left out; what starts
/// or opens something comes last, where the question follows.
pub(crate) fn describe(file: &UnacceptedFile) -> Vec<String> {
    let Some(now) = values_of(&file.now.text) else {
        return vec!["it is no TOML any more".to_owned()];
    };
    let before = file.nearest.as_deref().and_then(values_of).unwrap_or_default();
    let is_figure = |key: &str| FIGURES.iter().any(|figure| key.starts_with(figure));
    let (figures, others): (Vec<_>, Vec<_>) =
        changes(&before, &now).partition(|(key, _, _)| is_figure(key));
    let mut lines: Vec<String> = figures.into_iter().chain(others).map(describe_change).collect();
    if lines.len() > SEEN_AT_ONCE {
        lines.push(format!("these are {} changes: read all of them", lines.len()));
    }
    lines
}

fn describe_change((key, before, now): (&str, Option<&str>, Option<&str>)) -> String {
    let key = escape_line(key);
    match (before, now) {
        _ if key.starts_with(SECRET) => format!("{key} (its value is not shown)"),
        (None, Some(now)) => format!("+ {key} = {}", one_line(now, SHOWN)),
        (Some(before), None) => format!("- {key} = {}", one_line(before, SHOWN)),
        (Some(before), Some(now)) => {
            format!("{key} = {} (was {})", one_line(now, SHOWN), one_line(before, SHOWN))
        }
        (None, None) => key,
    }
}

/// Returns the key of a new value that is too long to be shown as a whole.
pub(crate) fn find_unshowable(file: &UnacceptedFile) -> Option<String> {
    let now = values_of(&file.now.text)?;
    let before = file.nearest.as_deref().and_then(values_of).unwrap_or_default();
    let is_long = |text: &str| escape_line(text).chars().nth(SHOWN).is_some();
    changes(&before, &now)
        .find(|(key, _, now)| is_long(key) || now.is_some_and(is_long))
        .map(|(key, _, _)| one_line(key, 100))
}

type Values = BTreeMap<String, String>;

/// Returns each key that differs, with its values.
fn changes<'a>(
    before: &'a Values,
    now: &'a Values,
) -> impl Iterator<Item = (&'a str, Option<&'a str>, Option<&'a str>)> {
    let keys: std::collections::BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    keys.into_iter().filter_map(|key| {
        let (before, now) = (before.get(key), now.get(key));
        (before != now).then(|| (key.as_str(), before.map(String::as_str), now.map(String::as_str)))
    })
}

/// Returns the accepted text from which a file differs in the fewest keys, the newest of several.
pub(crate) fn find_nearest<'a>(
    versions: impl DoubleEndedIterator<Item = &'a AcceptedVersion>,
    now: &str,
) -> Option<String> {
    let now = values_of(now).unwrap_or_default();
    let count = |version: &&AcceptedVersion| {
        values_of(&version.text).map_or(usize::MAX, |before| changes(&before, &now).count())
    };
    versions.rev().min_by_key(count).map(|version| version.text.clone())
}

/// Returns the values by which a file is stricter than what was accepted of it; `None` if it differs in any other way.
/// `beneath` is the text of the user's own file, which has what the file leaves out.
pub(crate) fn tightened(file: &UnacceptedFile, beneath: Option<String>) -> Option<Vec<String>> {
    let path = &file.now.path;
    let before = load_alone(path, file.nearest.as_deref()?, beneath.clone())?;
    let now = load_alone(path, &file.now.text, beneath)?;
    list_tightened(&before, &now)
}

/// Reads a file without anything that a command line or a variable says.
fn load_alone(path: &Path, text: &str, beneath: Option<String>) -> Option<LoadedConfig> {
    let sources = Sources {
        file: path.to_owned(),
        text: Some(text.to_owned()),
        user_file: Some(PathBuf::from("beneath")),
        user_text: Some(beneath.unwrap_or_else(|| COMPLETE.to_owned())),
        defaults: config_defaults(),
        ..Sources::default()
    };
    load(&sources).ok()
}

fn list_tightened(before: &LoadedConfig, now: &LoadedConfig) -> Option<Vec<String>> {
    let (old, new) = (values_in_force(before), values_in_force(now));
    let mut lines: Vec<String> = Vec::new();
    for change in changes(&old, &new) {
        if !is_stricter(change.0, &before.config, &now.config) {
            return None;
        }
        lines.push(describe_change(change));
    }
    Some(lines)
}

/// Returns every value, with the defaults of adapters and validators, which only these know.
fn values_in_force(loaded: &LoadedConfig) -> Values {
    let mut values: Values =
        loaded.show().into_iter().map(|(key, value, _)| (key, value)).collect();
    let mut fill = |table: String, defaults: Vec<schema::Keys>| {
        for (key, value) in defaults {
            values.entry(format!("{table}.{key}")).or_insert_with(|| toml_text(&value));
        }
    };
    let (compiled_in, config) = (compiled_in::of_program(), &loaded.config);
    fill("agent.config".to_owned(), schema::agent_defaults(&compiled_in, &config.agent.adapter));
    for (name, agent) in &config.agents {
        let defaults = schema::agent_defaults(&compiled_in, &agent.adapter);
        fill(format!("agents.{name}.config"), defaults);
    }
    for (index, validator) in config.validators.iter().enumerate() {
        let defaults = schema::validator_defaults(&compiled_in, &validator.kind);
        fill(format!("validator.{index}"), defaults);
    }
    values
}

/// Whether the key is stricter now, and one that an unfinished run obeys.
fn is_stricter(key: &str, before: &Config, now: &Config) -> bool {
    let (old, new) = (&before.limits, &now.limits);
    if let Some(limit) = Limit::ALL.into_iter().find(|limit| limit.key() == key) {
        let max = |limits: &Limits| limit.configured(limits).map(LimitValue::amount);
        return max(new).is_some_and(|new| max(old).is_none_or(|old| new < old));
    }
    match key {
        "limits.iteration_timeout" => new.iteration_timeout < old.iteration_timeout,
        "limits.idle_timeout" => new.idle_timeout < old.idle_timeout,
        "sandbox.mode" => now.sandbox.mode == SandboxMode::Landlock,
        "sandbox.workspace" => now.sandbox.workspace == SandboxWorkspace::Locked,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(before: &str, now: &str) -> UnacceptedFile {
        UnacceptedFile {
            now: FileVersion { path: PathBuf::from("/p/ralph.toml"), text: now.to_owned() },
            accepted: None,
            nearest: Some(before.to_owned()),
        }
    }

    #[test]
    fn what_only_tightens_is_told_from_everything_else() {
        let check = "[[validator]]\nkind = \"command\"\nname = \"t\"\nprogram = [\"true\"]\n";
        let before = &format!("{check}[limits]\nmax_iterations = 5\n");
        let and = |more: &str| format!("{before}{more}");
        let lower = before.replace('5', "4");
        for (now, keys) in [
            (lower.clone(), Some("limits.max_iterations")),
            (before.replace('5', "6"), None),
            (before.replace('5', "'none'"), None),
            (and("[env]\npass = [\"X\"]\n"), None),
            (format!("{lower}[env]\npass = [\"X\"]\n"), None),
            (and("iteration_timeout = \"1m\"\n"), Some("limits.iteration_timeout")),
            (and("iteration_timeout = \"1h\"\n"), None),
            (and("max_stagnant = 2\n"), Some("limits.max_stagnant")),
            (and("[sandbox]\nmode = \"landlock\"\n"), Some("sandbox.mode")),
            // An unfinished run protects what it began with.
            (before.replace("name", "protect = [\"a\"]\nname"), None),
            (and(check), None),
            (and("[git]\ncommit = \"off\"\n[run]\nworkspace = \".\"\n"), Some("")),
            (
                before.replace(
                    "name",
                    "required = true\ntimeout = \"10m\"\nexpect_exit = 0\ncwd = \".\"\nname",
                ),
                Some(""),
            ),
        ] {
            let key = |change: String| change.split(' ').next().unwrap().to_owned();
            let found = tightened(&changed(before, &now), None);
            let found = found.map(|found| found.into_iter().map(key).collect::<Vec<_>>().join(" "));
            assert_eq!(found.as_deref(), keys, "{now}");
        }
        let found = tightened(&changed(before, &lower), None).unwrap();
        assert_eq!(found, ["limits.max_iterations = 4 (was 5)"]);
        let relaxed = tightened(&changed(&and("[sandbox]\nmode = \"landlock\"\n"), before), None);
        assert_eq!(relaxed, None);
        // What the file leaves out is what the user's own says.
        let own = Some("[limits]\nmax_iterations = 3\n".to_owned());
        assert_eq!(tightened(&changed(check, &lower), own), None);
    }

    #[test]
    fn the_nearest_accepted_version_is_the_one_with_the_fewest_differences() {
        let version =
            |text: &str| AcceptedVersion { digest: text.to_owned(), text: text.to_owned() };
        let versions = ["a = 1\nb = 1", "a = 2\nb = 1", "a = 9\nb = 9\nc = 9"].map(version);
        let nearest = |now: &str| find_nearest(versions.iter(), now).unwrap();
        assert_eq!(nearest("a = 1\nb = 2"), versions[0].text);
        assert_eq!(nearest("a = 3\nb = 1"), versions[1].text, "the newer of two");
        assert_eq!(nearest("a = ["), versions[1].text);
        assert_eq!(find_nearest([].iter(), "a = 1"), None);
    }

    #[test]
    fn a_change_is_described_key_by_key_and_without_secrets() {
        let file = UnacceptedFile {
            now: FileVersion {
                path: PathBuf::from("/p/ralph.toml"),
                text: "[limits]\nmax_iterations = 9\n[env]\nset = { A = \"sesame\" }\n".to_owned(),
            },
            accepted: None,
            nearest: Some("[limits]\nmax_iterations = 3\nmax_tokens = 7\n".to_owned()),
        };
        assert_eq!(
            describe(&file),
            [
                "limits.max_iterations = 9 (was 3)",
                "- limits.max_tokens = 7",
                "env.set.A (its value is not shown)",
            ]
        );
    }

    #[test]
    fn nothing_that_starts_something_is_left_out_or_cut() {
        let decoys: String = (0..40).map(|i| format!("[agents.a{i}]\nmodel = 'm'\n")).collect();
        let end = "; evil";
        let words = "x".repeat(5000);
        let file = changed(
            "",
            &format!(
                "{decoys}[validator]\nprogram = '{words}{end}'\n[limits]\nmax_iterations = 9\n"
            ),
        );
        let lines = describe(&file);
        assert!(lines.first().unwrap().contains("max_iterations"), "{lines:?}");
        assert_eq!(lines.len(), 43);
        assert!(lines.iter().any(|line| line.contains(end)));
        assert!(lines.last().unwrap().contains("42 changes"));
        assert_eq!(find_unshowable(&file), None);
        let long = changed("", &format!("[validator]\nprogram = '{words}{words}{end}'\n"));
        assert_eq!(find_unshowable(&long).as_deref(), Some("validator.program"));
        let gone = changed(&long.now.text, "");
        assert_eq!(find_unshowable(&gone), None);
    }
}
