//! Keys that were called otherwise: the old name is still read, wherever it stands, with a warning.

use figment::value::{Dict, Tag, Value};

use crate::key::{self, KeyPath};

/// A key in a table, and what it was called, in whichever table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RenamedKey {
    /// The old name, such as `limits.max_idle`. No key has it.
    pub(crate) old: &'static str,
    /// The name of the key.
    pub(crate) new: &'static str,
}

/// The keys that were renamed. A row stays for as long as there may be runs that began with the old name: their
/// configuration is stored with them.
pub(crate) const RENAMED: &[RenamedKey] = &[];

impl RenamedKey {
    /// Returns both names as paths.
    pub(crate) fn paths(self) -> Option<(KeyPath, KeyPath)> {
        Some((key::parse(self.old)?, key::parse(self.new)?))
    }
}

/// Replaces the first names of the path, if they are the old ones.
pub(crate) fn rename(path: &mut KeyPath, old: &[String], new: &[String]) {
    if path.starts_with(old) {
        path.splice(..old.len(), new.iter().cloned());
    }
}

/// Removes the value at a path of tables.
pub(crate) fn take(values: &mut Dict, path: &[String]) -> Option<Value> {
    match path {
        [] => None,
        [last] => values.remove(last),
        [first, rest @ ..] => match values.get_mut(first)? {
            Value::Dict(_, table) => take(table, rest),
            _ => None,
        },
    }
}

/// Adds a value at a path of tables. Returns whether there is none yet.
pub(crate) fn put(values: &mut Dict, path: &[String], value: Value) -> bool {
    match path {
        [] => false,
        [last] => values.insert(last.clone(), value).is_none(),
        [first, rest @ ..] => {
            let table = || Value::Dict(Tag::Default, Dict::new());
            match values.entry(first.clone()).or_insert_with(table) {
                Value::Dict(_, table) => put(table, rest, value),
                // That there is no table is a mistake of its own.
                _ => true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{Defaults, LoadedConfig, Sources, keys};

    const TABLE: &[RenamedKey] = &[
        RenamedKey { old: "limits.max_idle", new: "limits.max_stagnant" },
        RenamedKey { old: "run.place", new: "state.dir" },
    ];

    fn sources(text: &str) -> Sources {
        let defaults = Defaults {
            adapter: "echo".to_owned(),
            detectors: vec!["promise".to_owned()],
            ..Defaults::default()
        };
        let text = format!("{text}\n[run]\nprompt = \"p\"\n[completion]\ntrust_agent = true\n");
        Sources { file: "/w/ralph.toml".into(), text: Some(text), defaults, ..Sources::default() }
    }

    fn load(sources: &Sources) -> Result<LoadedConfig, String> {
        let layers = sources.layers_with(TABLE);
        crate::load_layers(sources, layers).map_err(|errors| errors.to_string())
    }

    #[test]
    fn an_old_name_is_read_in_every_source_and_the_warning_says_where_it_stands() {
        let variable = ("RALPH_LIMITS__MAX_IDLE".to_owned(), "5".to_owned());
        let set = ("limits.max_idle".to_owned(), "5".to_owned());
        let old = "[limits]\nmax_idle = 5\n";
        let user_file = Some("/u/config.toml".into());
        let stored = Sources { without_file: Some("/w".into()), ..sources(old) };
        for (sources, origin, warning) in [
            (sources(old), "/w/ralph.toml:2:12", "/w/ralph.toml:2:1: limits.max_idle: "),
            (
                Sources { user_file, user_text: Some(old.to_owned()), ..sources("") },
                "/u/config.toml:2:12",
                "/u/config.toml:2:1: limits.max_idle: ",
            ),
            (
                Sources { vars: BTreeMap::from([variable]), ..sources("") },
                "RALPH_LIMITS__MAX_IDLE",
                "RALPH_LIMITS__MAX_IDLE: limits.max_idle: ",
            ),
            (Sources { sets: vec![set], ..sources("") }, "--set", "--set: limits.max_idle: "),
            // Nobody can change what is stored.
            (stored, "as the run began", ""),
        ] {
            let loaded = load(&sources).unwrap();
            let warnings: Vec<String> = loaded.warnings().iter().map(ToString::to_string).collect();
            assert_eq!(loaded.config.limits.max_stagnant, Some(5), "{origin}");
            assert_eq!(loaded.origin("limits.max_stagnant").as_deref(), Some(origin));
            match warning {
                "" => assert_eq!(warnings, [""; 0]),
                warning => {
                    assert_eq!(warnings.len(), 1, "{warnings:?}");
                    let expected = format!("{warning}it is called `limits.max_stagnant` now");
                    assert!(warnings[0].starts_with(&expected), "{warnings:?}");
                }
            }
        }
    }

    #[test]
    fn a_key_may_move_to_another_table_and_a_wrong_value_is_shown_where_it_stands() {
        let text = "run.place = \"/s\"\n";
        let loaded = load(&Sources {
            text: Some(text.to_owned() + "run.prompt = \"p\"\ncompletion.trust_agent = true\n"),
            ..sources("")
        });
        assert_eq!(loaded.unwrap().config.state.dir.as_deref(), Some("/s".as_ref()));
        let error = load(&sources("[limits]\nmax_idle = \"no\"\n")).unwrap_err();
        assert!(error.starts_with("/w/ralph.toml:2:12: limits.max_stagnant: "), "{error}");
    }

    #[test]
    fn both_names_in_one_source_are_a_mistake() {
        let error = load(&sources("[limits]\nmax_idle = 5\nmax_stagnant = 6\n")).unwrap_err();
        let expected = "/w/ralph.toml:2:1: limits.max_idle: it is called `limits.max_stagnant` \
                        now, which is given, too: remove one of them";
        assert!(error.starts_with(expected), "{error}");
    }

    #[test]
    fn each_row_leads_from_no_key_to_a_key() {
        let keys = keys();
        for renamed in RENAMED.iter().chain(TABLE) {
            assert!(!keys.iter().any(|key| key == renamed.old), "{} is a key", renamed.old);
            assert!(keys.iter().any(|key| key == renamed.new), "{} is no key", renamed.new);
        }
    }
}
