//! What commits show to others besides files: searched for secrets before they are pushed.

use crate::error::Result;
use crate::object_id::ObjectId;
use crate::path::RepoPath;
use crate::push::Remote;
use crate::repository::Repository;
use crate::secrets::{contains_key, has_secret_name};

/// The most of what commits say and change that is read, in bytes.
const LONGEST_HISTORY: usize = 256 << 20;

/// A secret in a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistorySecret {
    /// The commit.
    pub commit: String,
    /// The file; `None` if it is in the message.
    pub file: Option<String>,
    /// How it was recognised.
    pub sign: SecretSign,
}

/// How a secret is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretSign {
    /// The new file has a name under which secrets are stored.
    Name,
    /// It has the head of a well-known key.
    Key,
    /// It has the value of a secret that is known.
    Value,
}

impl Repository {
    /// Returns the first secret that the commits after `base` up to `tip` add, in files, their names or messages. Those that
    /// the remote has already, since a person pushed them, are not searched. `is_known`: whether a line has a secret's value.
    ///
    /// # Errors
    /// Fails if git does, or what the commits say and change is more than 256 MiB.
    pub fn find_secret(
        &self,
        (base, tip): (&str, &ObjectId),
        remote: &Remote,
        branch: &str,
        is_known: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Option<HistorySecret>> {
        let pushed = self.resolve(&format!("refs/remotes/{}/{branch}", remote.name))?;
        let from = match pushed {
            Some(pushed) if self.is_ancestor(&pushed, tip)? => pushed.to_string(),
            _ => base.to_owned(),
        };
        let log = self.user_git().configure("core.quotePath", "false").args(["log", "-p", "-m"]);
        let log = log.args(["--text", "--no-renames", "--no-color", "--no-ext-diff"]);
        // Messages are indented: a line that begins otherwise is no part of one.
        let log = log.args(["--no-textconv", "--format=%x00%H%n%w(0,1,1)%an <%ae>%n%B%w(0,0,0)"]);
        let log = log.max_output(LONGEST_HISTORY).arg(format!("{from}..{tip}")).arg("--");
        let mut history =
            History { is_known, commit: String::new(), file: None, place: Place::Message };
        for line in log.read(&*self.git)?.split(|byte| *byte == b'\n') {
            let Some(sign) = history.read_line(line) else { continue };
            let is_older = match &history.file {
                Some(file) if sign == SecretSign::Name => {
                    self.resolve(&format!("{base}:{file}"))?.is_some()
                }
                _ => false,
            };
            if !is_older {
                let History { commit, file, .. } = history;
                return Ok(Some(HistorySecret { commit, file, sign }));
            }
        }
        Ok(None)
    }
}

/// Where in the output of `git log -p` a line is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Message,
    /// Before the lines of a file.
    Header,
    Lines,
}

struct History<'a> {
    is_known: &'a dyn Fn(&[u8]) -> bool,
    commit: String,
    file: Option<String>,
    place: Place,
}

impl History<'_> {
    /// Reads a line. Returns how a secret is recognised in it, if it adds one.
    fn read_line(&mut self, line: &[u8]) -> Option<SecretSign> {
        if let Some(commit) = line.strip_prefix(b"\0") {
            self.commit = String::from_utf8_lossy(commit).into_owned();
            (self.file, self.place) = (None, Place::Message);
            return None;
        }
        if let Some(names) = line.strip_prefix(b"diff --git ") {
            // Both are the same, but for their first letter.
            let name = names.get(..names.len() / 2).unwrap_or_default();
            let name = String::from_utf8_lossy(name).into_owned();
            let name = name.trim_matches('"').strip_prefix("a/").map(str::to_owned);
            (self.file, self.place) = (name, Place::Header);
        }
        if self.place == Place::Header && line.starts_with(b"new file mode ") {
            let file = self.file.as_deref().unwrap_or_default();
            return has_secret_name(&RepoPath::from_bytes(file)).then_some(SecretSign::Name);
        }
        if self.place == Place::Header && line.starts_with(b"@@ ") {
            self.place = Place::Lines;
        }
        match (self.place, line.first()) {
            (Place::Lines, Some(b'+')) | (Place::Message | Place::Header, _) => self.search(line),
            (Place::Lines, _) => None,
        }
    }

    fn search(&self, line: &[u8]) -> Option<SecretSign> {
        if (self.is_known)(line) {
            return Some(SecretSign::Value);
        }
        contains_key(line).then_some(SecretSign::Key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads what `git log -p` prints. Returns what it finds first.
    fn find(text: &str) -> Option<(String, Option<String>, SecretSign)> {
        let is_known = |line: &[u8]| String::from_utf8_lossy(line).contains("hunter2");
        let mut history = History {
            is_known: &is_known,
            commit: String::new(),
            file: None,
            place: Place::Message,
        };
        let sign = text.as_bytes().split(|b| *b == b'\n').find_map(|line| history.read_line(line));
        sign.map(|sign| (history.commit, history.file, sign))
    }

    #[test]
    fn what_a_commit_adds_is_searched_and_what_it_removes_or_shows_around_is_not() {
        const KEY: &str = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
        let file = |name: &str, lines: &str| {
            format!(
                "\0c1\n A <a@b>\n Work\n\ndiff --git a/{name} b/{name}\nindex 1..2 100644\n--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n{lines}\n"
            )
        };
        let new = |name: &str| {
            format!("\0c1\n W\n\ndiff --git a/{name} b/{name}\nnew file mode 100644\nindex 0..1\n")
        };
        let table = [
            (file("a b.txt", &format!("+T={KEY}")), Some((Some("a b.txt"), SecretSign::Key))),
            (file("x", "+hunter2"), Some((Some("x"), SecretSign::Value))),
            (file("x", &format!("-T={KEY}\n hunter2\n+fine")), None),
            // Lines that look like others of the output.
            (
                file("x", &format!("+diff --git a/y b/y\n+@@ 1\n {KEY}\n++++ b/{KEY}")),
                Some((Some("x"), SecretSign::Key)),
            ),
            (
                format!("\0c1\n W\n diff --git a/y b/y\n @@ 1\n   {KEY}\n"),
                Some((None, SecretSign::Key)),
            ),
            (new(".env"), Some((Some(".env"), SecretSign::Name))),
            (new("sub/id_rsa"), Some((Some("sub/id_rsa"), SecretSign::Name))),
            (new("hunter2.txt"), Some((Some("hunter2.txt"), SecretSign::Value))),
            (new(".env.example"), None),
            (file(".env", "+A=1"), None),
        ];
        for (text, expected) in table {
            let expected =
                expected.map(|(file, sign)| ("c1".to_owned(), file.map(str::to_owned), sign));
            assert_eq!(find(&text), expected, "{text}");
        }
    }
}
