//! `init --preset`: a folder in which a known way of working begins.

use std::path::Path;

use ralph_orchestrator_assembly::error::{CommandError, exit};
use ralph_orchestrator_assembly::git;
use ralph_orchestrator_assembly::presets;
use ralph_orchestrator_config::{Preset, Prompts, Role, nearest};
use ralph_orchestrator_engine::built_in_prompt;
use ralph_orchestrator_terminal::new_file::create_new;
use ralph_orchestrator_terminal::output;

use super::agent::AgentChoice;
use super::check::ProposedChecks;
use super::ignore::is_in_repository;
use super::next_commands::{next_commands, option_of};

const CONFIG: &str = include_str!("../templates/presets/ralph.toml");
/// Where the prompt of the ordinary template says how to claim, and how the marker is set instead.
const CLAIM_START: &str = "- When everything above is done";
const MARKER_CLAIM: &str = "- When everything above is done and the tests pass, put at least three files that show it (.txt, .png or .json)\n  \
    into `validation-evidence/` beside this file, and add this line at the end of this file, without the indentation:\n\n      \
    - [x] TASK_COMPLETE\n";

/// The validator of the preset `ralph`: a list of validators takes the place of that of the preset.
const EVIDENCE: &str = "[[validator]]\nkind = \"evidence-files\"\ndir = \"validation-evidence\"   # beside the prompt\n\
    min_files = 3\nextensions = [\"png\", \"txt\", \"json\"]\n\n";

/// The backlog of an older AutoCoder.
const OLD_LIST: &str = "# The list of an older AutoCoder; without this table it is features.db.\n\
    [backlog]\nkind = \"json\"\npath = \"feature_list.json\"\n\n";

const DEMO_CONFIG: &str = include_str!("../templates/presets/demo.toml");
const DEMO_PROMPT: &str = include_str!("../templates/presets/demo/PROMPT.md");
const DEMO_TEST: &str = include_str!("../../../examples/hello/template/test.sh");
const DEMO_VALIDATOR: &str = "[[validator]]\nkind = \"command\"\nname = \"tests\"\nprogram = [\"sh\", \"test.sh\"]\n\
    must_match = '[1-9]\\d* passed, 0 failed'\nprotect = [\"test.sh\"]\n";
const PROMPT_KEY: &str = "prompt = \"PROMPT.md\"\n\n";
/// What the recorded agent leaves that is no part of a project.
const GIT_IGNORE: &str = ".demo/\n";

macro_rules! recording {
    ($path:literal) => {
        include_str!(concat!("../templates/presets/demo/", $path, ".jsonl"))
    };
}

/// A preset, and what it needs in a folder.
pub(crate) struct PresetFolder {
    name: String,
    kind: Kind,
}

/// The presets that come with the program.
#[derive(Clone, Copy)]
enum Kind {
    Ralph,
    PureLoop,
    Ada,
    Autocoder,
}

const KINDS: [(&str, Kind); 4] = [
    ("ralph", Kind::Ralph),
    ("pure-loop", Kind::PureLoop),
    ("ada", Kind::Ada),
    ("autocoder", Kind::Autocoder),
];

impl PresetFolder {
    /// Returns the preset of this name.
    pub(crate) fn find(name: &str) -> Result<Self, CommandError> {
        let all: Vec<Preset> = presets::all();
        let names = || all.iter().map(|preset| preset.name.as_str());
        let known = KINDS.iter().find(|(known, _)| *known == name && names().any(|n| n == name));
        let Some((name, kind)) = known else {
            let error = CommandError::user(format!("there is no preset called {name:?}"));
            let hint = nearest(name, names()).map_or_else(
                || format!("known presets: {}", names().collect::<Vec<_>>().join(", ")),
                |near| format!("did you mean \"{near}\"?"),
            );
            return Err(error.hinted(hint));
        };
        Ok(Self { name: (*name).to_owned(), kind: *kind })
    }

    fn name(&self) -> &str {
        &self.name
    }

    const fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether the task is in `PROMPT.md`; a task of the pure loop has a plan.
    pub(crate) const fn has_prompt(&self) -> bool {
        !matches!(self.kind, Kind::PureLoop)
    }

