//! The steps that make a file system for a process tree, and what to do when the kernel forbids one.

use std::fs;

use serde::{Deserialize, Serialize};

/// What a step depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StepSubject {
    /// What the kernel and its settings permit.
    Kernel,
    /// A file or a folder.
    Path,
}

/// Returns what to do when the kernel forbids a step; `None` if this errno says something else.
pub(crate) fn advice_when_forbidden(errno: i32) -> Option<String> {
    match errno {
        libc::EPERM | libc::EACCES | libc::ENOSPC | libc::EUSERS => Some(forbidden(|name| {
            let value = fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/"))).ok()?;
            value.trim().parse().ok()
        })),
        _ => None,
    }
}

/// Returns what to do when the kernel forbids namespaces, by the settings that do it.
fn forbidden(setting: impl Fn(&str) -> Option<u64>) -> String {
    const CAUSES: [(&str, u64, &str); 3] = [
        ("kernel.unprivileged_userns_clone", 0, "1"),
        ("user.max_user_namespaces", 0, "10000"),
        ("kernel.apparmor_restrict_unprivileged_userns", 1, "0"),
    ];
    let found = CAUSES.iter().find(|(name, bad, _)| setting(name) == Some(*bad));
    match found {
        Some((name, bad, good)) => {
            format!("the kernel forbids it by {name} = {bad}; try `sysctl -w {name}={good}`")
        }
        None => {
            "the kernel forbids it; see that kernel.unprivileged_userns_clone is 1 (where it exists), \
             user.max_user_namespaces large enough, kernel.apparmor_restrict_unprivileged_userns 0 (where \
             it exists), that no container around it hides parts of /proc or filters system calls, and that a \
             caller who is root has CAP_SETFCAP"
                .to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_that_forbids_it_is_named_with_the_command_that_changes_it() {
        let cases = [
            ("kernel.unprivileged_userns_clone", 0, "kernel.unprivileged_userns_clone=1"),
            ("user.max_user_namespaces", 0, "user.max_user_namespaces=10000"),
            (
                "kernel.apparmor_restrict_unprivileged_userns",
                1,
                "kernel.apparmor_restrict_unprivileged_userns=0",
            ),
        ];
        for (name, bad, command) in cases {
            let advice = forbidden(|asked| Some(if asked == name { bad } else { 1 - bad }));
            let other = forbidden(|asked| (asked == name).then_some(1 - bad));
            assert!(advice.contains(&format!("sysctl -w {command}")) || bad == 1, "{advice}");
            assert!(!other.contains("sysctl -w"), "{other}");
            assert!(forbidden(|asked| (asked == name).then_some(bad)).contains(command));
        }
        let nothing = forbidden(|_| None);
        assert!(cases.iter().all(|(name, ..)| nothing.contains(name)), "{nothing}");
    }
}
