//! Pushes the branch of a run, and no other, to a remote of the user's, and fetches what it began with.

use std::time::Duration;

use crate::command::GitCommand;
use crate::error::Result;
use crate::object_id::ObjectId;
use crate::repository::Repository;

/// How long a push may take.
const TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// The protocols that a push takes where hooks are confined: a repository on this machine has hooks of its own, which would
/// run with the user's rights, and an agent could have made it.
const NETWORK_PROTOCOLS: &str = "https:ssh:http:git";

/// A remote repository as the user's configuration has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// Its name.
    pub name: String,
    /// Its address.
    pub url: String,
}

impl Repository {
    /// Returns the remote called `origin`, or the only one.
    ///
    /// # Errors
    /// Fails if git does.
    pub fn find_remote(&self) -> Result<Option<Remote>> {
        let listed = self.user_git().arg("remote").read_text(&*self.git)?;
        let names: Vec<&str> = listed.lines().filter(|name| !name.starts_with('-')).collect();
        let only = || names.first().filter(|_| names.len() == 1);
        let Some(name) = names.iter().find(|name| **name == "origin").or_else(only) else {
            return Ok(None);
        };
        let url = self.user_git().args(["config", "--get"]).arg(format!("remote.{name}.url"));
        let url = url.read_optional(&*self.git)?;
        let url = url.map(|url| String::from_utf8_lossy(&url).into_owned());
        Ok(url.map(|url| Remote { name: (*name).to_owned(), url }))
    }

    /// Returns the commit of a branch.
    ///
    /// # Errors
    /// Fails if git does.
    pub fn find_branch_tip(&self, branch: &str) -> Result<Option<ObjectId>> {
        self.resolve(&format!("refs/heads/{branch}"))
    }

    /// A command that speaks with a remote; where programs are confined, with none on this machine.
    fn remote_git(&self) -> GitCommand {
        let git = self.user_git().for_hooks(&self.outer).timeout(TIMEOUT);
        match self.git.confines() {
            true => git.env("GIT_ALLOW_PROTOCOL", NETWORK_PROTOCOLS),
            false => git,
        }
    }

    /// Fetches a branch of a remote into what is known of that remote, and returns its commit. No hook runs.
    ///
    /// # Errors
    /// Fails if the configuration is not the trusted one, or git fails.
    pub fn fetch_branch(&self, remote: &Remote, branch: &str) -> Result<Option<ObjectId>> {
        self.verify_configuration(&self.workspace)?;
        let known = format!("refs/remotes/{}/{branch}", remote.name);
        let fetch = self.remote_git().configure("core.hooksPath", "/dev/null");
        let fetch = fetch.args(["fetch", "--quiet", "--no-tags", "--recurse-submodules=no", "--"]);
        let reference = format!("+refs/heads/{branch}:{known}");
        fetch.arg(remote.name.as_str()).arg(reference).read(&*self.git)?;
        self.resolve(&known)
    }

    /// Pushes a branch under its own name, never by force. The hook `pre-push` runs, confined where hooks of commits are;
    /// then the push itself runs no hook, and reaches no repository on this machine.
    ///
    /// # Errors
    /// Fails if the configuration is not the trusted one, the hook rejects it, or git fails.
    pub fn push_branch(&self, remote: &Remote, branch: &str) -> Result<()> {
        self.verify_configuration(&self.workspace)?;
        let is_confined = self.git.confines();
        if is_confined {
            let hook = self.programs_git(&self.workspace).for_hooks(&self.outer);
            let hook = hook.args(["hook", "run", "--ignore-missing", "pre-push", "--"]);
            hook.arg(remote.name.as_str()).arg(remote.url.as_str()).read(&*self.git)?;
            // The hook may be an agent's.
            self.verify_configuration(&self.workspace)?;
        }
        let push = self.remote_git();
        let push =
            push.args(["push", "--porcelain", "--no-follow-tags", "--recurse-submodules=no"]);
        let push = if is_confined { push.arg("--no-verify") } else { push };
        let reference = format!("refs/heads/{branch}:refs/heads/{branch}");
        push.arg("--").arg(remote.name.as_str()).arg(reference).read(&*self.git).map(drop)
    }
}
