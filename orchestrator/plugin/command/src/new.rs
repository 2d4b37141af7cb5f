//! `plugin new`

mod template;

use std::fs;
use std::path::{Path, PathBuf};

use ralph_orchestrator_assembly::compiled_in::of_program;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::plugins::Plugins;
use ralph_orchestrator_assembly::registry;
use ralph_orchestrator_terminal::new_file::create_new;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_terminal::output_place::create_folder;

use self::template::Values;
use crate::sdk_package::PackageLanguage;

macro_rules! template {
    ($file:literal) => {
        include_str!(concat!("../templates/", $file))
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PluginKind {
    /// Does the work of an iteration
    Agent,
    /// Finds claims that the task is complete
    Detector,
    /// Decides whether a claim is accepted
    Validator,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Language {
    /// A crate on the SDK, with tests of its own
    Rust,
    /// A program with its package beside it, and tests of its own
    Python,
    /// A program with its package beside it, and tests of its own
    Node,
    /// A library without dependencies
    C,
}

impl Language {
    /// Returns its package, if it has one that is written beside the plugin.
    const fn package(self) -> Option<PackageLanguage> {
        match self {
            Self::Python => Some(PackageLanguage::Python),
            Self::Node => Some(PackageLanguage::Node),
            Self::Rust | Self::C => None,
        }
    }

    /// Returns the word of the option.
    const fn word(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Python => "python",
            Self::Node => "node",
            Self::C => "c",
        }
    }
}

#[expect(missing_docs, reason = "it would be a part of the help")]
#[derive(Debug, clap::Args)]
pub struct NewPluginArgs {
    /// Name of the plugin in ralph.toml, and of its crate or library
    pub(crate) name: String,
    /// What it provides; several, separated by commas, are in one plugin. A format of backlogs begins as a
    /// copy of examples/backlog-plugin
    #[arg(long, value_enum, value_delimiter = ',', required = true)]
    pub(crate) kind: Vec<PluginKind>,
    /// What it is written in
    #[arg(long, value_enum, default_value_t = Language::Rust)]
    pub(crate) language: Language,
    /// Folder to create [default: the name]
    #[arg(long, value_name = "DIR")]
    pub(crate) path: Option<PathBuf>,
    /// Folder of the SDK's source
    #[arg(long, value_name = "PATH", conflicts_with_all = ["sdk_git", "sdk_version"])]
    pub(crate) sdk: Option<PathBuf>,
    /// Git repository of ralph-orchestrator that has the SDK
    #[arg(long, value_name = "URL", conflicts_with = "sdk_version")]
    pub(crate) sdk_git: Option<String>,
    /// Commit of `--sdk-git` [default: the newest of its main branch]
    #[arg(long, value_name = "REV", requires = "sdk_git")]
    pub(crate) sdk_rev: Option<String>,
    /// Version of the SDK on a registry [default: this program's]
    #[arg(long, value_name = "VERSION")]
    pub(crate) sdk_version: Option<String>,
}

/// The longest name of a plugin, in bytes.
const LONGEST: usize = 64;
const SDK: &str = "ralph-orchestrator-plugin-sdk";
/// The package is named too, which makes its content a part of the plugin's digest.
const PYTHON_COMMAND: &str =
    "command = [\"python3\", \"plugin.py\", \"ralph_orchestrator_sdk/__init__.py\"]";
const NODE_COMMAND: &str =
    "command = [\"node\", \"plugin.mjs\", \"ralph-orchestrator-sdk/index.mjs\"]";

pub(crate) fn new(args: &NewPluginArgs) -> Result<u8, CommandError> {
    check(&args.name)?;
    let folder = args.path.clone().unwrap_or_else(|| args.name.clone().into());
    let plugin = NewPlugin::new(args);
    let sdk = dependency(args, plugin.sdk_features())?;
    let files = plugin.files(&sdk);
    make(&folder)?;
    for (file, text) in files {
        write(&folder.join(file), &text)?;
    }
    say(&folder, &plugin);
    let is_by_version = args.sdk.is_none() && args.sdk_git.is_none() && args.sdk_version.is_none();
    if args.language == Language::Rust && is_by_version {
        output::info(&format!(
            "note: Cargo.toml demands {SDK} {version} of crates.io; while it is not there, write the \
             crate with one of\n  --sdk CLONE/orchestrator/plugin/sdk   the source of \
             ralph-orchestrator {version}\n  --sdk-git URL                         a repository that \
             has it",
            version = env!("CARGO_PKG_VERSION"),
        ));
    }
    Ok(exit::OK)
}

/// What Cargo, the linker and `ralph.toml` can all call by this name.
fn check(name: &str) -> Result<(), CommandError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let first = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic());
    if !first || name.len() > LONGEST || !name.chars().all(plain) {
        let message = format!(
            "`{name}` cannot be the name of a plugin: it has to begin with a letter and to have at \
             most {LONGEST} letters, digits, `-` and `_`"
        );
        return Err(CommandError::user(message));
    }
    let built_in = registry::unsupervised(&Plugins::none(&of_program()));
    if built_in.agents.contains(name)
        || built_in.detectors.contains(name)
        || built_in.validators.contains(name)
    {
        let message = format!("the name `{name}` is built in");
        return Err(CommandError::user(message).hinted("choose another name"));
    }
    // Cargo refuses these.
    if ["test", "core", "std", "alloc", "proc_macro", "proc-macro"].contains(&name) {
        let message = format!("`{name}` is the name of a crate of Rust's own");
        return Err(CommandError::user(message).hinted("choose another name"));
    }
    Ok(())
}

