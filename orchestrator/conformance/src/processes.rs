//! Processes that a test has started, told by their environment.

/// The command lines of all processes with this variable in their environment.
///
/// # Panics
/// If there is no `/proc`.
#[must_use]
pub fn marked(name: &str, value: &str) -> Vec<String> {
    let mark = format!("{name}={value}").into_bytes();
    let mut left = Vec::new();
    for process in std::fs::read_dir("/proc").expect("/proc is there").filter_map(Result::ok) {
        let environ = std::fs::read(process.path().join("environ")).unwrap_or_default();
        if environ.split(|byte| *byte == 0).any(|variable| variable == mark) {
            let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            left.push(String::from_utf8_lossy(&line).replace('\0', " "));
        }
    }
    left
}
