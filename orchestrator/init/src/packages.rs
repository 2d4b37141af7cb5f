//! The folders of a JavaScript project in which a command runs tests besides the one where it starts: the members of its
//! workspaces, and those that the command names.

use std::path::Path;

use serde_json::Value;

use super::systems::patterns::{file_name, is_script_runner};
use super::test_files::escape;

/// Options that take a folder, or the name of a package.
const TAKES_PACKAGE: [&str; 8] =
    ["-w", "--workspace", "--prefix", "-C", "--dir", "--cwd", "-F", "--filter"];
/// What test runners read in a package.
const SETTINGS: &str = "{jest.config.*,vitest.config.*,vitest.workspace.*,.mocharc.*,ava.config.*,playwright.config.*}";

/// Returns a command of a package manager without the options before its own words, and which packages they name. Other
/// commands are as they were.
pub(crate) fn split_packages(command: &[String]) -> (Vec<String>, Vec<String>) {
    let is_manager = command.first().is_some_and(|word| is_manager(file_name(word)));
    let (mut words, mut packages) = (Vec::new(), Vec::new());
    let mut rest = command.iter();
    while let Some(word) = rest.next() {
        let named = word.split_once('=').filter(|(option, _)| TAKES_PACKAGE.contains(option));
        if !is_manager {
            words.push(word.clone());
        } else if TAKES_PACKAGE.contains(&word.as_str()) {
            packages.extend(rest.next().cloned());
        } else if let Some((_, package)) = named {
            packages.push(package.to_owned());
        } else {
            words.push(word.clone());
        }
    }
    (words, packages)
}

/// Returns globs for the settings of test runners in the packages that a command runs tests in.
pub(crate) fn find_settings(folder: &Path, program: &[String], named: &[String]) -> Vec<String> {
    let first = program.first().map(|word| file_name(word)).unwrap_or_default();
    if !is_manager(first) && !["npx", "bunx"].contains(&first) && !is_script_runner(first) {
        return Vec::new();
    }
    let named = named.iter().filter(|name| folder.join(name).is_dir()).map(|name| escape(name));
    let packages = members(folder).into_iter().chain(named);
    let mut globs: Vec<String> = packages
        .map(|package| package.trim_start_matches("./").trim_end_matches('/').to_owned())
        .filter(|package| !package.is_empty() && !package.starts_with(['/', '!']))
        .filter(|package| package.split('/').all(|part| !matches!(part, "." | "..")))
        .map(|package| format!("{package}/{SETTINGS}"))
        .collect();
    globs.sort();
    globs.dedup();
    globs
}

fn is_manager(program: &str) -> bool {
    ["npm", "pnpm", "yarn", "bun"].contains(&program)
}

/// Returns the globs of the members of workspaces.
fn members(folder: &Path) -> Vec<String> {
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    let package: Value = serde_json::from_str(&text("package.json")).unwrap_or_default();
    let workspaces = package.get("workspaces").unwrap_or(&Value::Null);
    let listed = workspaces.as_array().or_else(|| workspaces.get("packages")?.as_array());
    let listed = listed.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    let of_pnpm = text("pnpm-workspace.yaml");
    let of_pnpm = of_pnpm.lines().filter_map(|line| line.trim().strip_prefix("- "));
    listed.chain(of_pnpm.map(|member| member.trim().trim_matches(['\'', '"']).to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_packages_of_a_command_are_no_words_of_it() {
        for (line, rest, packages) in [
            ("npm test -w packages/a", "npm test", &["packages/a"][..]),
            ("npm --prefix=x run test --workspace b", "npm run test", &["x", "b"]),
            ("pnpm -C a --filter b test -- -w", "pnpm test --", &["a", "b"]),
            ("make -C a test", "make -C a test", &[]),
        ] {
            let (found, named) = split_packages(&words(line));
            assert_eq!((found.join(" "), named), (rest.to_owned(), words_of(packages)), "{line}");
        }
    }

    fn words_of(packages: &[&str]) -> Vec<String> {
        packages.iter().map(|package| (*package).to_owned()).collect()
    }

    #[test]
    fn settings_of_all_members_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text);
        std::fs::create_dir_all(folder.path().join("tools/x")).unwrap();
        write("pnpm-workspace.yaml", "packages:\n  - 'apps/*'\n  - \"!**/old\"\n").unwrap();
        let found = |line: &str, named: &[&str]| {
            let globs = find_settings(folder.path(), &words(line), &words_of(named));
            globs.into_iter().map(|glob| glob.replace(SETTINGS, "S")).collect::<Vec<_>>()
        };
        for list in
            [r#"["packages/*", "./one/", "../out", "."]"#, r#"{"packages": ["packages/*", "one"]}"#]
        {
            write("package.json", &format!(r#"{{"workspaces": {list}}}"#)).unwrap();
            assert_eq!(found("npm test", &[]), ["apps/*/S", "one/S", "packages/*/S"]);
        }
        write("package.json", "{}").unwrap();
        assert_eq!(found("npx vitest run", &["tools/x", "name"]), ["apps/*/S", "tools/x/S"]);
        assert_eq!(found("cargo test", &["tools/x"]), [""; 0]);
    }
}
