//! Signs a commit that was made where no key is in reach.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::command::GitCommand;
use crate::error::{GitError, Result};
use crate::path::split_nul;
use crate::repository::{Head, ObjectId, Repository};

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
    /// The program that signs has the user's rights, unless it lies in the working tree.
    pub(crate) fn sign(&self, commit: ObjectId) -> Result<ObjectId> {
        let wanted = self.user_git().args(["config", "--type=bool", "--get", "commit.gpgSign"]);
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
            .env("GIT_AUTHOR_NAME", author.name)
            .env("GIT_AUTHOR_EMAIL", author.email)
            .env("GIT_AUTHOR_DATE", author.date)
            .env("GIT_COMMITTER_NAME", committer.name)
            .env("GIT_COMMITTER_EMAIL", committer.email)
            .env("GIT_COMMITTER_DATE", committer.date)
            .stdin(message.get(2..).unwrap_or_default().to_vec());
        let signed = command.read(&*self.git)?;
        let signed = ObjectId::parse(String::from_utf8_lossy(&signed).trim(), "commit-tree")?;
        let Head::Branch { name, .. } = self.head()? else { return Err(GitError::DetachedHead) };
        let reference = format!("refs/heads/{name}");
        let words = ["update-ref", "-m", "commit: sign", &reference, signed.as_str()];
        self.hookless_git()?.args(words).arg(commit.as_str()).read(&*self.git)?;
        Ok(signed)
    }

    /// Begins a command that signs: confined if the program is one that the agent can write.
    fn signing_git(&self) -> Result<GitCommand> {
        let programs = self.user_git().args(["config", "-z", "--get-regexp"]);
        let programs = programs.arg(r"^gpg\..*program$").read_optional(&*self.git)?;
        let is_here = |entry: &[u8]| {
            let value = entry.splitn(2, |byte| *byte == b'\n').nth(1).unwrap_or_default();
            let path = Path::new(std::ffi::OsStr::from_bytes(value));
            value.contains(&b'/') && self.workspace.join(path).starts_with(&self.top_level)
        };
        let programs = programs.unwrap_or_default();
        Ok(match split_nul(&programs).any(is_here) {
            true => self.programs_git(&self.workspace),
            false => self.user_git(),
        })
    }
}
