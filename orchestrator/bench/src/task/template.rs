//! Environment variables whose values come from the orchestrator's environment.

use std::collections::BTreeMap;

/// A variable that a task needs and the orchestrator's environment does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{key}` needs the environment variable {variable}, which is not set: export it, or give the task a default as \
         in ${{{variable}:-value}}"
)]
pub struct MissingVariable {
    /// The key that needs it.
    pub key: String,
    /// The variable of the orchestrator's environment.
    pub variable: String,
}

/// Returns the variables with `${NAME}` and `${NAME:-default}` replaced. Only a value that is such a template as a
/// whole is one; an empty variable is set.
///
/// # Errors
/// Returns the first variable that is not set and has no default.
pub fn resolve_env(
    env: &BTreeMap<String, String>,
    host: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, MissingVariable> {
    let resolve = |(key, value): (&String, &String)| {
        let Some((variable, default)) = parse_template(value) else {
            return Ok((key.clone(), value.clone()));
        };
        let found = host.get(variable).map(String::as_str).or(default);
        let missing = || MissingVariable { key: key.clone(), variable: variable.to_owned() };
        found.map(|found| (key.clone(), found.to_owned())).ok_or_else(missing)
    };
    env.iter().map(resolve).collect()
}

/// Returns the name and the default of a value that is a template as a whole.
fn parse_template(value: &str) -> Option<(&str, Option<&str>)> {
    let inner = value.strip_prefix("${")?.strip_suffix('}')?;
    let (name, default) = match inner.split_once(':') {
        None => (inner, None),
        Some((name, rest)) => (name, Some(rest.strip_prefix('-')?)),
    };
    let is_name = !name.is_empty() && !name.contains('}');
    // As with `.` of a pattern, a default has no line break.
    let is_default = default.is_none_or(|default| !default.contains('\n'));
    (is_name && is_default).then_some((name, default))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn takes_values_from_the_host_and_defaults_where_unset() {
        let host = map(&[("SET", "here"), ("EMPTY", "")]);
        for (value, expected) in [
            ("plain", "plain"),
            ("${SET}", "here"),
            ("${SET:-other}", "here"),
            ("${EMPTY:-other}", ""),
            ("${UNSET:-other}", "other"),
            ("${UNSET:-}", ""),
            ("${UNSET:-a:-b}c}", "a:-b}c"),
            ("x${SET}", "x${SET}"),
            ("${SET:+x}", "${SET:+x}"),
            ("${}", "${}"),
            ("$SET", "$SET"),
        ] {
            let resolved = resolve_env(&map(&[("K", value)]), &host).unwrap();
            assert_eq!(resolved["K"], expected, "{value}");
        }
    }

    #[test]
    fn names_the_variable_that_is_missing() {
        let error = resolve_env(&map(&[("KEY", "${UNSET}")]), &map(&[])).unwrap_err();
        assert_eq!((error.key.as_str(), error.variable.as_str()), ("KEY", "UNSET"));
        assert!(error.to_string().contains("${UNSET:-value}"), "{error}");
    }
}
