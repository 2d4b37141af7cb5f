//! `reference`: the command line as Markdown, for docs/user/commands.md.

use clap::builder::StyledStr;
use clap::{Arg, Command, CommandFactory as _};

use crate::args::Args;
use crate::error::exit;
use crate::output;

pub(crate) fn reference() -> u8 {
    let mut root = Args::command();
    root.build();
    let mut text = String::new();
    section(&root, &mut text);
    output::raw(text.as_bytes());
    exit::OK
}

/// Writes a command, and then its own commands.
fn section(command: &Command, out: &mut String) {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let about = command.get_long_about().or(command.get_about());
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    put(out, &format!("## `{name}`\n\n{}\n\n```text\n{usage}\n```\n", prose(about)));
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set() && !is_common(arg));
    let (positional, options): (Vec<&Arg>, Vec<&Arg>) = shown.partition(|arg| arg.is_positional());
    arguments("Arguments", &positional, out);
    arguments("Options", &options, out);
    for after in
        [command.get_before_help(), command.get_after_long_help().or(command.get_after_help())]
    {
        if let Some(after) = after {
            put(out, &format!("```text\n{}\n```\n", after.to_string().trim_end()));
        }
    }
    let own =
        command.get_subcommands().filter(|own| !own.is_hide_set() && own.get_name() != "help");
    own.for_each(|own| section(own, out));
}

/// Whether every command has it, so that it is explained once.
fn is_common(arg: &Arg) -> bool {
    matches!(arg.get_id().as_str(), "help" | "version")
}

fn arguments(title: &str, arguments: &[&Arg], out: &mut String) {
    if arguments.is_empty() {
        return;
    }
    let lines: Vec<String> = arguments.iter().map(|arg| line(arg)).collect();
    put(out, &format!("{title}:\n\n{}\n", lines.join("\n")));
}

fn line(arg: &Arg) -> String {
    let short = arg.get_short().map(|short| format!("`-{short}`, ")).unwrap_or_default();
    let mut line = format!("- {short}`{arg}`: {}", prose(arg.get_long_help().or(arg.get_help())));
    let defaults: Vec<_> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if !defaults.is_empty() && arg.get_num_args().is_some_and(|count| count.takes_values()) {
        let default = defaults.join(" ");
        line.push_str(&format!(" Default: `{default}`."));
    }
    let values = arg.get_possible_values();
    let values = values.iter().filter(|value| !value.is_hide_set());
    for value in values.filter(|_| arg.get_num_args().is_some_and(|count| count.takes_values())) {
        let help = value.get_help().map(|help| format!(": {help}")).unwrap_or_default();
        line.push_str(&format!("\n  - `{}`{help}", value.get_name()));
    }
    line
}

/// Help as it reads in Markdown.
fn prose(help: Option<&StyledStr>) -> String {
    let text = help.map(ToString::to_string).unwrap_or_default();
    let paragraphs: Vec<String> = text.trim().split("\n\n").map(sentence).collect();
    paragraphs.join("\n\n").replace('<', "\\<")
}

fn sentence(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() || line.ends_with(['.', ':', ']', '`']) { line } else { format!("{line}.") }
}

/// Adds a paragraph.
fn put(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}