/// Returns the dependency on the SDK, as Cargo reads it.
fn dependency(args: &NewPluginArgs, features: &[&str]) -> Result<String, CommandError> {
    let NewPluginArgs { language, sdk, sdk_git, sdk_rev, sdk_version, .. } = args;
    if *language != Language::Rust {
        if sdk.is_some() || sdk_git.is_some() || sdk_version.is_some() {
            let message = format!("--sdk…: a plugin in {} does not use the crate", language.word());
            let hint = "only one in Rust depends on it; those in Python and Node.js have their package beside them";
            return Err(CommandError::user(message).hinted(hint));
        }
        return Ok(String::new());
    }
    let mut keys = Vec::new();
    if let Some(sdk) = sdk {
        keys.push(("path", sdk_folder(sdk)?));
    } else if let Some(url) = sdk_git {
        keys.push(("git", url.clone()));
        keys.extend(sdk_rev.clone().map(|rev| ("rev", rev)));
    } else {
        let version = sdk_version.as_deref().unwrap_or(env!("CARGO_PKG_VERSION"));
        keys.push(("version", version.to_owned()));
    }
    // A string of JSON is one of TOML.
    let quoted = |text: &str| serde_json::to_string(text).map_err(CommandError::internal);
    if let ([("version", version)], []) = (keys.as_slice(), features) {
        return quoted(version);
    }
    let mut parts = Vec::new();
    for (key, value) in &keys {
        parts.push(format!("{key} = {}", quoted(value)?));
    }
    if !features.is_empty() {
        parts.push(format!("features = {features:?}"));
    }
    Ok(format!("{{ {} }}", parts.join(", ")))
}

/// Returns the absolute path of the SDK's source.
fn sdk_folder(sdk: &Path) -> Result<String, CommandError> {
    let manifest = fs::read_to_string(sdk.join("Cargo.toml")).unwrap_or_default();
    if !manifest.contains(&format!("\"{SDK}\"")) {
        let message = format!("--sdk {}: there is no Cargo.toml of {SDK}", sdk.display());
        let hint = "it is `orchestrator/plugin/sdk` in the source of ralph-orchestrator";
        return Err(CommandError::user(message).hinted(hint));
    }
    let folder = sdk.canonicalize()?;
    let path = folder.to_str().ok_or_else(|| {
        CommandError::user(format!("--sdk {}: the path is not UTF-8", folder.display()))
    })?;
    Ok(path.to_owned())
}

/// Creates the folder, which must be empty if it exists.
fn make(folder: &Path) -> Result<(), CommandError> {
    let taken = folder.symlink_metadata().is_ok()
        && fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_some());
    if taken {
        let message = format!("{} already exists", folder.display());
        return Err(CommandError::user(message).hinted("`--path DIR` creates another folder"));
    }
    create_folder(folder).map(drop)
}

/// Writes a file with the folder above it; never over another one.
fn write(path: &Path, text: &str) -> Result<(), CommandError> {
    match create_new(path, text)? {
        true => Ok(()),
        false => Err(CommandError::user(format!("{} already exists", path.display()))),
    }
}

fn say(folder: &Path, plugin: &NewPlugin<'_>) {
    output::result(&format!("wrote {}", folder.display()));
    output::result(&format!("next: cd {}", folder.display()));
    let test = format!("ralph-orchestrator plugin test {}", plugin.tested());
    let mut commands = plugin.build_commands().to_vec();
    commands.push((&test, ""));
    commands.push(("ralph-orchestrator run", "a loop with it"));
    for (command, what) in commands {
        let line = if what.is_empty() {
            format!("  {command}")
        } else {
            format!("  {command:<27}# {what}")
        };
        output::result(&line);
    }
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
    /// The name of its class in Python and Node.js.
    class: &'static str,
    /// Features of tokio that the code in Rust needs.
    tokio: &'static [&'static str],
    rust: (&'static str, &'static str),
}