    /// Returns the text of `ralph.toml`.
    pub(crate) fn config(
        &self,
        agent: &AgentChoice,
        checks: &ProposedChecks,
        folder: &Path,
    ) -> Result<String, CommandError> {
        let prompt =
            "prompt = \"PROMPT.md\"          # what to do; read again before each iteration\n";
        let run = if self.has_prompt() { format!("[run]\n{prompt}\n") } else { String::new() };
        let found = if checks.found.is_empty() { self.without_check() } else { checks.toml()? };
        let own = if matches!(self.kind, Kind::Ralph) { EVIDENCE } else { "" };
        let list = match self.kind {
            Kind::Autocoder if has_old_list(folder) => OLD_LIST,
            _ => "",
        };
        let check = format!("{list}{own}{found}");
        Ok(CONFIG
            .replace("@PRESET@", &self.name)
            .replace("@RUN@", &run)
            .replace("@AGENT@", &agent.toml)
            .replace("@CHECK@", &check)
            .replace("@COST@", agent.cost))
    }

    /// What stands in the place of a check where none was found.
    fn without_check(&self) -> String {
        match self.kind {
            Kind::Ralph => "# The evidence files that the preset wants are written by the agent itself. Add a check of your own:\n\
                 # [[validator]]\n# kind = \"command\"\n# program = [\"./test.sh\"]\n"
                .to_owned(),
            Kind::PureLoop => {
                "# The `test_command` of each plan is what proves its task done.\n".to_owned()
            }
            Kind::Ada | Kind::Autocoder => "# NO check was found, so the agent's word is enough. Name a check, and remove `trust_agent`:\n\
                 # [[validator]]\n# kind = \"command\"\n# program = [\"./test.sh\"]\n\
                 [completion]\ntrust_agent = true\n"
                .to_owned(),
        }
    }

    /// Returns what is said to the user of a missing check.
    pub(crate) const fn missing_check(&self) -> &'static str {
        match self.kind {
            Kind::Ralph => {
                "  NO test command was found: only evidence files decide, which the agent writes itself"
            }
            Kind::PureLoop => "  NO test command was found: each plan needs a `test_command`",
            Kind::Ada | Kind::Autocoder => {
                "  NO test command was found: ralph.toml says `trust_agent = true`, so the agent's word is enough"
            }
        }
    }

    /// Returns what the preset requires beside the check that was found.
    pub(crate) const fn more_proof(&self) -> Option<&'static str> {
        match self.kind {
            Kind::Ralph => Some(
                "  completion also needs three files or more (.png, .txt or .json) in validation-evidence",
            ),
            Kind::PureLoop | Kind::Ada | Kind::Autocoder => None,
        }
    }

    /// Returns the prompt of a task as the detectors of the preset want it claimed.
    pub(crate) fn prompt(&self, text: String) -> String {
        match (self.kind, text.find(CLAIM_START)) {
            (Kind::Ralph, Some(start)) => {
                let mut text = text;
                text.truncate(start);
                text + MARKER_CLAIM
            }
            _ => text,
        }
    }

    /// Writes what the preset needs beside `ralph.toml` and the prompt, if it is not there yet.
    pub(crate) fn write_files(&self, folder: &Path) -> Result<(), CommandError> {
        match self.kind {
            Kind::Ada => return create_repository(folder),
            Kind::Autocoder => {}
            Kind::Ralph | Kind::PureLoop => return Ok(()),
        }
        for (name, text) in autocoder_prompts() {
            write(folder, name, text)?;
        }
        Ok(())
    }
}

/// The built-in prompts, where AutoCoder has its own.
fn autocoder_prompts() -> [(&'static str, &'static str); 3] {
    [
        ("prompts/initializer_prompt.md", Role::Initializer),
        ("prompts/coding_prompt.md", Role::Coding),
        ("prompts/coding_prompt_yolo.md", Role::Yolo),
    ]
    .map(|(name, role)| (name, built_in_prompt(&Prompts::default(), role)))
}

/// Makes a repository, which the preset commits to, unless the folder is in one.
fn create_repository(folder: &Path) -> Result<(), CommandError> {
    if !is_in_repository(folder) {
        git::create_repository(folder)?;
        output::result("made a git repository: the preset commits to it");
    }
    Ok(())
}

