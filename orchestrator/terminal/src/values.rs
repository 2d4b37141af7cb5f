//! What the values of flags have to look like.

use ralph_orchestrator_config::parse_duration;
use ralph_orchestrator_contract::Usd;
use ralph_orchestrator_machine::{LimitUnit, LimitValue, millis};

/// What a limit that is off is called.
const NONE: &str = "none";
const NO_LIMIT: &str = "write none for no limit";

/// A shell with completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[expect(missing_docs, reason = "they are names of programs")]
pub enum Shell {
    Bash,
    Elvish,
    Fish,
    Powershell,
    Zsh,
}

/// A key and its value, such as `limits.max_cost_usd=5`.
pub fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("expected KEY=VALUE, such as limits.max_cost_usd=5".into()),
    }
}

/// A whole number from 1, or `none`.
pub fn count(text: &str) -> Result<String, String> {
    let text = text.trim();
    match text.parse::<u64>() {
        _ if text == NONE => Ok(text.to_owned()),
        Ok(0) => Err(format!("must be 1 or more; {NO_LIMIT}")),
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("expected a whole number, 1 or more, or none".to_owned()),
    }
}

/// A whole number from 1.
pub fn number(text: &str) -> Result<String, String> {
    match text.trim().parse::<u32>() {
        Ok(0) | Err(_) => Err("expected a whole number, 1 or more".to_owned()),
        Ok(_) => Ok(text.trim().to_owned()),
    }
}

/// The number of an iteration.
pub fn iteration(text: &str) -> Result<u64, String> {
    text.trim().parse().map_err(|_| "expected the number of an iteration, such as 3".to_owned())
}

/// The rank of an item.
pub fn rank(text: &str) -> Result<i64, String> {
    text.trim().parse().map_err(|_| "expected a whole number, such as 3".to_owned())
}

/// An amount of dollars, or `none`.
pub fn dollars(text: &str) -> Result<String, String> {
    let text = text.trim();
    let amount = text.strip_prefix('$').unwrap_or(text);
    match amount.parse::<f64>() {
        _ if text == NONE => Ok(text.to_owned()),
        Ok(0.0) => Err(format!("must be more than 0 dollars; {NO_LIMIT}")),
        Ok(dollars) if dollars > 0.0 && dollars.is_finite() => Ok(amount.to_owned()),
        _ => Err("expected a number of dollars, such as 2.50, or none".to_owned()),
    }
}

/// A limit in this unit, or `none`.
pub fn limit(unit: LimitUnit, text: &str) -> Result<Option<LimitValue>, String> {
    let text = match unit {
        LimitUnit::Count => count(text)?,
        LimitUnit::Duration => duration(text)?,
        LimitUnit::Money => dollars(text)?,
    };
    Ok(match unit {
        LimitUnit::Count => text.parse().ok().map(LimitValue::Count),
        LimitUnit::Duration => {
            parse_duration(&text).map(|duration| LimitValue::Duration(millis(duration)))
        }
        LimitUnit::Money => text.parse().ok().and_then(Usd::from_dollars).map(LimitValue::Money),
    })
}

/// A length of time, or `none`.
pub fn duration(text: &str) -> Result<String, String> {
    let text = text.trim();
    match parse_duration(text) {
        _ if text == NONE => Ok(text.to_owned()),
        Some(duration) if duration.is_zero() => Err(format!("must be more than 0s; {NO_LIMIT}")),
        Some(_) => Ok(text.to_owned()),
        None if text == "0" => Err(format!("must be more than 0s; {NO_LIMIT}")),
        None => Err("expected a length of time such as 90m or \"2h 30m\", or none".to_owned()),
    }
}

/// A name that needs no quoting in any shell.
pub fn alias(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let is_name = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    if is_name && text.chars().all(plain) {
        Ok(text.to_owned())
    } else {
        Err("expected a name of letters, digits, `_`, `-` and `.`".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_no_limit_but_none() {
        for parse in [count, dollars, duration] {
            assert_eq!(parse("none").as_deref(), Ok("none"));
            for zero in ["0", "0"] {
                assert!(parse(zero).unwrap_err().ends_with(NO_LIMIT), "{zero}");
            }
            for wrong in ["", "-1", "many", "NaN", "None"] {
                assert!(parse(wrong).unwrap_err().starts_with("expected"), "{wrong}");
            }
        }
        assert_eq!(count("25").as_deref(), Ok("25"));
        assert_eq!(dollars("$2.50").as_deref(), Ok("2.50"));
        assert!(dollars("0.00").is_err() && dollars("inf").is_err());
        assert_eq!(duration("2h 30m").as_deref(), Ok("2h 30m"));
        assert!(duration("0s").unwrap_err().ends_with(NO_LIMIT));
    }
}
