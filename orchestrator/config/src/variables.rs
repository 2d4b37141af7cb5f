//! Decides which environment variables are configuration.
//!
//! `RALPH_` is a common beginning: other programs have variables of that kind, and theirs must not break
//! ours. So a variable is configuration only if it names a table of the configuration, `RALPH_TABLE__KEY`,
//! or begins with the name of this program, `RALPH_ORCHESTRATOR_TABLE__KEY`.

use std::collections::BTreeMap;

use crate::key::KeyPath;
use crate::schema;
use crate::suggest::{misspelt, nearest};

/// Variables with our prefix that are not configuration: a run tells its agent with two of them who it
/// is, one says what the program is to say of itself, one whether changes of the configuration are asked for, and one
/// which plugin was started by its author.
const RESERVED: [&str; 6] = ["RUN_ID", "ITERATION", "TASK", "LOG", "TRUST", "PLUGIN_ATTACH"];
/// What the names of configuration variables begin with.
const PREFIX: &str = "RALPH_";
/// What nobody else's variables begin with.
const OWN_PREFIX: &str = "RALPH_ORCHESTRATOR_";
/// Between the names of a key.
const SEPARATOR: &str = "__";

/// A variable that begins with `RALPH_` and is none of this program's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignVariable {
    /// Its name.
    pub name: String,
    /// The variable that was perhaps meant.
    pub meant: Option<String>,
}

/// What a variable is.
pub(crate) enum VariableMeaning {
    /// It sets a key, which may not exist.
    Key(KeyPath),
    /// It is meant as one and is not the name of a key; what was meant, if that can be told.
    Misnamed(Option<String>),
    Foreign(ForeignVariable),
    /// Read by others in this program, or none of our concern.
    Other,
}

/// Returns the variables that begin with `RALPH_` and that this program does not read.
#[must_use]
pub fn foreign_variables(variables: &BTreeMap<String, String>) -> Vec<ForeignVariable> {
    let foreign = |name: &String| match classify(name) {
        VariableMeaning::Foreign(foreign) => Some(foreign),
        VariableMeaning::Key(_) | VariableMeaning::Misnamed(_) | VariableMeaning::Other => None,
    };
    variables.keys().filter_map(foreign).collect()
}

/// Returns the name of the variable that sets `path`.
pub(crate) fn name(path: &[String]) -> String {
    format!("{PREFIX}{}", path.join(SEPARATOR).to_uppercase())
}

/// Returns the help that explains how variables are named.
pub(crate) fn how_to_name() -> String {
    format!("names are {PREFIX}TABLE{SEPARATOR}KEY, such as {PREFIX}LIMITS{SEPARATOR}MAX_COST_USD")
}

/// Returns the variable that was probably meant by one of this name.
pub(crate) fn nearest_name(name: &str) -> Option<String> {
    let wanted = name.strip_prefix(OWN_PREFIX).or_else(|| name.strip_prefix(PREFIX))?;
    let keys = schema::fixed_keys();
    // A key of that very table is meant rather than one of which more letters are right.
    if let Some((table, last)) = wanted.split_once(SEPARATOR) {
        let table = table.to_lowercase();
        let here = keys.iter().filter(|key| key.len() == 2 && key.first() == Some(&table));
        let names = here.filter_map(|key| key.last()).collect::<Vec<_>>();
        if let Some(near) = nearest(last, names.iter().map(|name| name.as_str())) {
            return Some(self::name(&[table, near.to_owned()]));
        }
    }
    let written = keys.iter().map(|key| key.join(SEPARATOR)).collect::<Vec<_>>();
    misspelt(wanted, &written).map(|near| format!("{PREFIX}{}", near.to_uppercase()))
}

pub(crate) fn classify(variable: &str) -> VariableMeaning {
    let Some(rest) = variable.strip_prefix(PREFIX) else { return VariableMeaning::Other };
    if let Some(own) = variable.strip_prefix(OWN_PREFIX) {
        return keyed(own);
    }
    if RESERVED.contains(&rest) {
        return VariableMeaning::Other;
    }
    let foreign =
        |meant| VariableMeaning::Foreign(ForeignVariable { name: variable.to_owned(), meant });
    let Some((table, _)) = rest.split_once(SEPARATOR) else {
        let meant = with_other_underscores(rest);
        // A limit that does not hold costs money, and nobody else has a variable of that name.
        let is_limit = meant.as_ref().is_some_and(|meant| meant.starts_with("RALPH_LIMITS"));
        return if is_limit { VariableMeaning::Misnamed(meant) } else { foreign(meant) };
    };
    let sections = schema::sections();
    if misspelt(table, &sections).is_some() { keyed(rest) } else { foreign(None) }
}

