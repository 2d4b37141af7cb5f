//! The current run of every workspace of this user.

use std::cmp::Reverse;

use ralph_orchestrator_assembly::error::exit;
use ralph_orchestrator_assembly::user_folders::all_states;
use ralph_orchestrator_story::current_run::CurrentRun;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::size::stdout_width;
use ralph_orchestrator_text::{cell_widths, columns, fit_end, fold, join_cells};
use serde_json::Value;

/// Columns of what a run waits for that every table has room for.
const LEAST_WAIT: usize = 12;

const GAP: usize = 2;

/// Lists the runs: first those that are active, then the others, the newest first.
pub(super) fn list(is_json: bool) -> u8 {
    let mut rows: Vec<CurrentRun> = all_states().iter().filter_map(CurrentRun::read).collect();
    rows.sort_by_key(|row| Reverse(row.order()));
    if is_json {
        output::json(&rows.iter().map(CurrentRun::object).collect::<Vec<Value>>());
    } else if rows.is_empty() {
        output::result("no run of this user yet");
    } else {
        table(&rows, stdout_width()).iter().for_each(|line| output::result(line));
    }
    exit::OK
}

/// A table with a heading. What a run waits for takes what is left of the terminal's width; where that is too little, it
/// follows in lines of its own.
fn table(rows: &[CurrentRun], width: Option<usize>) -> Vec<String> {
    let mut cells =
        vec![["WORKSPACE", "STATE", "ITER", "COST", "SINCE", "WAITS FOR"].map(str::to_owned)];
    cells.extend(rows.iter().map(CurrentRun::cells));
    lay_out(&cells, width)
}

fn lay_out(cells: &[[String; 6]], width: Option<usize>) -> Vec<String> {
    let mut widths = cell_widths(cells);
    if let Some(width) = width {
        let [workspace, rest @ .., waits] = &mut widths;
        let fixed: usize = rest.iter().sum::<usize>() + GAP * 5;
        let left = width.saturating_sub(fixed);
        *workspace = (*workspace).min(left.saturating_sub(LEAST_WAIT).max(LEAST_WAIT));
        *waits = (*waits).min(left.saturating_sub(*workspace).max(LEAST_WAIT));
    }
    let lines = |row: &[String; 6]| {
        let [workspace, .., waits] = row;
        let is_cut = columns(waits) > widths[5];
        let mut shown = row.clone();
        // The end of a path tells it from others.
        shown[0] = fit_end(workspace, widths[0]);
        if is_cut {
            shown[5].clear();
        }
        let first = join_cells(shown.into_iter().zip(widths));
        let below =
            is_cut.then(|| fold(&format!("  waits for {waits}"), 4, width.unwrap_or(usize::MAX)));
        [first].into_iter().chain(below.into_iter().flatten())
    };
    cells.iter().flat_map(lines).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_a_narrow_terminal_is_cut_where_it_tells_least() {
        let row = |path: &str, waits: &str| {
            [path, "needs human", "12", "$0.12", "25 Nov 10:15", waits].map(str::to_owned)
        };
        let cells = [
            ["WORKSPACE", "STATE", "ITER", "COST", "SINCE", "WAITS FOR"].map(str::to_owned),
            row("/home/ada/projects/parser", "a person: which of the two grammars is right?"),
            row("/a", "-"),
        ];
        assert_eq!(
            lay_out(&cells, Some(72)),
            [
                "WORKSPACE           STATE        ITER  COST   SINCE         WAITS FOR",
                "…a/projects/parser  needs human  12    $0.12  25 Nov 10:15",
                "  waits for a person: which of the two grammars is right?",
                "/a                  needs human  12    $0.12  25 Nov 10:15  -",
            ]
        );
        let wide = lay_out(&cells, None);
        assert!(wide[1].ends_with("a person: which of the two grammars is right?"), "{wide:?}");
    }
}
