//! The files of a crate can be read one after the other: none needs itself by way of others.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::scratch::repository;

/// A module by the names on the way to it.
type Module = Vec<String>;

/// The modules of a crate that have a file, each with those that it names.
type Needs = BTreeMap<Module, BTreeSet<Module>>;

/// What modules have from their children: the name, beneath the module that has it, with the child.
type ReExports = BTreeMap<Module, Module>;

static RE_EXPORT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"pub(?:\([^)]*\))?\s+use\s+(?:self::)?(\w+::[^;]*);").unwrap());
static WORD: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\w+|::|[{},*]").unwrap());

/// The source folders of all crates, each with its files.
fn crates() -> BTreeMap<String, Vec<String>> {
    let listed = Command::new("git")
        .args(["ls-files", "--", "orchestrator/**.rs", "adapters/**.rs", "validators/**.rs"])
        .current_dir(repository())
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let files: Vec<&str> = listed.lines().collect();
    let roots = files.iter().filter_map(|file| file.strip_suffix("/lib.rs"));
    let is_test = |file: &str| {
        file.contains("/tests/") || file.contains("/templates/") || file.ends_with("tests.rs")
    };
    let of_root = |root: &str| {
        let inside = files.iter().filter(|file| file.starts_with(&format!("{root}/")));
        inside.filter(|file| !is_test(file)).map(|file| (*file).to_owned()).collect()
    };
    roots
        .filter(|root| !is_test(&format!("{root}/")))
        .map(|root| (root.to_owned(), of_root(root)))
        .collect()
}

fn module_of(root: &str, file: &str) -> Module {
    let parts = file[root.len() + 1..].strip_suffix(".rs").unwrap().split('/');
    let mut module: Module = parts.map(str::to_owned).collect();
    if ["mod", "lib", "main"].contains(&module.last().unwrap().as_str()) {
        module.pop();
    }
    module
}

static INLINE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?sm)^(?:pub(?:\([^)]*\))? )?mod \w+ \{\n.*?^\}").unwrap());

/// The code of a file without comments and tests. A module that is written in it has it for its parent.
fn code(file: &str) -> String {
    let text = fs::read_to_string(repository().join(file)).unwrap();
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    let own = |module: &Captures<'_>| module[0].replace("super::", "self::");
    INLINE.replace_all(&text, own).into_owned()
}

/// The paths that the trees of `use` and all other code name: `crate::a::{b, c}` is two.
fn paths(code: &str) -> Vec<Vec<String>> {
    let is_of_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut paths = Vec::new();
    for (at, first) in
        ["crate::", "super::", "self::"].iter().flat_map(|word| code.match_indices(word))
    {
        let before = code[..at].trim_end();
        // The rest of a word or path, or who sees an item.
        let is_none = code[..at].ends_with(is_of_word)
            || before.ends_with("::")
            || before.ends_with("pub(in");
        let is_of_tree = |c: char| is_of_word(c) || c.is_whitespace() || "::{},*".contains(c);
        let rest = &code[at..];
        if !is_none {
            let end = rest.find(|c: char| !is_of_tree(c)).unwrap_or(rest.len());
            let words: Vec<&str> =
                WORD.find_iter(&rest[..end]).map(|found| found.as_str()).collect();
            assert_eq!(words[0], first.trim_end_matches(':'));
            expand(&words, Vec::new(), &mut paths);
        }
    }
    paths
}

/// Adds the paths of the tree with which these words begin. Returns how many words it has.
fn expand(words: &[&str], mut path: Vec<String>, paths: &mut Vec<Vec<String>>) -> usize {
    let mut at = 0;
    loop {
        match words.get(at) {
            Some(&"{") => {
                at += 1;
                while !matches!(words.get(at), None | Some(&"}")) {
                    at += expand(&words[at..], path.clone(), paths).max(1);
                    // An alias, and what separates two.
                    while !matches!(words.get(at), None | Some(&"}" | &",")) {
                        at += 1;
                    }
                    at += usize::from(words.get(at) == Some(&","));
                }
                return at + 1;
            }
            Some(word) if word.chars().all(|c| c.is_alphanumeric() || c == '_') => {
                path.push((*word).to_owned());
                at += 1;
            }
            _ => break,
        }
        if words.get(at) != Some(&"::") {
            break;
        }
        at += 1;
    }
    paths.push(path);
    at
}

/// The children that a module names only to have what is theirs.
fn re_exports(code: &str, module: &Module, known: &BTreeSet<Module>) -> ReExports {
    let mut all = ReExports::new();
    for tree in RE_EXPORT.captures_iter(code) {
        let mut named = Vec::new();
        let words: Vec<&str> = WORD.find_iter(&tree[1]).map(|found| found.as_str()).collect();
        expand(&words, Vec::new(), &mut named);
        for path in named {
            let child = [module.as_slice(), &path[..1]].concat();
            if known.contains(&child) {
                let name = [module.as_slice(), &path[path.len() - 1..]].concat();
                all.insert(name, child);
            }
        }
    }
    all
}

