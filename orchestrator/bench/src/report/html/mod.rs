//! A job as one page of HTML that needs nothing else: no script, no network, no font.
//!
//! The page is well-formed XML as well. Every figure in it names the JSON that it is from: `data-path` is a pointer
//! into `{"summary": …, "trials": […]}`, `data-value` the value found there. With `data-of`, a second pointer, the
//! value is the quotient of both.

mod attempts;
pub mod axis;
mod curves;
mod fault_bars;
mod page;
mod scatter;
mod table;
mod tables;
mod task_map;

use std::path::PathBuf;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value};
use thiserror::Error;

use crate::summary::JobSummary;
use crate::trial::TrialRecord;

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("style.css");

/// What a page links to from an attempt at a trial, as paths relative to the page. Absolute ones are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrialLinks {
    /// The trial's folder.
    pub folder: Option<PathBuf>,
    /// The trajectories of its iterations, in order.
    pub trajectories: Vec<PathBuf>,
}

/// Why a page cannot be made.
#[derive(Debug, Error)]
pub enum PageError {
    /// The template and what it is given do not match.
    #[error("page.html: {0:#}")]
    Template(#[from] minijinja::Error),
}

/// Returns the page of a job. `find_links` returns what an attempt links to.
///
/// At most 2,000 attempts and 500 tasks have a row; the page says how many there are. Attempts with a fault or a
/// cheating finding come first then.
///
/// # Errors
/// Returns an error if the template cannot be rendered.
pub fn render_page(
    summary: &JobSummary,
    records: &[TrialRecord],
    find_links: &dyn Fn(&TrialRecord) -> TrialLinks,
) -> Result<String, PageError> {
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    // Lines with a block only leave nothing behind.
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.add_template("page.html", TEMPLATE)?;
    environment.add_global("style", Value::from_safe_string(STYLE.to_owned()));
    let page = page::build_page(summary, records, find_links);
    // Macros see globals only.
    environment.add_global("page", Value::from(Serde(page)));
    Ok(environment.get_template("page.html")?.render(())?)
}

#[cfg(test)]
mod tests;
