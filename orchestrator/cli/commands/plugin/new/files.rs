//! The files of a new plugin.

use super::template::Values;
use super::{Language, NewPluginArgs, PluginKind};

macro_rules! template {
    ($file:literal) => {
        include_str!(concat!("../../../templates/plugin/", $file))
    };
}

/// The files that every plugin has.
const COMMON: [(&str, &str); 5] = [
    (".gitignore", template!("gitignore.in")),
    ("README.md", template!("README.md.in")),
    ("ralph.toml", template!("ralph.toml.in")),
    ("conformance.toml", template!("conformance.toml.in")),
    ("template/README.md", template!("workspace.md.in")),
];

/// What is different from kind to kind.
struct KindParts {
    word: &'static str,
    summary: &'static str,
    /// Features of tokio that the code in Rust needs.
    tokio: &'static [&'static str],
    rust: (&'static str, &'static str),
}

const fn parts(kind: PluginKind) -> KindParts {
    match kind {
        PluginKind::Agent => KindParts {
            word: "agent",
            summary: "An agent that writes a greeting",
            tokio: &["io-util", "macros", "process"],
            rust: ("src/agent.rs", template!("rust/agent.rs.in")),
        },
        PluginKind::Detector => KindParts {
            word: "detector",
            summary: "A detector that takes a file in the workspace for a claim",
            tokio: &["fs", "io-util"],
            rust: ("src/detector.rs", template!("rust/detector.rs.in")),
        },
        PluginKind::Validator => KindParts {
            word: "validator",
            summary: "A validator that requires a file with a text in it",
            tokio: &["fs", "io-util", "macros"],
            rust: ("src/validator.rs", template!("rust/validator.rs.in")),
        },
    }
}

/// A plugin to be written.
pub(super) struct NewPlugin<'a> {
    args: &'a NewPluginArgs,
    kinds: Vec<KindParts>,
}

impl<'a> NewPlugin<'a> {
    pub(super) fn new(args: &'a NewPluginArgs) -> Self {
        let all = [PluginKind::Agent, PluginKind::Detector, PluginKind::Validator];
        let kinds = all.into_iter().filter(|kind| args.kind.contains(kind)).map(parts).collect();
        Self { args, kinds }
    }

    /// Returns each file's path in the folder, and its content. `sdk` is the dependency on the SDK.
    pub(super) fn files(&self, sdk: &str) -> Vec<(&'static str, String)> {
        let values = self.values(sdk);
        let files = COMMON.iter().copied().chain(self.code());
        files.map(|(path, template)| (path, values.fill(template))).collect()
    }

    /// Returns the features of the SDK that it needs.
    pub(super) fn sdk_features(&self) -> &'static [&'static str] {
        if self.args.kind.contains(&PluginKind::Agent) { &["process"] } else { &[] }
    }

    /// Returns the path of its library, if it is one.
    pub(super) fn library(&self) -> Option<String> {
        let file = format!("lib{}.so", self.args.name.replace('-', "_"));
        match self.args.language {
            Language::Rust => Some(format!("target/debug/{file}")),
            Language::C => Some(file),
            Language::Python | Language::Node => None,
        }
    }

    /// Returns what `plugin test` is given.
    pub(super) fn tested(&self) -> String {
        match self.library() {
            // Without a slash it would be the name of a plugin.
            Some(library) if !library.contains('/') => format!("./{library}"),
            Some(library) => library,
            None => self.args.name.clone(),
        }
    }

    /// Returns the commands that come before the first test, each with what it is for.
    pub(super) const fn build_commands(&self) -> &'static [(&'static str, &'static str)] {
        match self.args.language {
            Language::Rust => &[("cargo test", "its own tests"), ("cargo build", "")],
            Language::C => &[("sh build.sh", "")],
            Language::Python | Language::Node => &[],
        }
    }

    fn code(&self) -> Vec<(&'static str, &'static str)> {
        match self.args.language {
            Language::Rust => {
                let mut files = vec![
                    ("Cargo.toml", template!("rust/Cargo.toml.in")),
                    ("src/lib.rs", template!("rust/lib.rs.in")),
                ];
                files.extend(self.kinds.iter().map(|kind| kind.rust));
                files
            }
            Language::Python => vec![("plugin.py", template!("python/plugin.py.in"))],
            Language::Node => vec![("plugin.mjs", template!("node/plugin.mjs.in"))],
            Language::C => vec![
                ("build.sh", template!("c/build.sh.in")),
                ("plugin.c", template!("c/plugin.c.in")),
                ("json.h", template!("c/json.h.in")),
                ("ralph_plugin.h", include_str!("../../../../plugin/abi/include/ralph_plugin.h")),
            ],
        }
    }

    fn values(&self, sdk: &str) -> Values {
        let name = &self.args.name;
        let language = self.args.language.word();
        let conditions = self.kinds.iter().map(|kind| kind.word).chain([language]).collect();
        let (code, build) = match (self.args.language, self.library()) {
            (Language::Python, _) => ("command = [\"python3\", \"plugin.py\"]".to_owned(), ""),
            (Language::Node, _) => ("command = [\"node\", \"plugin.mjs\"]".to_owned(), ""),
            (Language::C, library) => (library_key(library), "sh build.sh && "),
            (Language::Rust, library) => (library_key(library), "cargo build && "),
        };
        let mut words = vec![
            ("NAME", name.clone()),
            ("SUMMARY", self.summary()),
            ("LIBRARY", self.library().unwrap_or_default()),
            ("TESTED", self.tested()),
            ("CODE", code),
            ("BUILD", build.to_owned()),
            ("SDK", sdk.to_owned()),
            ("TOKIO", self.tokio_features()),
        ];
        for (index, kind) in self.kinds.iter().enumerate() {
            let is_last = index + 1 == self.kinds.len();
            let comma = if is_last { "" } else { "," }.to_owned();
            // One of several needs a name of its own.
            let item = if self.kinds.len() == 1 { name.clone() } else { kind.word.to_owned() };
            match kind.word {
                "agent" => words.extend([("AGENT", item), ("AFTER_AGENT", comma)]),
                "detector" => words.extend([("DETECTOR", item), ("AFTER_DETECTOR", comma)]),
                _ => words.push(("VALIDATOR", item)),
            }
        }
        Values { conditions, words }
    }

    fn summary(&self) -> String {
        match self.kinds.as_slice() {
            [only] => only.summary.to_owned(),
            kinds => {
                let words: Vec<_> = kinds.iter().map(|kind| kind.word).collect();
                format!("Provides for a loop: {}", words.join(", "))
            }
        }
    }

    fn tokio_features(&self) -> String {
        let mut features: Vec<_> = self.kinds.iter().flat_map(|kind| kind.tokio).collect();
        features.sort();
        features.dedup();
        features.iter().map(|feature| format!("{feature:?}")).collect::<Vec<_>>().join(", ")
    }
}

fn library_key(library: Option<String>) -> String {
    format!("library = \"{}\"", library.unwrap_or_default())
}
