//! A folder in which a recorded agent completes the work of a preset.

use std::path::Path;

use ralph_orchestrator_assembly::error::CommandError;

use super::{EVIDENCE, Kind, OLD_LIST, PresetFolder, autocoder_prompts};
use crate::init::ignore::is_in_repository;

const CONFIG: &str = include_str!("../../templates/presets/demo.toml");
const PROMPT: &str = include_str!("../../templates/presets/demo/PROMPT.md");
const TEST: &str = include_str!("../../../../examples/hello/template/test.sh");
const VALIDATOR: &str = "[[validator]]\nkind = \"command\"\nname = \"tests\"\nprogram = [\"sh\", \"test.sh\"]\n\
    must_match = '[1-9]\\d* passed, 0 failed'\nprotect = [\"test.sh\"]\n";
const PROMPT_KEY: &str = "prompt = \"PROMPT.md\"\n\n";
/// What the recorded agent leaves that is no part of a project.
const GIT_IGNORE: &str = ".demo/\n";

macro_rules! recording {
    ($path:literal) => {
        include_str!(concat!("../../templates/presets/demo/", $path, ".jsonl"))
    };
}

/// What is written, by its path in the folder.
pub(crate) struct Demo {
    pub(crate) files: Vec<(&'static str, String)>,
}

impl Demo {
    /// Returns the files of the demonstration of a preset.
    ///
    /// # Errors
    /// The folder is not empty: nothing there may be mixed with what a recording does.
    pub(crate) fn of(preset: &PresetFolder, folder: &Path) -> Result<Self, CommandError> {
        let mut entries = folder.read_dir().map_err(|error| {
            CommandError::user(format!("cannot list {}: {error}", folder.display()))
        })?;
        if entries.next().is_some() {
            let message = format!("{} is not empty", folder.display());
            return Err(CommandError::user(message)
                .hinted("a demonstration needs an empty folder: `mkdir demo && cd demo`"));
        }
        if matches!(preset.kind(), Kind::Ada) && is_in_repository(folder) {
            let message = format!("{} is in a git repository", folder.display());
            return Err(CommandError::user(message).hinted(
                "this demonstration makes commits; it needs a folder outside of any repository",
            ));
        }
        let (more, first, second) = match preset.kind() {
            Kind::Ralph => (
                format!("{PROMPT_KEY}{EVIDENCE}{VALIDATOR}"),
                recording!("ralph/session/1"),
                recording!("ralph/session/2"),
            ),
            Kind::Ada => (
                format!(
                    "{PROMPT_KEY}[prompts.agents]\ninitializer = \"first\"\n\n\
                     [agents.first]\nadapter = \"replay\"\nconfig = {{ session = \".demo/initializer\" }}\n\n{VALIDATOR}"
                ),
                recording!("ada/session/1"),
                recording!("ada/session/2"),
            ),
            Kind::Autocoder => (
                format!("{PROMPT_KEY}{OLD_LIST}{VALIDATOR}"),
                recording!("autocoder/session/1"),
                recording!("autocoder/session/2"),
            ),
            Kind::PureLoop => (
                format!("\n{VALIDATOR}"),
                recording!("pure-loop/session/1"),
                recording!("pure-loop/session/2"),
            ),
        };
        let config = CONFIG.replace("@PRESET@", preset.name()).replace("@MORE@", more.trim_end());
        let mut files = vec![
            ("ralph.toml", config),
            ("test.sh", TEST.to_owned()),
            (".gitignore", GIT_IGNORE.to_owned()),
            (".demo/session/1.jsonl", first.to_owned()),
            (".demo/session/2.jsonl", second.to_owned()),
        ];
        if preset.has_prompt() {
            files.push(("PROMPT.md", preset.prompt(PROMPT.to_owned())));
        }
        files.extend(own_files(preset.kind()));
        Ok(Self { files })
    }
}

/// What only one of the presets has.
fn own_files(kind: Kind) -> Vec<(&'static str, String)> {
    match kind {
        Kind::Ralph => Vec::new(),
        Kind::Ada => {
            vec![(".demo/initializer/1.jsonl", recording!("ada/initializer/1").to_owned())]
        }
        Kind::Autocoder => {
            let list = include_str!("../../templates/presets/demo/autocoder/feature_list.json");
            let prompts = autocoder_prompts().map(|(name, text)| (name, text.to_owned()));
            prompts.into_iter().chain([("feature_list.json", list.to_owned())]).collect()
        }
        Kind::PureLoop => {
            let plan = include_str!("../../templates/presets/demo/pure-loop/plan.md");
            vec![
                (".ralph/ralph-1/plan.md", plan.to_owned()),
                (".ralph/ralph-1/progress.md", "# Progress\n".to_owned()),
                (".ralph/ralph-1/errors.log", String::new()),
            ]
        }
    }
}
