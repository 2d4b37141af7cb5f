//! `plugin doc`

mod keys;
mod markdown;

use std::path::{Path, PathBuf};

use ralph_orchestrator_assembly::block_on::block_on;
use ralph_orchestrator_assembly::built_in::{find_built_in, list_built_in};
use ralph_orchestrator_assembly::compiled_in::of_program;
use ralph_orchestrator_assembly::context::Context;
use ralph_orchestrator_assembly::discovery::ConfigFile;
use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::plugins::Plugins;
use ralph_orchestrator_plugin_host::check;
use ralph_orchestrator_plugin_protocol::{Item, ItemKind};
use ralph_orchestrator_story::words::capability_names;
use ralph_orchestrator_terminal::output;
use ralph_orchestrator_text::plain_line;

use self::keys::describe_keys;
use self::markdown::{TEXT_MAX, cell, code, code_list, in_text};
use crate::named;

#[expect(missing_docs, reason = "it would be a part of the help")]
#[derive(Debug, clap::Args)]
pub struct DocPluginArgs {
    /// A library, the name of a plugin in ralph.toml, or of something built in such as `command`
    pub(crate) plugin: PathBuf,
}

/// A plugin, or what is built in by one name.
struct Reference {
    name: String,
    /// Rows of the table at the top: a name, and what is said of it.
    facts: Vec<(&'static str, String)>,
    items: Vec<Item>,
    /// What the agent among the items can do, if that is known.
    abilities: Vec<&'static str>,
    is_plugin: bool,
}

/// Prints the reference. Runs no code of a library, and starts a program as `plugin check` does.
pub(crate) fn print_reference(file: &ConfigFile, args: &DocPluginArgs) -> Result<u8, CommandError> {
    let reference = match named::name(&args.plugin) {
        None => refer_to_library(&args.plugin, None, None)?,
        Some(name) => match refer_to_built_in(file, name)? {
            Some(reference) => reference,
            None => refer_to_plugin(file, name)?,
        },
    };
    output::result(reference.to_markdown().trim_end());
    Ok(exit::OK)
}

/// Returns what is built in by this name; reads no configuration, for a plugin cannot have the name.
fn refer_to_built_in(file: &ConfigFile, name: &str) -> Result<Option<Reference>, CommandError> {
    let compiled_in = of_program();
    let found = find_built_in(&compiled_in, name);
    if found.is_empty() {
        return Ok(None);
    }
    let folder = std::path::absolute(file.path())?.parent().map(PathBuf::from).unwrap_or_default();
    let adapters = block_on(async { Ok(list_built_in(&compiled_in, folder).await) })?;
    let adapter = adapters.into_iter().find(|adapter| adapter.description.name == name);
    let items = found.into_iter().map(|(kind, schema)| {
        let of_adapter = adapter.as_ref().filter(|_| kind == ItemKind::Agent);
        let of_keys = schema.as_ref().and_then(|keys| keys.get("description")?.as_str());
        let summary = of_adapter.map(|adapter| adapter.description.summary.as_str()).or(of_keys);
        let summary = summary.unwrap_or_default().to_owned();
        Item { kind, name: name.to_owned(), summary, schema }
    });
    let abilities = adapter.as_ref().filter(|adapter| adapter.knows_capabilities);
    Ok(Some(Reference {
        name: name.to_owned(),
        facts: vec![
            ("what it is", "built in".to_owned()),
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ],
        items: items.collect(),
        abilities: abilities
            .map(|adapter| capability_names(&adapter.description.capabilities))
            .unwrap_or_default(),
        is_plugin: false,
    }))
}

fn refer_to_plugin(file: &ConfigFile, name: &str) -> Result<Reference, CommandError> {
    let mut context = Context::load(file, Vec::new()).map_err(|error| named::hint(error, name))?;
    let config = named::table(&context, name)?;
    if let Some(library) = &config.library {
        return refer_to_library(library, config.digest.as_deref(), Some(name));
    }
    // What is wrong with others is no matter here.
    context.loaded.config.plugins.retain(|other, _| other == name);
    let plugins = Plugins::from_context(&context)?;
    let hellos = block_on(async { Ok(plugins.handshakes().await) })?;
    let (_, hello) = hellos.into_iter().next().ok_or_else(|| named::unknown(&context, name))?;
    let hello = hello
        .map_err(|problem| CommandError::unavailable(format!("the plugin `{name}`: {problem}")))?;
    let features = code_list(hello.features.iter().map(String::as_str));
    let sdk = hello.sdk.unwrap_or_else(|| "no SDK".to_owned());
    Ok(Reference {
        name: name.to_owned(),
        facts: vec![
            ("what it is", "a program".to_owned()),
            ("command", code(&config.command.join(" "))),
            ("its own name", hello.name),
            ("version", hello.version),
            ("built with", sdk),
            ("protocol", hello.protocol.to_string()),
            ("features", features),
        ],
        items: hello.provides,
        abilities: Vec::new(),
        is_plugin: true,
    })
}

fn refer_to_library(
    file: &Path,
    pinned: Option<&str>,
    name: Option<&str>,
) -> Result<Reference, CommandError> {
    let checked = check(file, pinned).map_err(|error| {
        CommandError::unavailable(error.to_string())
            .hinted("none of its code has run; a program is named as in ralph.toml")
    })?;
    let manifest = checked.header().manifest.clone();
    let sdk = manifest.sdk.unwrap_or_else(|| "no SDK".to_owned());
    Ok(Reference {
        name: name.unwrap_or(&manifest.name).to_owned(),
        facts: vec![
            ("what it is", "a library".to_owned()),
            ("its own name", manifest.name),
            ("version", manifest.version),
            ("built with", sdk),
        ],
        items: manifest.provides,
        abilities: Vec::new(),
        is_plugin: true,
    })
}

impl Reference {
    fn to_markdown(&self) -> String {
        let mut text = format!("# {}\n\n| | |\n|---|---|\n", cell(&self.name));
        let facts = self.facts.iter().filter(|(_, fact)| !fact.trim().is_empty());
        facts.for_each(|(name, fact)| text.push_str(&format!("| {name} | {} |\n", cell(fact))));
        for item in &self.items {
            text.push_str(&self.describe_item(item));
        }
        text
    }

