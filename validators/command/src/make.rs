//! What a Makefile says, as far as that is plain, and what the command line of make requests of it.

use std::collections::BTreeMap;

/// Options whose value is the next word, if it is not part of theirs.
const WITH_VALUE: [&str; 13] = [
    "-C",
    "-f",
    "-I",
    "-l",
    "-o",
    "-W",
    "--directory",
    "--file",
    "--makefile",
    "--include-dir",
    "--old-file",
    "--what-if",
    "--eval",
];
/// What stands before the name of a file that a recipe makes.
const BEFORE_PRODUCTS: [&str; 6] = ["-o", "--output", ">", "mkdir", "-p", "touch"];

/// Targets that are folders of what is made, whatever makes it.
const PRODUCTS: [&str; 12] = [
    "bin",
    "build",
    "coverage",
    "deps",
    "dist",
    "doc",
    "docs",
    "html",
    "node_modules",
    "out",
    "vendor",
    "venv",
];

/// What a Makefile says, as far as that is plain.
#[derive(Debug, Default)]
pub(crate) struct Makefile {
    pub(crate) included: Vec<String>,
    /// The lines of all recipes.
    pub(crate) recipes: Vec<String>,
    rules: Vec<Rule>,
    phony: Vec<String>,
}

#[derive(Debug, Default)]
struct Rule {
    targets: Vec<String>,
    recipe: Vec<String>,
}

impl Makefile {
    pub(crate) fn parse(text: &str) -> Self {
        let text = text.replace("\\\n", " ");
        let mut makefile = Self::default();
        let mut variables = BTreeMap::from([("MAKE".to_owned(), "make".to_owned())]);
        for line in text.lines() {
            if let Some(recipe) = line.strip_prefix('\t') {
                let recipe = recipe.trim_start_matches(['@', '-', '+', ' ', '\t']);
                makefile.add_recipe(replace(recipe, &variables));
                continue;
            }
            let mut words = line.split_whitespace();
            let first = words.next().unwrap_or_default();
            if matches!(first, "include" | "-include" | "sinclude") {
                let files = words.map(|file| replace(file, &variables));
                makefile.included.extend(files.filter(|file| !file.contains(['$', '*', '?', '#'])));
            } else if let Some((targets, rest)) = split_rule(line) {
                let (prerequisites, recipe) = rest.split_once(';').unwrap_or((rest, ""));
                makefile
                    .add_rule(&replace(targets, &variables), &replace(prerequisites, &variables));
                if !recipe.is_empty() {
                    makefile.add_recipe(replace(recipe, &variables));
                }
            } else if let Some((name, value)) = line.split_once('=') {
                let name = name.trim_end_matches([':', '?', '+']).trim();
                let value = replace(value.trim(), &variables);
                variables.insert(name.to_owned(), value);
            }
        }
        makefile
    }

    fn add_rule(&mut self, targets: &str, prerequisites: &str) {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let targets = words(targets);
        if targets.iter().any(|target| target == ".PHONY") {
            self.phony.extend(words(prerequisites));
        }
        self.rules.push(Rule { targets, recipe: Vec::new() });
    }

    fn add_recipe(&mut self, line: String) {
        if let Some(rule) = self.rules.last_mut() {
            rule.recipe.push(line.clone());
        }
        self.recipes.push(line);
    }

    /// Returns the targets of a command line for which make does nothing once a file or a folder of their
    /// name is there, although they make none.
    pub(crate) fn find_shadowable(&self, words: &[String]) -> Vec<String> {
        let CommandLine { mut targets, is_forced, .. } = CommandLine::parse(words);
        if targets.is_empty() {
            let mut all = self.rules.iter().flat_map(|rule| &rule.targets);
            targets.extend(all.find(|target| !target.starts_with('.')).cloned());
        }
        targets.retain(|target| !is_forced && self.is_shadowable(target));
        targets
    }

    fn is_shadowable(&self, target: &String) -> bool {
        let mut rules = self.rules.iter().filter(|rule| rule.targets.contains(target)).peekable();
        // The rule of a file that is included, or one of make's own, which makes a file.
        let is_known = rules.peek().is_some() || !self.included.is_empty();
        // What has an extension or lies in a folder is a file that is made.
        is_known
            && !target.contains(['.', '/', '$', '%'])
            && !PRODUCTS.contains(&target.as_str())
            && !self.phony.contains(target)
            && !rules.flat_map(|rule| &rule.recipe).any(|line| makes(line, target))
    }
}

