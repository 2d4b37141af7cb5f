//! What the output of tests says that this machine lacks: programs and packages.

/// How shells and `env` end a line about a program that they do not find.
const NOT_FOUND: [&str; 3] = [": command not found", ": not found", ": No such file or directory"];

/// Returns the programs that a shell or `env` says it does not find.
pub(crate) fn list_missing_programs(output: &str) -> Vec<&str> {
    let lines = output
        .lines()
        .filter_map(|line| NOT_FOUND.iter().find_map(|end| line.trim_end().strip_suffix(end)));
    let names = lines.filter_map(|line| line.rsplit(": ").next());
    names
        .map(|name| name.trim_matches(|c| "'`\"‘’".contains(c)))
        .filter(|name| !name.is_empty())
        .collect()
}

/// Returns the package that cargo, go or python3 says it cannot have. What is said once something has been compiled, or once
/// tests have begun, can be the work's own words.
pub(crate) fn find_missing_package(output: &str) -> Option<&str> {
    for line in output.lines().map(str::trim) {
        if line.starts_with("Compiling ") || line.starts_with("=== RUN") {
            return None;
        }
        let found = PACKAGE_MESSAGES.iter().find_map(|(before, after)| {
            let (_, rest) = line.split_once(before)?;
            rest.split(*after).next().map(|name| name.split(" v").next().unwrap_or(name))
        });
        if let Some(name) = found.filter(|name| !name.is_empty()) {
            return Some(name);
        }
    }
    None
}

/// What stands before the name of a package that is missing, and the characters that end it.
const PACKAGE_MESSAGES: [(&str, &[char]); 7] = [
    ("no matching package named `", &['`']),
    ("failed to get `", &['`']),
    ("failed to download `", &['`']),
    ("no required module provides package ", &[';', ':']),
    ("cannot find module providing package ", &[';', ':']),
    ("missing go.sum entry for module providing package ", &[';', ' ']),
    ("ModuleNotFoundError: No module named '", &['\'', '.']),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_named_as_each_shell_says_it() {
        for (line, name) in [
            ("/tests/test.sh: line 2: mytool: command not found", "mytool"),
            ("sh: 1: mytool: not found", "mytool"),
            ("env: ‘mytool’: No such file or directory", "mytool"),
            ("/usr/bin/env: 'mytool': No such file or directory", "mytool"),
        ] {
            assert_eq!(list_missing_programs(&format!("x\n{line}\ny")), [name], "{line}");
        }
        assert!(list_missing_programs("mytool found nothing").is_empty());
    }

    #[test]
    fn packages_are_named_before_anything_of_the_work_runs() {
        for (output, name) in [
            ("error: no matching package named `rand` found\nlocation searched: x", Some("rand")),
            ("error: failed to download `rand v0.8.5`\n", Some("rand")),
            ("error: failed to get `rand` as a dependency of package `x v1`", Some("rand")),
            (
                "x.go:3:8: no required module provides package github.com/a/b; to add it:",
                Some("github.com/a/b"),
            ),
            ("E   ModuleNotFoundError: No module named 'numpy.linalg'", Some("numpy")),
            ("   Compiling leap v1.6.0\nerror: no matching package named `rand` found", None),
            ("test result: FAILED", None),
        ] {
            assert_eq!(find_missing_package(output), name, "{output}");
        }
    }
}
