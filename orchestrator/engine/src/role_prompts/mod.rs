//! The prompts of roles: found again before each iteration, in places that were located once.

mod template;

use std::collections::BTreeMap;
use std::path::Path;

use ralph_orchestrator_config::{Config, ConfigErrors, LoadedConfig, Prompts, Role};
use ralph_orchestrator_store::TrustStore;
use ralph_orchestrator_workspace::{Prompt, PromptError, PromptPlace};

use super::construction::error_at;
use super::prompt_place::locate;

pub(super) use template::{TemplateError, TemplateVariables};

/// Where a prompt was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundPrompt {
    /// The file, as it is configured; none for the text that comes with the program.
    pub path: Option<std::path::PathBuf>,
    /// What it holds.
    pub prompt: Prompt,
}

impl FoundPrompt {
    /// Returns the path for people, or "built-in".
    #[must_use]
    pub fn origin(&self) -> String {
        let path = self.path.as_deref().map(|path| path.display().to_string());
        path.unwrap_or_else(|| Prompts::BUILT_IN.to_owned())
    }
}

/// Why a role has no prompt.
#[derive(Debug, thiserror::Error)]
pub enum RolePromptError {
    /// There is no file, and the built-in text is not asked for.
    #[error(
        "no prompt for the role `{role}`: there is none of {paths}; write one of them, or add \
         \"built-in\" to `prompts.paths`"
    )]
    Missing {
        /// The role.
        role: &'static str,
        /// All paths at which it was looked for.
        paths: String,
    },
    /// A file cannot be read.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// There is nothing in it.
    #[error("prompt {path}: is empty; write the prompt of the role `{role}` into it")]
    Empty {
        /// The role.
        role: &'static str,
        /// The file.
        path: String,
    },
    /// It is no template.
    #[error("prompt {path}:{error}")]
    Template {
        /// The file.
        path: String,
        /// Where in it, and what is wrong.
        error: TemplateError,
    },
}

impl RolePromptError {
    /// Whether a link has taken the place of the file of this prompt.
    fn is_link_at(&self, prompt: &FoundPrompt) -> bool {
        matches!(self, Self::Prompt(PromptError::Link { path }) if Some(path) == prompt.path.as_ref())
    }
}

/// The name of the prompt that works on the plan of a task.
const PURE_LOOP: &str = "pure-loop";

/// Returns the text that comes with the program for the prompt of a role: of its name in `prompts.names` if there
/// is one, else of the role.
#[must_use]
pub fn built_in_prompt(prompts: &Prompts, role: Role) -> &'static str {
    if prompts.names.of(role) == PURE_LOOP {
        return include_str!("built_in/pure-loop.md");
    }
    match role {
        Role::Initializer => include_str!("built_in/initializer.md"),
        Role::Coding => include_str!("built_in/coding.md"),
        Role::Yolo => include_str!("built_in/yolo.md"),
        Role::Handoff => include_str!("built_in/handoff.md"),
    }
}

/// Returns the prompt that a new run would begin an iteration of this role with. A link that an agent could have made is
/// passed over.
///
/// # Errors
/// There is none, or the first file that is there cannot be used.
pub fn find_role_prompt(
    prompts: &Prompts,
    role: Role,
    trust: &TrustStore,
) -> Result<FoundPrompt, RolePromptError> {
    Chain::new(prompts, role, |path| locate(trust, path)).find_first().map(|(found, _)| found)
}

/// Checks that every role that the configuration uses has a prompt which can be given to an agent.
///
/// # Errors
/// What is wrong, at the key that names it.
pub fn check_role_prompts(loaded: &LoadedConfig, trust: &TrustStore) -> Result<(), ConfigErrors> {
    let Some(prompts) = &loaded.config.prompts else { return Ok(()) };
    for role in used_roles(&loaded.config) {
        let found =
            find_role_prompt(prompts, role, trust).and_then(|found| check(prompts, role, &found));
        if let Err(error) = found {
            let key = if matches!(error, RolePromptError::Template { .. }) {
                "template"
            } else {
                "paths"
            };
            return Err(error_at(loaded, &["prompts", key], &error.to_string()));
        }
    }
    Ok(())
}