/// Returns the lines of all recipes of a Makefile.
#[must_use]
pub fn recipes(text: &str) -> Vec<String> {
    Makefile::parse(text).recipes
}

/// Returns the targets of a rule and what follows the colon; `None` if the line is none.
fn split_rule(line: &str) -> Option<(&str, &str)> {
    let (targets, rest) = line.split_once(':')?;
    let is_assignment =
        targets.contains(['=', '#']) || rest.trim_start_matches(':').starts_with('=');
    (!is_assignment).then_some((targets, rest.trim_start_matches(':')))
}

/// Whether a line of a recipe makes its target.
fn makes(line: &str, target: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let names_it = |pair: &[&str]| matches!(pair, [before, word] if BEFORE_PRODUCTS.contains(before) && *word == target);
    line.contains("$@") || line.contains("$(@") || words.windows(2).any(names_it)
}

/// A command line of make.
#[derive(Debug, Default)]
pub(crate) struct CommandLine {
    /// The Makefile, if it is named.
    pub(crate) file: Option<String>,
    targets: Vec<String>,
    /// All targets are made, whatever is there.
    is_forced: bool,
}

impl CommandLine {
    pub(crate) fn parse(words: &[String]) -> Self {
        let mut line = Self::default();
        let mut words = words.iter().skip(1).peekable();
        while let Some(word) = words.next() {
            if !word.starts_with('-') {
                if !word.contains('=') {
                    line.targets.push(word.clone());
                }
                continue;
            }
            line.is_forced |= matches!(word.as_str(), "-B" | "--always-make");
            let value = if WITH_VALUE.contains(&word.as_str()) {
                words.next().cloned()
            } else if word == "-j" || word == "--jobs" {
                words.next_if(|word| word.bytes().all(|byte| byte.is_ascii_digit())).cloned()
            } else if word.starts_with("--") {
                word.split_once('=').map(|(_, value)| value.to_owned())
            } else {
                word.get(2..).map(str::to_owned)
            };
            if ["-f", "--file", "--makefile"].iter().any(|option| word.starts_with(option)) {
                line.file = value;
            }
        }
        line
    }
}

/// Replaces the variables of make that are known, and `$$`.
fn replace(text: &str, variables: &BTreeMap<String, String>) -> String {
    let mut text = text.to_owned();
    for (name, value) in variables {
        for reference in [format!("$({name})"), format!("${{{name}}}")] {
            text = text.replace(&reference, value);
        }
    }
    text.replace("$$", "$")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shadowable(makefile: &str, line: &str) -> Vec<String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        Makefile::parse(makefile).find_shadowable(&words)
    }

    #[test]
    fn finds_targets_that_a_file_of_their_name_would_shadow() {
        let makefile = "A = b\n# x: y\ntest: build\n\tcargo test\nlint check: ; ./lint.sh\n\
            ci: test\nbuild:\n\tnpm run build\n";
        for (line, targets) in [
            ("make", &["test"][..]),
            ("make test", &["test"]),
            ("make -C sub -j 4 V=1 lint check", &["lint", "check"]),
            ("make -j4 -k --jobs 2 -I x --file Makefile ci", &["ci"]),
            ("make other", &[]),
            ("make build", &[]),
            ("make -B test", &[]),
        ] {
            assert_eq!(shadowable(makefile, line), targets, "{line}");
        }
    }

    #[test]
    fn leaves_targets_alone_that_are_phony_or_make_a_file() {
        let makefile = "NAMES := test lint\n.PHONY: $(NAMES)\ntest:\n\tp\nlint:\n\tp\n\
            app: main.c\n\tcc -o app main.c\nbin: main.c\n\tcc -o $@ main.c\n\
            out:\n\tmkdir -p out\nbuild/x a.o:\n\tp\nall:\n\tp\n";
        let line = "make test lint app bin out build/x a.o all";
        assert_eq!(shadowable(makefile, line), ["all"]);
        assert!(shadowable("", "make test").is_empty(), "make has no rule for it");
        assert_eq!(shadowable("include rules.mk\n", "make test"), ["test"], "it may be there");
    }

    #[test]
    fn reads_which_makefile_is_named() {
        for (line, file) in [
            ("make test", None),
            ("make -f a test", Some("a")),
            ("make -fa test", Some("a")),
            ("make --file=a", Some("a")),
            ("make --makefile a", Some("a")),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(CommandLine::parse(&words).file.as_deref(), file, "{line}");
        }
    }
}
