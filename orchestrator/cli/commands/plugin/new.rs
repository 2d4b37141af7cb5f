//! `plugin new`

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::compiled_in::of_program;
use crate::error::{CommandError, exit};
use crate::plugins::Plugins;
use crate::{output, registry};

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PluginKind {
    /// Does the work of an iteration
    Agent,
    /// Finds claims that the task is complete
    Detector,
    /// Decides whether a claim is accepted
    Validator,
}

#[derive(Debug, clap::Args)]
pub(crate) struct NewPluginArgs {
    /// Name of the crate, and of the plugin in ralph.toml
    pub(crate) name: String,
    /// What it provides
    #[arg(long, value_enum)]
    pub(crate) kind: PluginKind,
    /// Folder to create [default: the name]
    #[arg(long, value_name = "DIR")]
    pub(crate) path: Option<PathBuf>,
    /// Folder of the SDK's source, instead of its version on a registry
    #[arg(long, value_name = "PATH")]
    pub(crate) sdk: Option<PathBuf>,
}

/// The longest name of a plugin, in bytes.
const LONGEST: usize = 64;
const SDK: &str = "ralph-orchestrator-plugin-sdk";

macro_rules! template {
    ($file:literal) => {
        include_str!(concat!("../../templates/plugin/", $file))
    };
}

/// What is different from kind to kind.
struct Template {
    summary: &'static str,
    /// Features of tokio that the code needs.
    tokio: &'static str,
    lib: &'static str,
    tests: &'static str,
    ralph: &'static str,
    conformance: &'static str,
}

const AGENT: Template = Template {
    summary: "An agent that writes a greeting",
    tokio: "\"io-util\", \"macros\", \"process\"",
    lib: template!("agent/lib.rs.in"),
    tests: template!("agent/tests.rs.in"),
    ralph: template!("agent/ralph.toml.in"),
    conformance: template!("agent/conformance.toml.in"),
};
const DETECTOR: Template = Template {
    summary: "Reports a file in the workspace as a claim",
    tokio: "\"fs\", \"io-util\"",
    lib: template!("detector/lib.rs.in"),
    tests: template!("detector/tests.rs.in"),
    ralph: template!("detector/ralph.toml.in"),
    conformance: template!("detector/conformance.toml.in"),
};
const VALIDATOR: Template = Template {
    summary: "Requires a file with a text in it",
    tokio: "\"fs\", \"io-util\", \"macros\"",
    lib: template!("validator/lib.rs.in"),
    tests: template!("validator/tests.rs.in"),
    ralph: template!("validator/ralph.toml.in"),
    conformance: template!("validator/conformance.toml.in"),
};

pub(crate) fn new(args: &NewPluginArgs) -> Result<u8, CommandError> {
    let NewPluginArgs { name, kind, path, sdk } = args;
    check(name)?;
    let folder = path.clone().unwrap_or_else(|| name.into());
    let template = match kind {
        PluginKind::Agent => AGENT,
        PluginKind::Detector => DETECTOR,
        PluginKind::Validator => VALIDATOR,
    };
    let dependency = dependency(sdk.as_deref())?;
    let library = format!("target/debug/lib{}.so", name.replace('-', "_"));
    let fill = |text: &str| {
        text.replace("@NAME@", name)
            .replace("@LIBRARY@", &library)
            .replace("@SUMMARY@", template.summary)
            .replace("@SDK@", &dependency)
            .replace("@TOKIO@", template.tokio)
    };
    let files = [
        ("Cargo.toml", template!("Cargo.toml.in")),
        (".gitignore", template!("gitignore.in")),
        ("README.md", template!("README.md.in")),
        ("ralph.toml", template.ralph),
        ("conformance.toml", template.conformance),
        ("template/README.md", template!("workspace.md.in")),
        ("src/lib.rs", template.lib),
        ("src/tests.rs", template.tests),
    ];
    make(&folder)?;
    for (file, text) in files {
        write(&folder.join(file), &fill(text))?;
    }
    say(&folder, &library, sdk.is_none());
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

/// The SDK, as Cargo finds it.
fn dependency(sdk: Option<&Path>) -> Result<String, CommandError> {
    let Some(sdk) = sdk else {
        return Ok(format!("\"{}\"", env!("CARGO_PKG_VERSION")));
    };
    let manifest = fs::read_to_string(sdk.join("Cargo.toml")).unwrap_or_default();
    if !manifest.contains(&format!("\"{SDK}\"")) {
        let message = format!("--sdk {}: there is no Cargo.toml of {SDK}", sdk.display());
        let hint = "it is `orchestrator/plugin/sdk` in the source of ralph-orchestrator";
        return Err(CommandError::user(message).hinted(hint));
    }
    let sdk = sdk.canonicalize()?;
    let path = sdk.to_str().ok_or_else(|| {
        CommandError::user(format!("--sdk {}: the path is not UTF-8", sdk.display()))
    })?;
    // A string of JSON is one of TOML.
    let path = serde_json::to_string(path).map_err(CommandError::internal)?;
    Ok(format!("{{ path = {path} }}"))
}

/// A folder in which nothing is.
fn make(folder: &Path) -> Result<(), CommandError> {
    let taken = folder.symlink_metadata().is_ok()
        && fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_some());
    if taken {
        let message = format!("{} already exists", folder.display());
        return Err(CommandError::user(message).hinted("`--path DIR` creates another folder"));
    }
    let made = ["src", "template"]
        .into_iter()
        .try_for_each(|below| fs::create_dir_all(folder.join(below)));
    made.map_err(|error| {
        CommandError::user(format!("cannot create the folder {}: {error}", folder.display()))
    })
}

/// Never over something.
fn write(path: &PathBuf, text: &str) -> Result<(), CommandError> {
    let written = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| {
        CommandError::internal(format!("{} cannot be written: {error}", path.display()))
    })
}

fn say(folder: &Path, library: &str, by_version: bool) {
    output::result(&format!("wrote {}", folder.display()));
    output::result(&format!("next: cd {}", folder.display()));
    output::result("  cargo test                 # its own tests");
    output::result("  cargo build");
    output::result(&format!(
        "  ralph-orchestrator plugin test {library} --conformance conformance.toml"
    ));
    output::result("  ralph-orchestrator run     # a loop with it");
    if by_version {
        output::info(&format!(
            "note: Cargo.toml asks for {SDK} {version} of crates.io; while it is not there, put the \
             source in its place:\n  git clone the source of ralph-orchestrator {version}, and in \
             Cargo.toml: {SDK} = {{ path = \"CLONE/orchestrator/plugin/sdk\" }}\n  or write the crate \
             with `--sdk CLONE/orchestrator/plugin/sdk`",
            version = env!("CARGO_PKG_VERSION"),
        ));
    }
}