/// Returns the roles of which a run has iterations.
pub(super) fn used_roles(config: &Config) -> impl Iterator<Item = Role> {
    let initializer = config.initializer.is_some().then_some(Role::Initializer);
    initializer.into_iter().chain([working_role(config)])
}

/// Returns the role of the iterations that do the work.
pub(super) fn working_role(config: &Config) -> Role {
    config.run.role.map_or(Role::Coding, Role::from)
}

fn check(prompts: &Prompts, role: Role, found: &FoundPrompt) -> Result<(), RolePromptError> {
    if found.prompt.text.trim().is_empty() {
        return Err(RolePromptError::Empty { role: role.word(), path: found.origin() });
    }
    if !prompts.template {
        return Ok(());
    }
    let checked = template::check(&found.prompt.bytes);
    checked.map_err(|error| RolePromptError::Template { path: found.origin(), error })
}

/// The places at which the prompt of a role is looked for, in order.
#[derive(Clone, Debug)]
struct Chain {
    role: Role,
    places: Vec<PromptPlace>,
    built_in: Option<&'static str>,
}

impl Chain {
    fn new(prompts: &Prompts, role: Role, place: impl Fn(&Path) -> PromptPlace) -> Self {
        let places = prompts.candidates(role).iter().map(|path| place(path)).collect();
        let built_in = prompts.has_built_in().then(|| built_in_prompt(prompts, role));
        Self { role, places, built_in }
    }

    /// Returns the prompt that is there, with what there is to say of links that were passed over: what took the place of
    /// a file counts as that the file is gone.
    fn find_first(&self) -> Result<(FoundPrompt, Vec<String>), RolePromptError> {
        let mut links = Vec::new();
        let found = self.find_unless(|error| {
            let is_link = matches!(error, PromptError::Link { .. });
            if is_link {
                links.push(format!("{error}; it is passed over"));
            }
            is_link
        })?;
        Ok((found, links))
    }

    fn find(&self) -> Result<FoundPrompt, RolePromptError> {
        self.find_unless(|_| false)
    }

