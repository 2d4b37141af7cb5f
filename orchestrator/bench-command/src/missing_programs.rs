//! Warns, before a job, of programs that its trials need and do not see.

use std::collections::{BTreeMap, BTreeSet};

use ralph_orchestrator_assembly::agent_names::{ORACLE, is_reserved};
use ralph_orchestrator_bench::task::{IsolationKind, Task};
use ralph_orchestrator_bench::trial::Column;
use ralph_orchestrator_bench_run::JobSetup;
use ralph_orchestrator_bench_run::isolation::IsolationRow;
use ralph_orchestrator_bench_run::needed_programs::{MissingProgram, ProgramSight};
use ralph_orchestrator_bench_run::trial_config::{CheckedColumn, agent_key};
use ralph_orchestrator_text::count;

/// What is missing, in words, and who cannot do without it.
#[derive(Default)]
pub(super) struct MissingPrograms {
    pub(super) warnings: Vec<String>,
    /// Columns none of whose trials could begin.
    pub(super) columns: BTreeSet<String>,
    /// Tasks none of whose trials could be verified.
    pub(super) tasks: BTreeSet<String>,
}

impl MissingPrograms {
    /// Adds what the agent of a column needs, once for all its tasks.
    pub(super) fn add_column(
        &mut self,
        setup: &JobSetup,
        column: &Column,
        checked: &CheckedColumn,
    ) {
        if !has_own_system(setup) || is_reserved(&column.agent) {
            return;
        }
        let Some(program) = &checked.program else { return };
        let sight = ProgramSight::of(setup);
        for missing in sight.find_missing_for_agent(program, &list_words(column, checked)) {
            let warning = format!("trials of {column} cannot begin: {}", sight.explain(&missing));
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
            if missing.is_certain {
                self.columns.insert(column.to_string());
            }
        }
    }

    /// Adds what the tests of tasks need, and their solutions where `columns` perform them.
    pub(super) fn add_tasks(&mut self, setup: &JobSetup, columns: &[Column], tasks: &[Task]) {
        if !has_own_system(setup) {
            return;
        }
        let sight = ProgramSight::of(setup);
        let has_oracle = columns.iter().any(|column| column.agent == ORACLE);
        let mut needed: BTreeMap<(MissingProgram, &str), BTreeSet<&str>> = BTreeMap::new();
        for task in tasks {
            for step in &task.steps {
                let of_tests = sight.find_missing_for_tests(task, step);
                let of_solution = has_oracle.then(|| sight.find_missing_for_solution(task, step));
                let of_tests = of_tests.into_iter().map(|program| (program, "tests"));
                let of_solution =
                    of_solution.into_iter().flatten().map(|program| (program, "solution"));
                for key in of_tests.chain(of_solution) {
                    needed.entry(key).or_default().insert(&task.name);
                }
            }
        }
        for ((program, what), names) in needed {
            self.warnings.push(format!(
                "the {what} of {} {}: {}",
                name_tasks(&names),
                if program.is_certain { "cannot be run" } else { "may lack a program" },
                sight.explain(&program)
            ));
            if program.is_certain {
                self.tasks.extend(names.into_iter().map(str::to_owned));
            }
        }
    }
}

/// Whether trials see this machine's system, and of the rest only what they are given.
fn has_own_system(setup: &JobSetup) -> bool {
    // What an image has is known when there is one.
    IsolationRow::of(setup.loaded.config.bench.isolation).kind == IsolationKind::Namespace
}

/// Returns the first of these tasks, and how many others there are.
pub(super) fn name_tasks(names: &BTreeSet<&str>) -> String {
    let first = names.first().copied().unwrap_or_default();
    match names.len() {
        0 | 1 => first.to_owned(),
        all => format!("{first} and {}", count((all as u64).saturating_sub(1), "other task")),
    }
}

/// Returns the command of a column's agent, if its configuration has one.
fn list_words(column: &Column, checked: &CheckedColumn) -> Vec<String> {
    let config = &checked.loaded.config;
    let agent = match agent_key(&column.agent) {
        Some(name) => config.agents.get(&name),
        None => Some(&config.agent),
    };
    let program = agent.and_then(|agent| agent.config.get("program"));
    let words = program.and_then(|program| program.as_array()).into_iter().flatten();
    words.filter_map(|word| word.as_str()).map(str::to_owned).collect()
}
