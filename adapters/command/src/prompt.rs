//! The ways by which a prompt reaches the program, byte for byte.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use ralph_orchestrator_contract::{AgentError, ErrorClass};

use crate::config::PromptBy;

/// What stands for the prompt in the arguments.
const PROMPT: &[u8] = b"{prompt}";
/// What stands for the path of the prompt's file in the arguments.
const PROMPT_FILE: &[u8] = b"{prompt_file}";
/// Linux takes no argument of this size or more (`MAX_ARG_STRLEN`, the final NUL included).
const ARGUMENT_MAX: usize = 128 * 1024;
/// The prompt's file in the iteration's private folder.
const FILE_NAME: &str = "prompt-for-agent.md";

/// What the program is started with.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Call {
    /// Arguments without the program.
    pub(crate) args: Vec<OsString>,
    /// All of standard input.
    pub(crate) stdin: Vec<u8>,
}

/// The arguments with a prompt; where its file would be, if there is one.
pub(crate) fn arguments(
    by: PromptBy,
    args: &[String],
    prompt: &[u8],
    scratch: &Path,
) -> Vec<OsString> {
    match by {
        PromptBy::Stdin => args.iter().map(OsString::from).collect(),
        PromptBy::Arg => fill(args, PROMPT, prompt),
        PromptBy::File => fill(args, PROMPT_FILE, scratch.join(FILE_NAME).as_os_str().as_bytes()),
    }
}

/// Puts the prompt where the program looks for it.
pub(crate) fn deliver(
    by: PromptBy,
    args: &[String],
    prompt: Vec<u8>,
    scratch: &Path,
) -> Result<Call, AgentError> {
    match by {
        PromptBy::Stdin => Ok(Call { args: arguments(by, args, &prompt, scratch), stdin: prompt }),
        PromptBy::Arg => {
            if let Some(at) = prompt.iter().position(|&byte| byte == 0) {
                return Err(refuse(&format!(
                    "the prompt contains a NUL byte (at offset {at}), which no argument can carry"
                )));
            }
            let args = arguments(by, args, &prompt, scratch);
            match args.iter().map(|arg| arg.len() + 1).find(|&size| size > ARGUMENT_MAX) {
                Some(size) => Err(refuse(&format!(
                    "the argument with the prompt is {size} bytes long, more than the \
                     {ARGUMENT_MAX} that the system takes"
                ))),
                None => Ok(Call { args, stdin: Vec::new() }),
            }
        }
        PromptBy::File => {
            write(scratch, &prompt).map_err(|(path, error)| {
                let message = format!("cannot write the prompt to {}: {error}", path.display());
                AgentError::new(ErrorClass::Unavailable, message)
            })?;
            Ok(Call { args: arguments(by, args, &prompt, scratch), stdin: Vec::new() })
        }
    }
}

fn refuse(what: &str) -> AgentError {
    let message = format!("{what}: set `prompt = \"stdin\"` or `prompt = \"file\"`");
    AgentError::new(ErrorClass::InvalidRequest, message)
}

/// Replaces `placeholder` wherever it stands; appends `value` if it stands nowhere.
fn fill(args: &[String], placeholder: &[u8], value: &[u8]) -> Vec<OsString> {
    let mut found = false;
    let mut filled: Vec<OsString> = args
        .iter()
        .map(|arg| {
            let mut bytes = Vec::with_capacity(arg.len());
            let mut rest = arg.as_bytes();
            while let Some((&first, after)) = rest.split_first() {
                if let Some(behind) = rest.strip_prefix(placeholder) {
                    found = true;
                    bytes.extend_from_slice(value);
                    rest = behind;
                } else {
                    bytes.push(first);
                    rest = after;
                }
            }
            OsString::from_vec(bytes)
        })
        .collect();
    if !found {
        filled.push(OsString::from_vec(value.to_vec()));
    }
    filled
}

fn write(scratch: &Path, prompt: &[u8]) -> Result<(), (PathBuf, io::Error)> {
    let path = scratch.join(FILE_NAME);
    let written = (|| {
        // A second try of the same iteration finds the file of the first one.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all(prompt)
    })();
    written.map_err(|error| (path, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn args(list: &[&str]) -> Vec<String> {
        list.iter().map(|&part| part.to_owned()).collect()
    }

    fn by_arg(list: &[&str], prompt: &[u8]) -> Result<Call, AgentError> {
        deliver(PromptBy::Arg, &args(list), prompt.to_vec(), Path::new("/nonexistent"))
    }

    #[test]
    fn an_argument_is_replaced_wherever_it_stands_or_appended() {
        let filled = by_arg(&["-p", "<{prompt}|{prompt}>"], b"a\xFFb").unwrap().args;
        assert_eq!(filled[1].as_bytes(), b"<a\xFFb|a\xFFb>");
        assert_eq!(by_arg(&["-p"], b"x\r\n").unwrap().args, ["-p", "x\r\n"]);
        // A placeholder within the prompt itself stays as it is.
        assert_eq!(by_arg(&["{prompt}"], b"say {prompt}").unwrap().args, ["say {prompt}"]);
        assert_eq!(by_arg(&[], b"").unwrap().args, [""]);
    }

    #[test]
    fn the_longest_argument_passes_and_one_byte_more_does_not() {
        assert!(by_arg(&[], &vec![b'x'; ARGUMENT_MAX - 1]).is_ok());
        let error = by_arg(&[], &vec![b'x'; ARGUMENT_MAX]).unwrap_err();
        assert_eq!(error.class, ErrorClass::InvalidRequest);
        assert!(error.message.contains("`prompt = \"stdin\"`"), "{error}");
        // It is the whole argument that counts, not the prompt alone.
        assert!(by_arg(&["p={prompt}"], &vec![b'x'; ARGUMENT_MAX - 2]).is_err());
    }

    #[test]
    fn no_argument_carries_nul() {
        let error = by_arg(&[], b"ab\0c").unwrap_err();
        assert_eq!(error.class, ErrorClass::InvalidRequest);
        assert!(error.message.contains("offset 2"), "{error}");
    }

    #[test]
    fn the_file_is_private_and_replaced_by_a_second_try() {
        let scratch = tempfile::tempdir().unwrap();
        for prompt in [&b"a long first prompt\0\xFF\r\n"[..], b"short"] {
            let call = deliver(
                PromptBy::File,
                &args(&["--in={prompt_file}"]),
                prompt.to_vec(),
                scratch.path(),
            )
            .unwrap();
            let path = scratch.path().join(FILE_NAME);
            assert_eq!(call.args, [OsString::from(format!("--in={}", path.display()))]);
            assert!(call.stdin.is_empty());
            assert_eq!(fs::read(&path).unwrap(), prompt);
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        }
    }

    #[test]
    fn a_folder_that_is_gone_is_named() {
        let gone = Path::new("/nonexistent/scratch");
        let error = deliver(PromptBy::File, &[], b"x".to_vec(), gone).unwrap_err();
        assert!(error.message.contains("/nonexistent/scratch/"), "{error}");
    }
}
