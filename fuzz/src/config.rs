//! The configuration: it loads, and then loads again from its resolved form as the same one, or every
//! mistake has a message and a place that exists.

use std::fs;
use std::path::Path;

use ralph_orchestrator_config::{
    ConfigErrors, Defaults, SourceLocation, Sources, load, parse_duration,
};

use crate::folder;

/// The bytes are, parted by NUL: `ralph.toml`, the user's own file, and `--set`s as `key=value`.
pub fn check(data: &[u8]) {
    folder::with(|folder| inside(folder, data));
    if let Ok(text) = std::str::from_utf8(data)
        && let Some(duration) = parse_duration(text)
    {
        let shown = ralph_orchestrator_config::duration_text(duration);
        assert_eq!(parse_duration(&shown), Some(duration), "{shown}");
    }
}

fn inside(folder: &Path, data: &[u8]) {
    let mut parts = data.split(|byte| *byte == 0);
    let file = folder.join("ralph.toml");
    fs::write(&file, parts.next().unwrap_or_default()).unwrap();
    let user_file = parts.next().filter(|text| !text.is_empty()).map(|text| {
        let path = folder.join("user.toml");
        fs::write(&path, text).unwrap();
        path
    });
    let sets = parts
        .filter_map(|part| std::str::from_utf8(part).ok()?.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let sources =
        Sources { file: file.clone(), user_file, sets, defaults: defaults(), ..Sources::default() };
    match load(&sources) {
        Err(errors) => assert_reported(&errors),
        Ok(loaded) => {
            let text = loaded.resolved_toml();
            fs::write(&file, &text).unwrap();
            let again = load(&Sources { file, defaults: defaults(), ..Sources::default() })
                .unwrap_or_else(|errors| panic!("{errors}\n{text}"));
            assert_eq!(again.config, loaded.config, "{text}");
            assert_eq!(again.resolved_toml(), text);
            for (key, _, origin) in loaded.show() {
                assert!(!key.is_empty() && !origin.is_empty());
            }
        }
    }
}

fn defaults() -> Defaults {
    let detectors = vec!["promise".to_owned()];
    Defaults { adapter: "claude-cli".to_owned(), detectors, ..Defaults::default() }
}

fn assert_reported(errors: &ConfigErrors) {
    assert!(!errors.errors().is_empty());
    assert!(!errors.to_string().is_empty());
    for error in errors.errors() {
        assert!(!error.message.is_empty());
        if let SourceLocation::File { position: Some(at), .. } = &error.location {
            assert!(at.line > 0 && at.column > 0);
            assert!(at.text.get(at.span.clone()).is_some(), "{at:?}");
        }
    }
}