    fn describe_item(&self, item: &Item) -> String {
        let word = match item.kind {
            ItemKind::Agent => "Agent",
            ItemKind::Detector => "Detector",
            ItemKind::Validator => "Validator",
            ItemKind::Backlog => "Format of backlogs",
            ItemKind::Unknown => "Of a kind that this version does not know",
        };
        let mut text = format!("\n## {word} {}\n", code(&item.name));
        let summary = plain_line(&item.summary, TEXT_MAX);
        if !summary.is_empty() {
            text.push_str(&format!("\n{}\n", in_text(&summary)));
        }
        if item.kind == ItemKind::Agent && !self.abilities.is_empty() {
            text.push_str(&format!("\nIt can: {}.\n", self.abilities.join(", ")));
        }
        let name = self.configured_name(item);
        let (used, table, beside) = match item.kind {
            ItemKind::Agent => (format!("[agent]\nadapter = {name}"), "[agent.config]", ""),
            ItemKind::Detector => {
                let more = " It also has the keys that every detector has.";
                (format!("[[completion.detector]]\nname = {name}"), "[[completion.detector]]", more)
            }
            ItemKind::Validator => {
                let more = " It also has the keys that every validator has.";
                (format!("[[validator]]\nkind = {name}"), "[[validator]]", more)
            }
            ItemKind::Backlog => (format!("[backlog]\nkind = {name}"), "", ""),
            ItemKind::Unknown => return text,
        };
        text.push_str(&format!("\n```toml\n{used}\n```\n"));
        if item.kind != ItemKind::Backlog {
            text.push_str(&describe_keys(item.schema.as_ref(), table, beside));
        }
        text
    }

    /// Returns the name of an item in a configuration, quoted. The only one of its kind needs no name of its own.
    fn configured_name(&self, item: &Item) -> String {
        let is_only = self.items.iter().filter(|other| other.kind == item.kind).count() == 1;
        let name = match is_only || !self.is_plugin {
            true => self.name.clone(),
            false => format!("{}/{}", self.name, item.name),
        };
        serde_json::Value::from(plain_line(&name, TEXT_MAX)).to_string()
    }
}
