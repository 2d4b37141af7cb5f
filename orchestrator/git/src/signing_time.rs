//! Bounds how long the program that signs a commit takes: it may wait for a person, who is not there.

use rustix::fs::{Access, access};

use crate::command::GitCommand;
use crate::error::Result;
use crate::path::RepoPath;
use crate::repository::Repository;

/// The program between git and the one that signs.
const NAME: &str = "sign";
/// What `timeout` of the coreutils exits with after it has ended a program.
const ENDED: u8 = 124;

impl Repository {
    /// Has the program that signs ended when its time is up, if the user's configuration asks for a signature. Hooks, which
    /// `git commit` runs as well, may take longer.
    pub(crate) fn bound_signing(&self, command: GitCommand) -> Result<GitCommand> {
        let read = |words: &[&str]| {
            let command = self.user_git().arg("config").args(words.iter().copied());
            command.read_optional(&*self.git)
        };
        if read(&["--type=bool", "--get", "commit.gpgSign"])?.is_none_or(|value| value != b"true") {
            return Ok(command);
        }
        let format = read(&["--get", "gpg.format"])?.unwrap_or_default();
        let (keys, default): (&[&str], &[u8]) = match format.as_slice() {
            b"" | b"openpgp" => (&["gpg.openpgp.program", "gpg.program"], b"gpg"),
            b"x509" => (&["gpg.x509.program"], b"gpgsm"),
            b"ssh" => (&["gpg.ssh.program"], b"ssh-keygen"),
            _ => return Ok(command),
        };
        let mut program = default.to_vec();
        for key in keys {
            if let Some(configured) = read(&["--type=path", "--get", key])? {
                program = configured;
                break;
            }
        }
        let wrapper = self.private.write_program(NAME, &self.script(&program))?;
        // Where nothing may be executed in the state, git starts the program itself.
        if access(&wrapper, Access::EXEC_OK).is_err() {
            return Ok(command);
        }
        Ok(keys.iter().fold(command, |command, key| command.configure(key, &wrapper)))
    }

    /// Returns the text of a program that runs another one for so long at most, and says so if it had to end it.
    fn script(&self, program: &[u8]) -> Vec<u8> {
        let named = RepoPath::from_bytes(program).to_string().replace('\'', "");
        let quoted = program.split(|byte| *byte == b'\'').collect::<Vec<_>>().join(&b"'\\''"[..]);
        let seconds = self.signing_timeout.as_secs_f64();
        let (before, after) = (
            format!(
                "#!/bin/sh\ncommand -v timeout >/dev/null || timeout() {{ shift 3; \"$@\"; }}\ntimeout -k 5 {seconds} '"
            ),
            format!(
                "' \"$@\"\nstatus=$?\n[ $status != {ENDED} ] || echo '{named}, which signs, was ended after {seconds} s: it may \
                 wait for a person; [git] timeout says how long it may take' >&2\nexit $status\n"
            ),
        );
        [before.as_bytes(), &quoted, after.as_bytes()].concat()
    }
}