const fn parts(kind: PluginKind) -> KindParts {
    match kind {
        PluginKind::Agent => KindParts {
            word: "agent",
            summary: "An agent that writes a greeting",
            class: "Greeter",
            tokio: &["io-util", "macros", "process"],
            rust: ("src/agent.rs", template!("rust/agent.rs.in")),
        },
        PluginKind::Detector => KindParts {
            word: "detector",
            summary: "A detector that takes a file in the workspace for a claim",
            class: "FileDetector",
            tokio: &["fs", "io-util"],
            rust: ("src/detector.rs", template!("rust/detector.rs.in")),
        },
        PluginKind::Validator => KindParts {
            word: "validator",
            summary: "A validator that requires a file with a text in it",
            class: "Contains",
            tokio: &["fs", "io-util", "macros"],
            rust: ("src/validator.rs", template!("rust/validator.rs.in")),
        },
    }
}

/// A plugin to be written.
struct NewPlugin<'a> {
    args: &'a NewPluginArgs,
    kinds: Vec<KindParts>,
}

impl<'a> NewPlugin<'a> {
    fn new(args: &'a NewPluginArgs) -> Self {
        let all = [PluginKind::Agent, PluginKind::Detector, PluginKind::Validator];
        let kinds = all.into_iter().filter(|kind| args.kind.contains(kind)).map(parts).collect();
        Self { args, kinds }
    }

    /// Returns each file's path in the folder, and its content. `sdk` is the dependency on the SDK.
    fn files(&self, sdk: &str) -> Vec<(&'static str, String)> {
        let values = self.values(sdk);
        let files = COMMON.iter().copied().chain(self.code());
        let files = files.map(|(path, template)| (path, values.fill(template)));
        let package = self.args.language.package().map(PackageLanguage::files);
        files.chain(package.into_iter().flatten()).collect()
    }

    /// Returns the features of the SDK that it needs.
    fn sdk_features(&self) -> &'static [&'static str] {
        if self.args.kind.contains(&PluginKind::Agent) { &["process"] } else { &[] }
    }

    /// Returns the path of its library, if it is one.
    fn library(&self) -> Option<String> {
        let file = format!("lib{}.so", self.args.name.replace('-', "_"));
        match self.args.language {
            Language::Rust => Some(format!("target/debug/{file}")),
            Language::C => Some(file),
            Language::Python | Language::Node => None,
        }
    }

    /// Returns what `plugin test` is given.
    fn tested(&self) -> String {
        match self.library() {
            // Without a slash it would be the name of a plugin.
            Some(library) if !library.contains('/') => format!("./{library}"),
            Some(library) => library,
            None => self.args.name.clone(),
        }
    }

    /// Returns the commands that come before the first test, each with what it is for.
    const fn build_commands(&self) -> &'static [(&'static str, &'static str)] {
        match self.args.language {
            Language::Rust => &[("cargo test", "its own tests"), ("cargo build", "")],
            Language::C => &[("sh build.sh", "")],
            Language::Python => &[("python3 -m unittest", "its own tests")],
            Language::Node => &[("node --test", "its own tests")],
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
            Language::Python => vec![
                ("plugin.py", template!("python/plugin.py.in")),
                ("test_plugin.py", template!("python/test_plugin.py.in")),
            ],
            Language::Node => vec![
                ("plugin.mjs", template!("node/plugin.mjs.in")),
                ("plugin.test.mjs", template!("node/plugin.test.mjs.in")),
            ],
            Language::C => vec![
                ("build.sh", template!("c/build.sh.in")),
                ("plugin.c", template!("c/plugin.c.in")),
                ("json.h", template!("c/json.h.in")),
                ("ralph_plugin.h", include_str!("../../abi/include/ralph_plugin.h")),
            ],
        }
    }

    fn values(&self, sdk: &str) -> Values {
        let name = &self.args.name;
        let language = self.args.language.word();
        let conditions = self.kinds.iter().map(|kind| kind.word).chain([language]).collect();
        let (code, build) = match (self.args.language, self.library()) {
            (Language::Python, _) => (PYTHON_COMMAND.to_owned(), ""),
            (Language::Node, _) => (NODE_COMMAND.to_owned(), ""),
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
            ("CLASSES", self.kinds.iter().map(|kind| kind.class).collect::<Vec<_>>().join(", ")),
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
