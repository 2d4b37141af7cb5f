//! Renders mistakes in the configuration, with the lines that they are in.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet, normalize_untrusted_str};
use ralph_orchestrator_config::{ConfigError, ConfigErrors, SourceLocation};
use ralph_orchestrator_text::fold;

/// Columns of `error: `, after which a title stands.
const TITLE: usize = 7;
/// Columns of ` = help: `, after which advice stands, besides those of the line's number.
const ADVICE: usize = 9;

/// Renders all mistakes in lines of so many columns, with a blank line between them. Ends without a newline.
pub(crate) fn render(errors: &ConfigErrors, colour: bool, width: usize) -> String {
    let reports = errors.errors().iter().map(|error| render_one(error, colour, width));
    reports.collect::<Vec<_>>().join("\n\n")
}

/// Renders the line of the file, a mark under the mistake, and what to do. Control characters are made
/// visible.
fn render_one(error: &ConfigError, colour: bool, width: usize) -> String {
    let folded = |text: &str, label: usize| {
        let lines = text.lines().flat_map(|line| fold(line, 0, width.saturating_sub(label)));
        lines.collect::<Vec<_>>().join("\n")
    };
    let number = match &error.location {
        SourceLocation::File { position: Some(at), .. } => at.line.to_string().len(),
        _ => 0,
    };
    let advice = |text: &str| folded(text, ADVICE + number);
    let key = if error.key.is_empty() { String::new() } else { format!("{}: ", error.key) };
    let title = normalize_untrusted_str(&format!("{key}{}", error.message));
    let mut group = Group::with_title(Level::ERROR.primary_title(folded(&title, TITLE)));
    let file;
    match &error.location {
        SourceLocation::File { path, position: Some(at) } => {
            file = normalize_untrusted_str(&path.display().to_string());
            group = group.element(
                Snippet::source(at.text.as_str())
                    .line_start(at.line)
                    .path(file.as_str())
                    .annotation(AnnotationKind::Primary.span(at.span.clone())),
            );
        }
        location => {
            if let Some(note) = origin_note(location) {
                group = group.element(Level::NOTE.message(advice(&note)));
            }
        }
    }
    if let Some(name) = &error.suggestion {
        let name = normalize_untrusted_str(name);
        group = group.element(Level::HELP.message(advice(&format!("did you mean `{name}`?"))));
    }
    if let Some(help) = &error.help {
        group = group.element(Level::HELP.message(advice(help)));
    }
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    let report = renderer.render(&[group]);
    report.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Returns the note for a mistake that is not in a line of a file.
fn origin_note(location: &SourceLocation) -> Option<String> {
    let note = match location {
        SourceLocation::File { path, .. } => format!("in {}", path.display()),
        SourceLocation::Variable { name } => format!("from the variable {name}"),
        SourceLocation::Set { key } => format!("from `--set {key}=…`"),
        SourceLocation::CommandLine { flag: Some(flag) } => format!("from `{flag}`"),
        SourceLocation::CommandLine { flag: None } => return None,
        SourceLocation::Preset { name } => format!("from the preset {name}"),
    };
    Some(normalize_untrusted_str(&note))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_orchestrator_config::{Flag, Sources, load};

    /// Renders the mistakes of a `ralph.toml`, without the name of its folder.
    fn report(text: impl AsRef<[u8]>, sources: Sources) -> (ConfigErrors, String) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ralph.toml");
        std::fs::write(&file, text).unwrap();
        let errors = load(&Sources { file, ..sources }).unwrap_err();
        let report =
            render(&errors, false, usize::MAX).replace(&format!("{}/", dir.path().display()), "");
        (errors, report)
    }

    fn trusting() -> Sources {
        let sets = vec![
            ("completion.trust_agent".to_owned(), "true".to_owned()),
            ("completion.detectors".to_owned(), "['promise']".to_owned()),
            ("agent.adapter".to_owned(), "command".to_owned()),
        ];
        Sources { sets, ..Sources::default() }
    }

    #[test]
    fn shows_line_mark_and_suggestion() {
        let (errors, report) = report("[limits]\nmax_cost = 5.0 # dollars\n", trusting());
        assert_eq!(
            report,
            "error: limits.max_cost: unknown key\n --> ralph.toml:2:1\n  |\n2 | max_cost = 5.0 # \
             dollars\n  | ^^^^^^^^\n  |\n  = help: did you mean `max_cost_usd`?"
        );
        assert!(render(&errors, true, usize::MAX).contains("\u{1b}["), "no colour");
        assert!(!report.contains('\u{1b}'), "colour");
    }

    #[test]
    fn marks_the_value_after_a_byte_order_mark_and_windows_line_ends() {
        let text = "\u{feff}x = 1\r\n[limits]\r\nmax_failures = 'é'\r\n";
        let (_, report) = report(text, trusting());
        let (first, second) = report.split_once("\n\n").unwrap();
        let (marked, keys) = first.split_once("the keys here are: ").unwrap();
        assert_eq!(
            marked,
            "error: x: unknown key\n --> ralph.toml:1:1\n  |\n1 | x = 1\n  | ^\n  |\n  = help: "
        );
        assert!(keys.split(", ").any(|key| key == "limits"), "{keys}");
        assert_eq!(
            second,
            "error: limits.max_failures: expected a whole number, 1 or more, found \"é\"\n \
             --> ralph.toml:3:16\n  |\n3 | max_failures = 'é'\n  |                ^^^\n  |\n  \
             = help: \"none\" turns this limit off"
        );
    }

    #[test]
    fn is_safe_for_a_terminal() {
        let (errors, report) = report("\"a\\u001b[31m\" = 1\nx = \"\u{202e}\"", trusting());
        for text in [errors.to_string(), report] {
            assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
        }
    }

    #[test]
    fn shows_lines_that_are_not_text() {
        let mut bytes = "[run]\nprompt = 'é".as_bytes().to_vec();
        bytes.extend(b"\xff'\n");
        assert!(report(&bytes, trusting()).1.contains("2 | prompt = 'é\u{fffd}'"));
    }

    #[test]
    fn quotes_no_value_of_a_variable() {
        for text in [
            "[env]\nset = { A = \"sesame\" },,\n",
            "[env]\nst = { A = \"sesame\" }\n",
            "[env]\nset = { A = [\"sesame\"] }\n",
            "env.set.A = \"sesame\"\nenv.set.A = \"sesame\"\n",
            "env.set.A = \"sesame\"\nlimits.max_cost_usd = \"sesame\"\n",
            "env.set.A = \"sesame\"\nsesame = 1\n",
        ] {
            let (errors, report) = report(text, trusting());
            assert!(!report.contains("sesame"), "{report}");
            assert!(!errors.to_string().contains("sesame"), "{errors}");
        }
    }

    #[test]
    fn names_the_flag() {
        let flag = Flag {
            name: "--max-cost".to_owned(),
            key: "limits.max_cost_usd",
            text: "0".to_owned(),
        };
        let (_, report) = report("", Sources { flags: vec![flag], ..trusting() });
        assert!(report.contains("from `--max-cost`"), "{report}");
    }
}
