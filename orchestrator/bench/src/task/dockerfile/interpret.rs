//! Follows a Dockerfile from its first line to its last.

use std::path::Path;

use super::super::settings::User;
use super::copy_line::{parse_list, read_copy};
use super::lexer::{Instruction, lex};
use super::run::{RunEffect, interpret_command};
use super::shell::split_commands;
use super::stage::Stage;
use super::words::{Variables, expand, split_words};
use super::{Dockerfile, FileAction, SetupCommand, resolve};

pub(super) fn interpret(path: &Path, text: &str) -> Dockerfile {
    let lexed = lex(text);
    let mut follower =
        Follower { escape: lexed.escape, global: Variables::new(), stages: Vec::new() };
    let mut early = Vec::new();
    for instruction in &lexed.instructions {
        if let Err(reason) = follower.follow(instruction) {
            let reason = format!("{}: {reason}", instruction.keyword);
            match follower.stages.last_mut() {
                Some(stage) => stage.unsupported.push((instruction.line, reason)),
                None => early.push((instruction.line, reason)),
            }
        }
    }
    let mut stage = follower.stages.pop().unwrap_or_default();
    early.append(&mut stage.unsupported);
    for line in lexed.open_heredocs {
        early.push((line, "a here-document does not end".to_owned()));
    }
    if stage.image.is_none() && early.is_empty() {
        early.push((1, "there is no FROM line: name the image that it begins with".to_owned()));
    }
    Dockerfile {
        path: path.to_owned(),
        context: path.parent().unwrap_or(Path::new("/")).to_owned(),
        env: stage.process_env(),
        image: stage.image,
        workdir: stage.workdir,
        user: stage.user,
        unsupported: early,
        actions: stage.actions,
    }
}

struct Follower {
    escape: char,
    /// Variables of ARG lines before the first FROM, which only FROM lines see.
    global: Variables,
    stages: Vec<Stage>,
}

impl Follower {
    fn follow(&mut self, instruction: &Instruction) -> Result<(), String> {
        let escape = self.escape;
        match (instruction.keyword.as_str(), self.stages.last_mut()) {
            ("FROM", _) => self.begin_stage(instruction),
            ("ARG", None) => {
                let pairs = read_arguments(instruction, escape, &self.global)?;
                let pairs = pairs.into_iter().filter_map(|(name, value)| Some((name, value?)));
                self.global.extend(pairs);
                Ok(())
            }
            (_, None) => Err("it stands before the first FROM".to_owned()),
            ("ARG", Some(stage)) => {
                for (name, value) in read_arguments(instruction, escape, &stage.variables())? {
                    if let Some(value) = value.or_else(|| self.global.get(&name).cloned()) {
                        stage.set_argument(name, value);
                    }
                }
                Ok(())
            }
            (_, Some(stage)) => follow_in_stage(instruction, stage, escape),
        }
    }

    fn begin_stage(&mut self, instruction: &Instruction) -> Result<(), String> {
        let words = split_words(&instruction.text, self.escape, &self.global)?;
        let words: Vec<&str> =
            words.iter().map(String::as_str).filter(|word| !word.starts_with("--")).collect();
        let (image, name) = match words.as_slice() {
            [image] => (*image, None),
            [image, word, name] if word.eq_ignore_ascii_case("as") => {
                (*image, Some(name.to_lowercase()))
            }
            _ => return Err("expected an image, and `AS` with a name at most".to_owned()),
        };
        // A stage that begins with an earlier one goes on with what that has come to.
        let earlier = self
            .stages
            .iter()
            .rfind(|stage| stage.name.as_deref().is_some_and(|name| name == image.to_lowercase()));
        let base = earlier.cloned();
        let mut stage =
            base.unwrap_or_else(|| Stage { image: Some(image.to_owned()), ..Stage::default() });
        stage.env.retain(|name, _| !stage.args.contains(name));
        stage.args.clear();
        stage.name = name;
        self.stages.push(stage);
        Ok(())
    }
}