    fn find_unless(
        &self,
        mut is_passed_over: impl FnMut(&PromptError) -> bool,
    ) -> Result<FoundPrompt, RolePromptError> {
        for place in &self.places {
            match place.read() {
                Ok(prompt) => {
                    return Ok(FoundPrompt { path: Some(place.configured().to_owned()), prompt });
                }
                Err(PromptError::NotFound { .. }) => {}
                Err(error) if is_passed_over(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(text) = self.built_in {
            let prompt = Prompt::new(text.as_bytes().to_vec());
            return Ok(FoundPrompt { path: None, prompt });
        }
        let paths = self.places.iter().map(|place| place.configured().display().to_string());
        let paths = paths.collect::<Vec<_>>().join(", ");
        Err(RolePromptError::Missing { role: self.role.word(), paths })
    }
}

/// The prompt of an iteration.
#[derive(Clone, Debug)]
pub(super) struct RolePrompt {
    pub(super) role: Role,
    pub(super) found: FoundPrompt,
    /// What the agent is given of it.
    pub(super) bytes: Vec<u8>,
    /// The task is part of that.
    pub(super) has_task: bool,
}

/// The prompts of the roles that a run uses.
#[derive(Clone, Debug)]
pub(super) struct RolePrompts {
    working: Role,
    prompts: Prompts,
    is_editable: bool,
    chains: Vec<Chain>,
    /// What each role was given last.
    last: BTreeMap<Role, FoundPrompt>,
}

impl RolePrompts {
    pub(super) fn new(
        config: &Config,
        prompts: &Prompts,
        place: impl Fn(&Path) -> PromptPlace,
    ) -> Self {
        let chains = used_roles(config).map(|role| Chain::new(prompts, role, &place)).collect();
        Self {
            working: working_role(config),
            prompts: prompts.clone(),
            is_editable: config.run.prompt_editable,
            chains,
            last: BTreeMap::new(),
        }
    }

    /// Returns all places at which a prompt is looked for.
    pub(super) fn places(&self) -> impl Iterator<Item = &PromptPlace> {
        self.chains.iter().flat_map(|chain| &chain.places)
    }

    /// Returns the text of the role that does the work, if it can be read.
    pub(super) fn working_text(&self) -> Option<String> {
        let chain = self.chains.iter().find(|chain| chain.role == self.working)?;
        chain.find().ok().map(|found| found.prompt.text)
    }

    /// Returns the text of the role that does the work as it was given last; as it is if it was never given.
    pub(super) fn last_working_text(&self) -> Option<String> {
        let last = self.last.get(&self.working);
        last.map(|found| found.prompt.text.clone()).or_else(|| self.working_text())
    }

    /// Returns the role of the next iteration.
    pub(super) const fn role(&self, is_initializing: bool) -> Role {
        if is_initializing { Role::Initializer } else { self.working }
    }

    /// Reads the prompt of a role as it is now. One that cannot be used any more is given as it was last; the
    /// second value says so, or what was changed.
    pub(super) fn read(
        &mut self,
        role: Role,
        variables: &TemplateVariables<'_>,
        workspace: &Path,
    ) -> Result<(RolePrompt, Option<String>), RolePromptError> {
        let last = self.last.get(&role);
        let (found, links) = match self.find(role) {
            Ok((found, links)) => (Ok(found), links),
            Err(error) => (Err(error), Vec::new()),
        };
        let usable = found.and_then(|found| {
            check(&self.prompts, role, &found)?;
            let given = self.render(&found, variables)?;
            Ok((found, given))
        });
        let (found, given, warning) = match (usable, last) {
            (Ok((found, given)), None) => {
                (found, given, (!links.is_empty()).then(|| links.join("; ")))
            }
            (Ok((found, given)), Some(last)) if found == *last => (found, given, None),
            (Ok((found, _)), Some(last)) if !self.is_editable => {
                self.restore(last, workspace)?;
                let why = "run.prompt_editable = false forbids; it is given as it was at the start";
                let warning = format!("{} was edited, which {why}", found.origin());
                (last.clone(), self.render(last, variables)?, Some(warning))
            }
            (Ok((found, given)), Some(_)) => {
                let message = format!(
                    "the prompt of the role `{}` was changed: {}",
                    role.word(),
                    found.origin()
                );
                (found, given, Some(message))
            }
            (Err(error), None) => return Err(error),
            (Err(error), Some(last)) => {
                if error.is_link_at(last) {
                    self.restore(last, workspace)?;
                }
                let warning = format!("{error}; the prompt is given as it was last");
                (last.clone(), self.render(last, variables)?, Some(warning))
            }
        };
        self.last.insert(role, found.clone());
        let (bytes, has_task) = given;
        Ok((RolePrompt { role, found, bytes, has_task }, warning))
    }

    /// Returns the prompt of a role as it is now. Before it was ever given, links are passed over, with what there is to
    /// say of them.
    fn find(&self, role: Role) -> Result<(FoundPrompt, Vec<String>), RolePromptError> {
        let chain = self.chains.iter().find(|chain| chain.role == role);
        match chain {
            Some(chain) if self.last.contains_key(&role) => Ok((chain.find()?, Vec::new())),
            Some(chain) => chain.find_first(),
            // The configuration had no such role when the run began: no link is followed for it.
            None => {
                let place = |path: &Path| PromptPlace::locate_at(path, path.to_owned());
                Chain::new(&self.prompts, role, place).find_first()
            }
        }
    }

    /// Returns what the agent is given of a prompt, and whether the task is part of that.
    fn render(
        &self,
        found: &FoundPrompt,
        variables: &TemplateVariables<'_>,
    ) -> Result<(Vec<u8>, bool), RolePromptError> {
        if !self.prompts.template {
            return Ok((found.prompt.bytes.clone(), false));
        }
        let rendered = template::render(&found.prompt.bytes, variables);
        rendered.map_err(|error| RolePromptError::Template { path: found.origin(), error })
    }

    fn restore(&self, last: &FoundPrompt, workspace: &Path) -> Result<(), PromptError> {
        let place = self.places().find(|place| Some(place.configured()) == last.path.as_deref());
        place.map_or(Ok(()), |place| place.restore(&last.prompt.bytes, workspace))
    }
}
