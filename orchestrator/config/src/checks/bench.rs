//! Checks of `[bench]`.

use std::path::Path;

use super::{is_name, make_absolute};
use crate::diagnostics::Diagnostics;
use crate::model::Bench;

/// Checks the table, and makes its paths absolute.
pub(super) fn check(bench: &mut Bench, dir: &Path, diagnostics: &mut Diagnostics<'_>) {
    for (key, count) in [("trials", bench.trials), ("concurrency", bench.concurrency)] {
        if count == 0 {
            diagnostics.add(&["bench", key], "expected a whole number of 1 or more, found 0");
        }
    }
    for (name, count) in &bench.agent_concurrency {
        if *count == 0 {
            let message = "expected a whole number of 1 or more, found 0";
            diagnostics.add(&["bench", "agent_concurrency", name], message);
        }
    }
    let factor = bench.agent_time_factor;
    if !(factor.is_finite() && factor > 0.0) {
        let message = format!("expected a factor greater than 0, such as 2.0; found {factor}");
        diagnostics.add(&["bench", "agent_time_factor"], message);
    }
    for name in bench.variant.keys().filter(|name| !is_name(name)) {
        diagnostics.add(&["bench", "variant", name], "a variant needs a name of one line");
    }
    for (index, name) in bench.agents.iter().enumerate() {
        let path = ["bench", "agents", &index.to_string()];
        if !is_name(name) {
            diagnostics.add(&path, format!("expected the name of an agent, found {name:?}"));
        } else if bench.agents.iter().take(index).any(|known| known == name) {
            diagnostics.add(&path, format!("the agent {name:?} is named twice"));
        }
    }
    for (index, path) in bench.tasks.iter_mut().enumerate() {
        let key = ["bench", "tasks", &index.to_string()];
        *path = make_absolute(path, dir, &key, diagnostics);
    }
    bench.out = make_absolute(&bench.out, dir, &["bench", "out"], diagnostics);
}
