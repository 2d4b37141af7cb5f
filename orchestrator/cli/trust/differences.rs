//! What differs between two versions of a file, key by key, and whether the newer one is only stricter.

use std::collections::BTreeMap;

use ralph_orchestrator_config::{Limits, LoadedConfig, values_of};
use ralph_orchestrator_contract::Usd;

use super::UnacceptedFile;
use crate::render::text::one_line;

/// Characters of a value that are shown.
const SHOWN: usize = 100;
/// Keys whose values may be secrets.
const SECRET: &str = "env.set.";

/// Returns a line for each key that a file has with another value than what was accepted, at most so many.
pub(crate) fn describe(file: &UnacceptedFile, most: usize) -> Vec<String> {
    let Some(now) = values_of(&file.now.text) else {
        return vec!["it is no TOML any more".to_owned()];
    };
    let before = file.accepted.as_deref().and_then(values_of).unwrap_or_default();
    let mut lines: Vec<String> = changes(&before, &now)
        .map(|(key, before, now)| match (before, now) {
            _ if key.starts_with(SECRET) => format!("{key} (its value is not shown)"),
            (None, Some(now)) => format!("+ {key} = {}", one_line(now, SHOWN)),
            (Some(before), None) => format!("- {key} = {}", one_line(before, SHOWN)),
            (Some(before), Some(now)) => {
                format!("{key} = {} (was {})", one_line(now, SHOWN), one_line(before, SHOWN))
            }
            (None, None) => key.to_owned(),
        })
        .collect();
    let more = lines.len().saturating_sub(most);
    lines.truncate(most);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines
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

/// Returns the keys by which a configuration is stricter than another; `None` if it differs in any other way.
pub(super) fn tightened(before: &LoadedConfig, now: &LoadedConfig) -> Option<Vec<String>> {
    let values = |loaded: &LoadedConfig| -> Values {
        loaded.show().into_iter().map(|(key, value, _)| (key, value)).collect()
    };
    let (old, new) = (values(before), values(now));
    let mut keys: Vec<String> = Vec::new();
    for (key, _, _) in changes(&old, &new) {
        if !is_lower_limit(key, &before.config.limits, &now.config.limits) {
            return None;
        }
        keys.push(key.to_owned());
    }
    Some(keys)
}

/// Whether the key is a limit of the whole run that is lower now.
fn is_lower_limit(key: &str, before: &Limits, now: &Limits) -> bool {
    fn is_lower<T: PartialOrd>(before: Option<T>, now: Option<T>) -> bool {
        match (before, now) {
            (None, Some(_)) => true,
            (Some(before), Some(now)) => now < before,
            (_, None) => false,
        }
    }
    match key {
        "limits.max_iterations" => is_lower(before.max_iterations, now.max_iterations),
        "limits.max_tokens" => is_lower(before.max_tokens, now.max_tokens),
        "limits.max_runtime" => is_lower(before.max_runtime, now.max_runtime),
        "limits.max_cost_usd" => {
            is_lower(before.max_cost_usd.map(Usd::nanos), now.max_cost_usd.map(Usd::nanos))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use ralph_orchestrator_config::{Defaults, Sources, load};

    use super::*;
    use crate::trust::FileVersion;

    fn loaded(text: &str) -> LoadedConfig {
        let check = "[[validator]]\nkind = \"command\"\nname = \"t\"\nprogram = [\"true\"]\n";
        let defaults = Defaults {
            adapter: "command".to_owned(),
            detectors: vec!["promise".to_owned()],
            presets: Vec::new(),
        };
        let sources = Sources {
            file: PathBuf::from("/p/ralph.toml"),
            text: Some(format!("{check}{text}")),
            defaults,
            ..Sources::default()
        };
        load(&sources).unwrap()
    }

    #[test]
    fn what_only_tightens_is_told_from_everything_else() {
        let before = "protect = [\"tests/**\"]\n[limits]\nmax_iterations = 5\n";
        for (now, keys) in [
            (
                "protect = [\"tests/**\"]\n[limits]\nmax_iterations = 4\n",
                Some("limits.max_iterations"),
            ),
            ("protect = [\"a\", \"tests/**\"]\n[limits]\nmax_iterations = 5\n", None),
            ("protect = [\"tests/**\"]\n[limits]\nmax_iterations = 6\n", None),
            ("protect = [\"tests/**\"]\n[limits]\nmax_iterations = 'none'\n", None),
            ("protect = [\"a\"]\n[limits]\nmax_iterations = 5\n", None),
            (
                "protect = [\"tests/**\"]\n[[validator]]\nkind = \"command\"\nname = \"c\"\nprogram = \
                 [\"x\"]\n[limits]\nmax_iterations = 5\n",
                None,
            ),
            (
                "protect = [\"tests/**\"]\n[limits]\nmax_iterations = 4\n[env]\npass = [\"X\"]\n",
                None,
            ),
        ] {
            let found = tightened(&loaded(before), &loaded(now));
            let is_as_expected = match (&found, keys) {
                (Some(found), Some(key)) => found.iter().any(|known| known == key),
                (found, key) => found.is_some() == key.is_some(),
            };
            assert!(is_as_expected, "{now}: {found:?}");
        }
    }

    #[test]
    fn a_change_is_described_key_by_key_and_without_secrets() {
        let file = UnacceptedFile {
            now: FileVersion {
                path: PathBuf::from("/p/ralph.toml"),
                text: "[limits]\nmax_iterations = 9\n[env]\nset = { A = \"sesame\" }\n".to_owned(),
            },
            accepted: Some("[limits]\nmax_iterations = 3\nmax_tokens = 7\n".to_owned()),
        };
        assert_eq!(
            describe(&file, 9),
            [
                "env.set.A (its value is not shown)",
                "limits.max_iterations = 9 (was 3)",
                "- limits.max_tokens = 7"
            ]
        );
        assert_eq!(describe(&file, 1).last().unwrap(), "and 2 more");
    }
}
