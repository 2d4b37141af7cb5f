//! The runs' metrics in the text format of Prometheus.

use std::fmt::Write as _;

use serde_json::Value;

/// The metrics: name, type, help, and the key of the run's object.
const METRICS: [(&str, &str, &str, &str); 2] = [
    ("ralph_run_iterations", "counter", "Iterations of the run.", "iterations"),
    ("ralph_run_cost_usd", "counter", "Cost of the run in dollars.", "cost_usd"),
];

/// Formats the objects of runs.
pub(super) fn format(runs: &[&Value]) -> String {
    let mut text = String::from(
        "# HELP ralph_run_info The run, its workspace and its phase.\n# TYPE ralph_run_info gauge\n",
    );
    let value = |run: &Value, key: &str| match run.get(key) {
        Some(Value::String(text)) => escape(text),
        _ => String::new(),
    };
    for run in runs {
        let labels = ["run", "workspace", "task", "phase", "stop_reason"]
            .map(|key| format!("{key}=\"{}\"", value(run, key)));
        let _ = writeln!(text, "ralph_run_info{{{}}} 1", labels.join(","));
    }
    for (name, kind, help, key) in METRICS {
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        for run in runs {
            if let Some(number) = run.get(key).and_then(Value::as_f64) {
                let _ = writeln!(text, "{name}{{run=\"{}\"}} {number}", value(run, "run"));
            }
        }
    }
    text
}

/// Escapes a label's value.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_label_stays_in_its_quotes() {
        let run =
            json!({"run": "r", "workspace": "/a\"} 1\nb\\", "iterations": 3, "cost_usd": 0.5});
        let text = format(&[&run]);
        assert!(text.contains(r#"workspace="/a\"} 1\nb\\""#), "{text}");
        assert!(text.contains("ralph_run_iterations{run=\"r\"} 3\n"), "{text}");
        assert!(text.contains("ralph_run_cost_usd{run=\"r\"} 0.5\n"), "{text}");
        let is_sample = |line: &str| line.starts_with('#') || line.starts_with("ralph_run_");
        assert!(text.lines().all(is_sample), "{text}");
    }
}
