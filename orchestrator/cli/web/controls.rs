//! The controls that the page and programs send.

use ralph_orchestrator_assembly::control::{KeyedOrigin, refuse_client_below};
use ralph_orchestrator_contract::Usd;
use ralph_orchestrator_machine::{Control, Limit, LimitChanges, LimitUnit, LimitValue};
use ralph_orchestrator_story::located_run::LocatedRun;
use ralph_orchestrator_web::{Connection, SourceError};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::refused;
use crate::user_runs;

/// The name of the page in controls.
const PROGRAM: &str = "web page";
/// Returns to the limits of the configuration.
const CLEAR: &str = "clear";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pause {
    #[serde(default)]
    now: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// Sends a control to the run, and returns what to say of it.
pub(super) fn send(
    located: &LocatedRun,
    control: &str,
    arguments: &Value,
    key: &str,
    connection: Connection,
) -> Result<String, SourceError> {
    let control = parse(control, arguments)?;
    user_runs::require_current(located).map_err(|error| refused(&error))?;
    if control != Control::Stop {
        let Connection { client, server } = connection;
        refuse_client_below(&located.state_dir.layout, client, server)
            .map_err(|error| refused(&error))?;
    }
    let keyed = KeyedOrigin::new(&located.state_dir.layout, PROGRAM, key)
        .map_err(|error| SourceError::Failed(error.to_string()))?;
    if control == Control::Stop && keyed.is_recorded {
        return Ok("stop requested".to_owned());
    }
    user_runs::send(located, keyed.origin, &control).map_err(|error| refused(&error))
}

fn parse(control: &str, arguments: &Value) -> Result<Control, SourceError> {
    Ok(match control {
        "steer" => Control::Steer { text: read::<Text>(arguments)?.text },
        "answer" => Control::Answer { text: read::<Text>(arguments)?.text },
        "pause" => Control::Pause { now: read::<Pause>(arguments)?.now },
        "resume" => {
            read::<Nothing>(arguments)?;
            Control::Resume
        }
        "stop" => {
            read::<Nothing>(arguments)?;
            Control::Stop
        }
        "limits" => Control::Limits(changes(&read(arguments)?)?),
        other => {
            let text = format!(
                "there is no control `{other}`: expected steer, answer, pause, resume, stop or limits"
            );
            return Err(SourceError::NotFound(text));
        }
    })
}

fn read<T: DeserializeOwned>(arguments: &Value) -> Result<T, SourceError> {
    T::deserialize(arguments).map_err(|error| SourceError::Invalid(error.to_string()))
}

/// Reads changes of limits: one that is missing stays, one that is null is lifted.
fn changes(fields: &Map<String, Value>) -> Result<LimitChanges, SourceError> {
    let invalid = |text: String| SourceError::Invalid(text);
    let names: Vec<String> = Limit::budgets().map(|(limit, _)| limit.json_name()).collect();
    let is_known = |name: &&String| *name == CLEAR || names.contains(name);
    if let Some(name) = fields.keys().find(|name| !is_known(name)) {
        let known = names.iter().map(|name| format!(", `{name}`")).collect::<String>();
        return Err(invalid(format!("unknown field `{name}`, expected one of `{CLEAR}`{known}")));
    }
    let mut changes = LimitChanges::new(fields.get(CLEAR).map_or(Ok(false), read)?);
    for (name, (limit, _)) in names.iter().zip(Limit::budgets()) {
        let Some(value) = fields.get(name) else { continue };
        changes = changes.with(limit, limit_from(name, limit.row().unit, value)?);
    }
    let is_zero = |max: LimitValue| !matches!(max, LimitValue::Money(_)) && max.amount() == 0;
    if changes.is_empty() || changes.all().any(|(_, max)| max.is_some_and(is_zero)) {
        let (last, first) = names.split_last().ok_or_else(|| invalid(String::new()))?;
        return Err(invalid(format!(
            "expected at least one of {CLEAR}, {} and {last}, each greater than 0, or null for no limit",
            first.join(", ")
        )));
    }
    Ok(changes)
}

fn limit_from(
    name: &str,
    unit: LimitUnit,
    value: &Value,
) -> Result<Option<LimitValue>, SourceError> {
    Ok(match unit {
        LimitUnit::Count => read::<Option<u64>>(value)?.map(LimitValue::Count),
        LimitUnit::Duration => read::<Option<u64>>(value)?
            .map(|seconds| LimitValue::Duration(seconds.saturating_mul(1000))),
        LimitUnit::Money => {
            let usd = |dollars: f64| {
                Usd::from_dollars(dollars).map(LimitValue::Money).ok_or_else(|| {
                    SourceError::Invalid(format!("{name}: {dollars} is no amount of dollars"))
                })
            };
            read::<Option<f64>>(value)?.map(usd).transpose()?
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_missing_limit_stays_and_a_null_one_is_lifted() {
        let parsed = parse("limits", &json!({"max_cost_usd": 2.5, "max_tokens": null}));
        let Ok(Control::Limits(changes)) = parsed else { panic!("{parsed:?}") };
        let usd = Usd::from_dollars(2.5).map(LimitValue::Money);
        assert_eq!(changes.change(Limit::Cost), Some(usd));
        assert_eq!(changes.change(Limit::Tokens), Some(None));
        assert_eq!(changes.change(Limit::Iterations), None);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for (control, arguments) in [
            ("limits", json!({})),
            ("limits", json!({"max_iterations": 0})),
            ("limits", json!({"max_iterations": -1})),
            ("limits", json!({"max_cost_usd": -1.0})),
            ("limits", json!({"max_costs": 1.0})),
            ("steer", json!({"texts": ""})),
            ("steer", json!("text")),
            ("pause", json!({"now": "yes"})),
            ("resume", json!({"now": true})),
            ("stop", json!([1])),
        ] {
            let parsed = parse(control, &arguments);
            assert!(matches!(parsed, Err(SourceError::Invalid(_))), "{control} {arguments}");
        }
        assert!(matches!(parse("reset", &json!({})), Err(SourceError::NotFound(_))));
    }
}