/// Whether the features are in the list of an older AutoCoder.
fn has_old_list(folder: &Path) -> bool {
    folder.join("feature_list.json").is_file() && !folder.join("features.db").exists()
}

/// Writes a file that is not there, with its folders, and says so.
fn write(folder: &Path, name: &str, text: &str) -> Result<(), CommandError> {
    let path = folder.join(name);
    let verb = if create_new(&path, text)? { "wrote" } else { "kept" };
    output::result(&format!("{verb} {}", path.display()));
    Ok(())
}

/// Writes a folder in which a recorded agent completes the work, and says how to start it.
pub(crate) fn write_demo(preset: &PresetFolder, folder: &Path) -> Result<u8, CommandError> {
    for (name, text) in Demo::new(preset, folder)?.files {
        write(folder, name, &text)?;
    }
    if matches!(preset.kind(), Kind::Ada) {
        create_repository(folder)?;
    }
    output::result("next:");
    let (run, log) = if preset.has_prompt() { ("run", "log") } else { ("go 1", "log --task 1") };
    next_commands("", &[(run, "a recorded agent completes the task"), (log, "what happened")]);
    Ok(exit::OK)
}

/// The next commands of a task that is not in a prompt file.
pub(crate) fn say_next(file: &Path) {
    output::result("next:");
    next_commands(
        &option_of(file),
        &[
            ("new \"TASK\"", "write the plan of a task; --test-command proves it"),
            ("go 1", "run the loop until the task is proved done"),
            ("status --task 1", "show its current status"),
        ],
    );
}

/// A folder in which a recorded agent completes the work of a preset: what is written, by its path in it.
struct Demo {
    files: Vec<(&'static str, String)>,
}

impl Demo {
    /// Returns the files of the demonstration of a preset.
    ///
    /// # Errors
    /// The folder is not empty: nothing there may be mixed with what a recording does.
    fn new(preset: &PresetFolder, folder: &Path) -> Result<Self, CommandError> {
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
                format!("{PROMPT_KEY}{EVIDENCE}{DEMO_VALIDATOR}"),
                recording!("ralph/session/1"),
                recording!("ralph/session/2"),
            ),
            Kind::Ada => (
                format!(
                    "{PROMPT_KEY}[prompts.agents]\ninitializer = \"first\"\n\n\
                     [agents.first]\nadapter = \"replay\"\nconfig = {{ session = \".demo/initializer\" }}\n\n{DEMO_VALIDATOR}"
                ),
                recording!("ada/session/1"),
                recording!("ada/session/2"),
            ),
            Kind::Autocoder => (
                format!("{PROMPT_KEY}{OLD_LIST}{DEMO_VALIDATOR}"),
                recording!("autocoder/session/1"),
                recording!("autocoder/session/2"),
            ),
            Kind::PureLoop => (
                format!("\n{DEMO_VALIDATOR}"),
                recording!("pure-loop/session/1"),
                recording!("pure-loop/session/2"),
            ),
        };
        let config =
            DEMO_CONFIG.replace("@PRESET@", preset.name()).replace("@MORE@", more.trim_end());
        let mut files = vec![
            ("ralph.toml", config),
            ("test.sh", DEMO_TEST.to_owned()),
            (".gitignore", GIT_IGNORE.to_owned()),
            (".demo/session/1.jsonl", first.to_owned()),
            (".demo/session/2.jsonl", second.to_owned()),
        ];
        if preset.has_prompt() {
            files.push(("PROMPT.md", preset.prompt(DEMO_PROMPT.to_owned())));
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
            let list = include_str!("../templates/presets/demo/autocoder/feature_list.json");
            let prompts = autocoder_prompts().map(|(name, text)| (name, text.to_owned()));
            prompts.into_iter().chain([("feature_list.json", list.to_owned())]).collect()
        }
        Kind::PureLoop => {
            let plan = include_str!("../templates/presets/demo/pure-loop/plan.md");
            vec![
                (".ralph/ralph-1/plan.md", plan.to_owned()),
                (".ralph/ralph-1/progress.md", "# Progress\n".to_owned()),
                (".ralph/ralph-1/errors.log", String::new()),
            ]
        }
    }
}