/// The module that a path leads to from a module: the innermost with a file of its own that has what is named. None for the
/// crate's root.
fn resolve(
    path: &[String],
    from: &Module,
    known: &BTreeSet<Module>,
    re_exports: &ReExports,
) -> Option<Module> {
    let above = path.iter().take_while(|part| *part == "super").count();
    let mut absolute = match path[0].as_str() {
        "crate" => Module::new(),
        _ => from[..from.len().checked_sub(above)?].to_vec(),
    };
    let names = path.iter().skip_while(|part| ["crate", "super", "self"].contains(&part.as_str()));
    absolute.extend(names.cloned());
    while let Some((place, child)) = re_exports
        .iter()
        .find(|(name, child)| absolute.starts_with(name) && !absolute.starts_with(child))
    {
        absolute.splice(..place.len() - 1, child.iter().cloned());
    }
    while !absolute.is_empty() && !known.contains(&absolute) {
        absolute.pop();
    }
    (!absolute.is_empty() && absolute != *from).then_some(absolute)
}

fn needs(root: &str, files: &[String]) -> Needs {
    let known: BTreeSet<Module> = files.iter().map(|file| module_of(root, file)).collect();
    let codes = files.iter().map(|file| (module_of(root, file), code(file)));
    let codes: BTreeMap<Module, String> = codes.collect();
    let of_module = codes.iter().map(|(module, code)| re_exports(code, module, &known));
    let shared: ReExports = of_module.flatten().collect();
    let of_file = |file: &String| {
        let module = module_of(root, file);
        let named = paths(&codes[&module]).into_iter();
        let named = named.filter_map(|path| resolve(&path, &module, &known, &shared));
        let own = shared.iter().filter(|(name, _)| name[..name.len() - 1] == module[..]);
        let needed = named.chain(own.map(|(_, child)| child.clone())).collect();
        (module, needed)
    };
    files
        .iter()
        .filter(|file| Path::new(file).file_name().unwrap() != "main.rs")
        .map(of_file)
        .collect()
}

/// Removes what needs nothing that is left, again and again: what remains needs itself.
fn circles(mut needs: Needs) -> Vec<String> {
    loop {
        let left: BTreeSet<Module> = needs.keys().cloned().collect();
        let before = needs.len();
        needs.retain(|_, named| !named.is_disjoint(&left));
        if needs.len() == before {
            return left.into_iter().map(|module| module.join("::")).collect();
        }
    }
}

#[test]
fn no_file_needs_itself_by_way_of_others() {
    let crates = crates();
    assert!(crates.len() > 30, "{}", crates.len());
    for (root, files) in crates {
        let found = circles(needs(&root, &files));
        assert!(found.is_empty(), "{root}: these need each other, or what does: {found:?}");
    }
}

#[test]
fn a_circle_is_found() {
    let module = |name: &str| vec![name.to_owned()];
    let known: BTreeSet<Module> = ["a", "b", "c"].map(module).into();
    let of = |code: &str, from: &str| {
        let found = paths(code).into_iter();
        let none = ReExports::new();
        found
            .filter_map(|path| resolve(&path, &module(from), &known, &none))
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(
        of("use crate::{a::{X, Y as Z}, c};\nfn f() {}", "b"),
        ["a", "c"].map(module).into()
    );
    assert_eq!(of("fn f() { super::b::g(self::h()) }", "a"), [module("b")].into());
    let needs: Needs = [("a", "b"), ("b", "a"), ("c", "c")]
        .map(|(from, to)| (module(from), BTreeSet::from([module(to)])))
        .into();
    assert_eq!(circles(needs).len(), 3);
    assert_eq!(
        circles([(module("a"), [module("b")].into()), (module("b"), BTreeSet::new())].into()),
        [""; 0]
    );
}

#[test]
fn what_a_module_has_from_its_child_is_the_childs() {
    let module = |path: &str| path.split("::").map(str::to_owned).collect::<Module>();
    let known: BTreeSet<Module> = ["a", "a::b", "a::c", "d"].map(module).into();
    let shared = re_exports("mod b;\npub(crate) use b::{X, Y};\nuse c::Z;", &module("a"), &known);
    assert_eq!(
        shared,
        [("a::X", "a::b"), ("a::Y", "a::b")].map(|(n, c)| (module(n), module(c))).into()
    );
    let from = |path: &str| resolve(&module(path), &module("d"), &known, &shared);
    assert_eq!(from("crate::a::X"), Some(module("a::b")));
    assert_eq!(from("crate::a::Z"), Some(module("a")));
}
