//! The controls that the page and programs send.

use ralph_orchestrator_assembly::control::{KeyedOrigin, refuse_client_below};
use ralph_orchestrator_contract::Usd;
use ralph_orchestrator_machine::{Control, LimitChanges};
use ralph_orchestrator_story::located_run::LocatedRun;
use ralph_orchestrator_web::{Connection, SourceError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::refused;
use crate::user_runs;

/// The name of the page in controls.
const PROGRAM: &str = "web page";

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

/// A limit that is missing stays; one that is null is lifted.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Limits {
    #[serde(default)]
    clear: bool,
    #[serde(default, deserialize_with = "given")]
    max_iterations: Option<Option<u64>>,
    #[serde(default, deserialize_with = "given")]
    max_runtime_s: Option<Option<u64>>,
    #[serde(default, deserialize_with = "given")]
    max_cost_usd: Option<Option<f64>>,
    #[serde(default, deserialize_with = "given")]
    max_tokens: Option<Option<u64>>,
}

fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

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

fn changes(limits: &Limits) -> Result<LimitChanges, SourceError> {
    let usd = |dollars: f64| {
        Usd::from_dollars(dollars).ok_or_else(|| {
            SourceError::Invalid(format!("max_cost_usd: {dollars} is no amount of dollars"))
        })
    };
    let changes = LimitChanges {
        clear: limits.clear,
        max_iterations: limits.max_iterations,
        max_runtime_ms: limits.max_runtime_s.map(|max| max.map(|max| max.saturating_mul(1000))),
        max_cost_usd: limits.max_cost_usd.map(|max| max.map(usd).transpose()).transpose()?,
        max_tokens: limits.max_tokens,
    };
    let zero =
        [limits.max_iterations, limits.max_runtime_s, limits.max_tokens].contains(&Some(Some(0)));
    if zero || changes.is_empty() {
        let text = "expected at least one of clear, max_iterations, max_runtime_s, max_cost_usd and \
                    max_tokens, each greater than 0, or null for no limit";
        return Err(SourceError::Invalid(text.to_owned()));
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_missing_limit_stays_and_a_null_one_is_lifted() {
        let parsed = parse("limits", &json!({"max_cost_usd": 2.5, "max_tokens": null}));
        let Ok(Control::Limits(changes)) = parsed else { panic!("{parsed:?}") };
        assert_eq!(changes.max_cost_usd, Some(Usd::from_dollars(2.5)));
        assert_eq!(changes.max_tokens, Some(None));
        assert_eq!(changes.max_iterations, None);
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
