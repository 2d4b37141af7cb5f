//! Signs a commit that was made where no key is in reach.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::command::{GitCommand, parse_object_id};
use crate::error::{GitError, Result};
use crate::object_id::ObjectId;
use crate::repository::{Head, Repository};
use crate::settings::Setting;

/// Who wrote or committed something, and when.
struct Person {
    name: String,
    email: String,
    date: String,
}

impl Person {
    fn parse(line: &str) -> Option<Self> {
        let (name, rest) = line.split_once(" <")?;
        let (email, date) = rest.split_once("> ")?;
        Some(Self { name: name.to_owned(), email: email.to_owned(), date: date.to_owned() })
    }
}

impl Repository {
    /// Replaces HEAD's commit by the same one with a signature, if the user's configuration asks for that. Returns the
    /// commit that is there then.
    ///
    /// The program that signs has the user's rights, so nothing that the repository says decides which it is.
    pub(crate) fn sign(&self, commit: ObjectId) -> Result<ObjectId> {
        let wanted = self.signing_git()?.args(["config", "--type=bool", "--get", "commit.gpgSign"]);
        if wanted.read_optional(&*self.git)?.is_none_or(|value| value != b"true") {
            return Ok(commit);
        }
        // Hooks have run since it was compared.
        self.verify_configuration(&self.workspace)?;
        let unexpected = || GitError::UnexpectedOutput {
            command: "cat-file".to_owned(),
            expected: "a commit with its author",
        };
        let text = self.private_git().args(["cat-file", "commit", commit.as_str()]);
        let text = text.read(&*self.git)?;
        let end = text.windows(2).position(|pair| pair == b"\n\n").ok_or_else(unexpected)?;
        let (header, message) = text.split_at(end);
        let header = String::from_utf8_lossy(header);
        let values = |key: &str| {
            let key = format!("{key} ");
            header.lines().filter_map(move |line| line.strip_prefix(&key).map(str::to_owned))
        };
        let person = |key| values(key).next().and_then(|line| Person::parse(&line));
        let (Some(author), Some(committer), Some(tree)) =
            (person("author"), person("committer"), values("tree").next())
        else {
            return Err(unexpected());
        };
        let parents = values("parent").flat_map(|parent| ["-p".to_owned(), parent]);
        let mut command = self.signing_git()?.args(["commit-tree", "-S"]);
        for word in parents.chain(["-F".to_owned(), "-".to_owned(), tree]) {
            command = command.arg(word);
        }
        let command = command
            .timeout(self.signing_timeout)
            .env("GIT_AUTHOR_NAME", author.name)
            .env("GIT_AUTHOR_EMAIL", author.email)
            .env("GIT_AUTHOR_DATE", author.date)
            .env("GIT_COMMITTER_NAME", committer.name)
            .env("GIT_COMMITTER_EMAIL", committer.email)
            .env("GIT_COMMITTER_DATE", committer.date)
            .stdin(message.get(2..).unwrap_or_default().to_vec());
        let signed = command.read(&*self.git)?;
        let signed = parse_object_id(String::from_utf8_lossy(&signed).trim(), "commit-tree")?;
        let Head::Branch { name, .. } = self.head()? else { return Err(GitError::DetachedHead) };
        let reference = format!("refs/heads/{name}");
        // An agent may have led the reflog elsewhere, so this has no more rights than it.
        let command = self.hookless_git()?.confined_to(self.own_folders());
        let words = ["update-ref", "-m", "commit: sign", &reference, signed.as_str()];
        command.args(words).arg(commit.as_str()).read(&*self.git)?;
        Ok(signed)
    }

    /// Sets the branch to what it was before a commit that could not be signed.
    pub(crate) fn take_back(&self, commit: &ObjectId, parent: Option<&ObjectId>) -> Result<()> {
        let Head::Branch { name, .. } = self.head()? else { return Err(GitError::DetachedHead) };
        let reference = format!("refs/heads/{name}");
        let command = self.hookless_git()?.confined_to(self.own_folders());
        let command = command.args(["update-ref", "-m", "commit: take back"]);
        let command = match parent {
            Some(parent) => command.args([&reference, parent.as_str()]),
            None => command.args(["-d", &reference]),
        };
        command.arg(commit.as_str()).read(&*self.git).map(drop)
    }

    /// Returns the keys of the repository's own configuration that would decide how a commit is signed, and do not where
    /// programs are confined.
    pub(crate) fn list_unused_signing(&self) -> Result<Vec<String>> {
        if !self.git.confines() {
            return Ok(Vec::new());
        }
        let settings = self.list_settings(&self.workspace)?.into_iter();
        let mut keys: Vec<String> = settings
            .filter(|setting| setting.is_own && decides_signing(&setting.key))
            .map(|setting| setting.key)
            .collect();
        keys.dedup();
        Ok(keys)
    }

    /// Begins a command that signs: in the private git directory, so that it reads no file of the repository's, and with
    /// what the user's own files say of signing.
    fn signing_git(&self) -> Result<GitCommand> {
        let git_dir = self.private.git_dir();
        let mut command = GitCommand::new(&git_dir, &self.outer)
            .in_private(&git_dir, &self.private.home(), &self.objects)
            .unset("GIT_WORK_TREE");
        // Keys are found from there.
        for name in ["HOME", "XDG_CONFIG_HOME"] {
            command = match self.outer.get(OsStr::new(name)) {
                Some(value) => command.env(name, value),
                None => command.unset(name),
            };
        }
        for setting in self.list_settings(&self.workspace)? {
            if !setting.is_own && decides_signing(&setting.key) {
                self.refuse_own_program(&setting)?;
                command = command.configure(&setting.key, setting.value());
            }
        }
        Ok(command)
    }

    /// Fails if a key of the user's names a program in the working tree: what it is now an agent may have written.
    fn refuse_own_program(&self, setting: &Setting) -> Result<()> {
        let value = setting.value().to_string_lossy();
        let home = self.outer.get(OsStr::new("HOME")).map(PathBuf::from).unwrap_or_default();
        let mut words = value.split_whitespace().filter(|word| word.contains('/'));
        let program = words.find_map(|word| {
            let path = match word.strip_prefix("~/") {
                Some(rest) => home.join(rest),
                None => Path::new(word).to_owned(),
            };
            (setting.key.starts_with("gpg.") && self.is_own(&path)).then_some(path)
        });
        match program {
            Some(program) => Err(GitError::SigningProgram { key: setting.key.clone(), program }),
            None => Ok(()),
        }
    }
}

/// Whether a key decides whether a commit is signed, by which program and with which key.
fn decides_signing(key: &str) -> bool {
    key.starts_with("gpg.") || matches!(key, "commit.gpgsign" | "user.signingkey")
}