fn follow_in_stage(
    instruction: &Instruction,
    stage: &mut Stage,
    escape: char,
) -> Result<(), String> {
    let text = instruction.text.as_str();
    let variables = stage.variables();
    match instruction.keyword.as_str() {
        "WORKDIR" => {
            let path = resolve(stage.workdir(), &expand(text, escape, &variables)?);
            stage.actions.push(FileAction::Folder { path: path.clone() });
            stage.workdir = Some(path);
            Ok(())
        }
        "ENV" => {
            for (name, value) in read_env(text, escape, &variables)? {
                stage.args.retain(|arg| *arg != name);
                stage.env.insert(name, value);
            }
            Ok(())
        }
        "USER" => {
            let name = expand(text, escape, &variables)?;
            // The group does not matter: there is one user.
            let name = name.split(':').next().unwrap_or_default().trim();
            let id = name.parse().map(User::Id);
            stage.user = Some(id.unwrap_or_else(|_| User::Name(name.to_owned())));
            if name.is_empty() { Err("it names no user".to_owned()) } else { Ok(()) }
        }
        "SHELL" => {
            let shell = parse_list(text).filter(|shell| !shell.is_empty());
            stage.shell = Some(shell.ok_or("expected a list such as [\"/bin/bash\", \"-c\"]")?);
            Ok(())
        }
        "COPY" | "ADD" => {
            let copy = read_copy(instruction, stage, escape)?;
            stage.actions.push(FileAction::Copy(copy));
            Ok(())
        }
        "RUN" => {
            let command = read_run(instruction, stage)?;
            stage.actions.push(FileAction::Run(command));
            Ok(())
        }
        // They describe the image, or what runs in a container that nobody gives a command.
        "LABEL" | "MAINTAINER" | "EXPOSE" | "CMD" | "STOPSIGNAL" | "ONBUILD" => Ok(()),
        // Tasks without a container are not started by these either; what they start is not there, though.
        "ENTRYPOINT" if is_harmless_entrypoint(text) => Ok(()),
        "ENTRYPOINT" => {
            Err("it starts something with the container: use `healthcheck` or a step's setup.sh"
                .to_owned())
        }
        "HEALTHCHECK" => Ok(()),
        "VOLUME" => {
            let folders = parse_list(text)
                .unwrap_or_else(|| text.split_whitespace().map(str::to_owned).collect());
            let folders = folders.iter().map(|folder| resolve("/", folder));
            stage.actions.extend(folders.map(|path| FileAction::Folder { path }));
            Ok(())
        }
        _ => Err("this instruction is not known".to_owned()),
    }
}

/// Whether an entry point is but a shell, or nothing.
fn is_harmless_entrypoint(text: &str) -> bool {
    let words =
        parse_list(text).unwrap_or_else(|| text.split_whitespace().map(str::to_owned).collect());
    let program = words.first().map(|word| word.rsplit('/').next().unwrap_or_default());
    words.len() <= 1 && program.is_none_or(|name| matches!(name, "sh" | "bash" | "dash" | "ash"))
}

/// Returns the names of an ARG line, and their defaults.
fn read_arguments(
    instruction: &Instruction,
    escape: char,
    env: &Variables,
) -> Result<Vec<(String, Option<String>)>, String> {
    let words = split_words(&instruction.text, escape, env)?;
    let split = |word: String| match word.split_once('=') {
        Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
        None => (word, None),
    };
    Ok(words.into_iter().map(split).collect())
}

/// Returns the variables of an ENV line, in either of its forms.
fn read_env(text: &str, escape: char, env: &Variables) -> Result<Vec<(String, String)>, String> {
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    if !first.contains('=') {
        let value = expand(rest.trim(), escape, env)?;
        return if first.is_empty() || rest.trim().is_empty() {
            Err("expected NAME=value".to_owned())
        } else {
            Ok(vec![(first.to_owned(), value)])
        };
    }
    let split = |word: String| {
        let pair = word.split_once('=').filter(|(name, _)| !name.is_empty());
        let pair = pair.map(|(name, value)| (name.to_owned(), value.to_owned()));
        pair.ok_or_else(|| format!("expected NAME=value, found `{word}`"))
    };
    split_words(text, escape, env)?.into_iter().map(split).collect()
}

fn read_run(instruction: &Instruction, stage: &Stage) -> Result<SetupCommand, String> {
    let mut text = instruction.text.as_str();
    let mut has_option = false;
    while text.starts_with("--") {
        let (flag, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        // A cache only makes a build faster; other mounts and networks are inputs.
        if !flag.starts_with("--mount=type=cache") {
            return Err(format!("the option `{flag}` is not followed"));
        }
        has_option = true;
        text = rest.trim_start();
    }
    if instruction.has_heredoc {
        return Err("a here-document is not followed: join the commands by `&&`".to_owned());
    }
    if text.is_empty() {
        return Err(
            if has_option { "options without a command" } else { "there is no command" }.to_owned()
        );
    }
    let (program, commands) = match parse_list(text) {
        Some(words) => (words.clone(), Ok(vec![words])),
        None => {
            let default = || vec!["/bin/sh".to_owned(), "-c".to_owned()];
            let mut program = stage.shell.clone().unwrap_or_else(default);
            program.push(text.to_owned());
            (program, split_commands(text, &stage.variables()))
        }
    };
    Ok(SetupCommand {
        line: instruction.line,
        program,
        workdir: stage.workdir().to_owned(),
        env: stage.env.clone(),
        user: stage.user.clone(),
        effects: commands.and_then(|commands| {
            let effects = commands.iter().map(|words| interpret_command(words));
            let effects: Result<Vec<Vec<RunEffect>>, String> = effects.collect();
            effects.map(|effects| effects.into_iter().flatten().collect())
        }),
    })
}