fn keyed(rest: &str) -> VariableMeaning {
    let key = path(rest);
    if key.iter().any(String::is_empty) {
        VariableMeaning::Misnamed(None)
    } else {
        VariableMeaning::Key(key)
    }
}

/// `LIMITS__MAX_COST_USD` is `limits.max_cost_usd`. The names in `[env.set]` keep their case and may
/// have two underscores themselves.
fn path(name: &str) -> KeyPath {
    let lower = name.to_lowercase();
    if let (true, Some(variable)) = (lower.starts_with("env__set__"), name.get(10..)) {
        return vec!["env".into(), "set".into(), variable.to_owned()];
    }
    lower.split(SEPARATOR).map(str::to_owned).collect()
}

/// Returns the variable that differs only in how many underscores stand between its words.
fn with_other_underscores(rest: &str) -> Option<String> {
    let wanted = format!("{PREFIX}{rest}").to_uppercase();
    let names = schema::fixed_keys().into_iter().filter(|key| key.len() > 1);
    names.map(|key| name(&key)).find(|name| name.replace(SEPARATOR, "_") == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_programs_variables_are_foreign() {
        for name in [
            "RALPH_CONFIG",
            "RALPH_VERBOSE",
            "RALPH_DIAGNOSTICS",
            "RALPH_AGENT",
            "RALPH_",
            "RALPH_TUI__THEME",
            "RALPH_MAX_ITERATIONS",
        ] {
            assert!(matches!(classify(name), VariableMeaning::Foreign(_)), "{name}");
        }
        for name in ["RALPH_RUN_ID", "RALPH_ITERATION", "RALPH_TASK", "RALPH_LOG", "RALPHS", "PATH"]
        {
            assert!(matches!(classify(name), VariableMeaning::Other), "{name}");
        }
    }

    #[test]
    fn a_table_or_the_program_in_the_name_makes_it_ours() {
        let key = |name| match classify(name) {
            VariableMeaning::Key(key) => key.join("."),
            _ => panic!("{name}"),
        };
        assert_eq!(key("RALPH_LIMITS__MAX_COST_USD"), "limits.max_cost_usd");
        assert_eq!(key("RALPH_ORCHESTRATOR_LIMITS__MAX_COST_USD"), "limits.max_cost_usd");
        assert_eq!(key("RALPH_LIMTS__MAX_COST_USD"), "limts.max_cost_usd");
        assert_eq!(key("RALPH_ORCHESTRATOR_CONFIG"), "config");
        assert_eq!(key("RALPH_ENV__SET__My__Var"), "env.set.My__Var");
    }

    #[test]
    fn a_limit_with_too_few_underscores_is_no_foreign_variable() {
        let VariableMeaning::Misnamed(meant) = classify("RALPH_LIMITS_MAX_COST_USD") else {
            panic!()
        };
        assert_eq!(meant.as_deref(), Some("RALPH_LIMITS__MAX_COST_USD"));
        let VariableMeaning::Foreign(foreign) = classify("RALPH_STATE_DIR") else { panic!() };
        assert_eq!(foreign.meant.as_deref(), Some("RALPH_STATE__DIR"));
        assert!(matches!(classify("RALPH_LIMITS__"), VariableMeaning::Misnamed(None)));
    }

    #[test]
    fn the_nearest_name_is_that_of_a_whole_variable() {
        for (name, near) in [
            ("RALPH_LIMITS__MAX_COST", "RALPH_LIMITS__MAX_COST_USD"),
            ("RALPH_LIMTS__MAX_COST_USD", "RALPH_LIMITS__MAX_COST_USD"),
            ("RALPH_ORCHESTRATOR_LIMITS__MAX_COSTT", "RALPH_LIMITS__MAX_COST_USD"),
        ] {
            assert_eq!(nearest_name(name).as_deref(), Some(near), "{name}");
        }
        assert_eq!(nearest_name("RALPH_QUOTAS__PATHS"), None);
    }
}
