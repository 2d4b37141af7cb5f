//! `budget`

use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::user_budget::read_user_budget;
use ralph_orchestrator_store::UsedAmount;
use ralph_orchestrator_story::user_budget::{SpendingGroup, UserBudgetView};
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::size::stdout_width;
use ralph_orchestrator_text::{
    cell_widths, fit, fit_end, join_cells, one_line, short_number, shorten_home,
};
use serde_json::json;

#[derive(Debug, clap::Args)]
pub(crate) struct BudgetArgs {
    /// Print one JSON object
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
    /// Print the history as CSV
    #[arg(long)]
    pub(crate) csv: bool,
}

/// Days that a table shows.
const MOST_DAYS: usize = 31;
/// Columns of a workspace that every table has room for.
const LEAST_WORKSPACE: usize = 12;
const GAP: usize = 2;

pub(crate) fn budget(args: &BudgetArgs) -> Result<u8, CommandError> {
    let view = read_user_budget()?;
    if args.json {
        let nothing = || json!({"limits": [], "history": []});
        output::json(&view.as_ref().map_or_else(nothing, UserBudgetView::object));
    } else if args.csv {
        output::result(
            "day,workspace,agent,model,sessions,cost_usd,tokens,unreported_costs,unreported_tokens",
        );
        let rows = view.iter().flat_map(UserBudgetView::history);
        rows.for_each(|(group, used)| output::result(&csv_row(group, used)));
    } else if let Some(view) = &view {
        view.describe().for_each(|line| output::result(&line));
        table(view, stdout_width()).iter().for_each(|line| output::result(line));
    } else {
        output::result(
            "no budget: [budget] in ~/.config/ralph-orchestrator/config.toml limits what all runs may use",
        );
    }
    Ok(exit::OK)
}

fn csv_row(group: &SpendingGroup, used: &UsedAmount) -> String {
    let fields = [
        group.day.to_string(),
        group.workspace.display().to_string(),
        group.agent.clone(),
        group.model.clone().unwrap_or_default(),
        used.sessions.to_string(),
        used.cost_usd.dollars().to_string(),
        used.tokens.to_string(),
        used.unreported_costs.to_string(),
        used.unreported_tokens.to_string(),
    ];
    fields.map(|field| csv_field(&field)).join(",")
}

fn csv_field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// A table with a heading; the workspaces take what is left of the terminal's width.
fn table(view: &UserBudgetView, width: Option<usize>) -> Vec<String> {
    let mut days = Vec::new();
    let rows = view.history().take_while(|(group, _)| {
        if days.last() != Some(&group.day) {
            days.push(group.day);
        }
        days.len() <= MOST_DAYS
    });
    let mut cells: Vec<[String; 7]> = rows.map(|(group, used)| row(group, used)).collect();
    if cells.is_empty() {
        return vec!["nothing was used yet".to_owned()];
    }
    let heading = ["DAY", "WORKSPACE", "AGENT", "MODEL", "SESSIONS", "COST", "TOKENS"];
    cells.insert(0, heading.map(str::to_owned));
    let mut widths = cell_widths(&cells);
    if let Some(width) = width {
        let others: usize = widths.iter().sum::<usize>() - widths[1] + GAP * 6;
        widths[1] = widths[1].min(width.saturating_sub(others).max(LEAST_WORKSPACE));
    }
    let line = |row: &[String; 7]| {
        join_cells(row.iter().zip(widths).enumerate().map(|(index, (cell, width))| {
            (if index == 1 { fit_end(cell, width) } else { fit(cell, width) }, width)
        }))
    };
    cells.iter().map(line).collect()
}

fn row(group: &SpendingGroup, used: &UsedAmount) -> [String; 7] {
    let unknown = |known: u64, text: String, unreported: u64| match (known, unreported) {
        (_, 0) => text,
        (0, _) => "unknown".to_owned(),
        (_, some) => format!("{text} + {some} unknown"),
    };
    [
        group.day.to_string(),
        shorten_home(&group.workspace),
        one_line(&group.agent, 40),
        group.model.as_ref().map_or_else(|| "-".to_owned(), |model| one_line(model, 40)),
        used.sessions.to_string(),
        unknown(used.cost_usd.nanos(), used.cost_usd.to_string(), used.unreported_costs),
        unknown(used.tokens, short_number(used.tokens), used.unreported_tokens),
    ]
}
