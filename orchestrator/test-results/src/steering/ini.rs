//! Settings of INI files as Python reads them, by section and key.

use super::settings::Settings;

/// Reads the settings of which `is_steering` says so; none if a line is neither section, key nor continuation.
pub(super) fn read(text: &str, is_steering: fn(&str, &str) -> bool) -> Option<Settings> {
    let mut settings = Settings::new();
    let (mut section, mut key) = (None, None);
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        if line.starts_with([' ', '\t']) && key.is_some() {
            if let Some(value) = key.as_ref().and_then(|key| settings.get_mut(key)) {
                let value: &mut String = value;
                value.push('\n');
                value.push_str(trimmed);
            }
        } else if let Some(name) = trimmed.strip_prefix('[') {
            section = Some(name.strip_suffix(']')?.trim().to_owned());
            key = None;
        } else {
            let (name, value) = trimmed.split_once(['=', ':'])?;
            let (section, name) = (section.as_deref()?, name.trim());
            let whole_key = format!("[{section}] {name}");
            if is_steering(section, name) {
                settings.insert(whole_key.clone(), value.trim().to_owned());
            }
            key = Some(whole_key);
        }
    }
    Some(settings)
}
