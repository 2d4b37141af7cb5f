//! A stage of a build, as far as it was read.

use super::super::settings::User;
use super::FileAction;
use super::words::Variables;

/// The search path of an image that sets none, as a container engine has it.
const IMAGE_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Returns what an official image sets; of `PATH` what it puts before the usual one.
fn list_image_variables(image: &str) -> &'static [(&'static str, &'static str)] {
    let name = image.rsplit('/').next().unwrap_or_default();
    match name.split(['@', ':']).next().unwrap_or_default() {
        "golang" => &[("GOPATH", "/go"), ("PATH", "/go/bin:/usr/local/go/bin")],
        "python" => &[("LANG", "C.UTF-8")],
        "ruby" => &[
            ("GEM_HOME", "/usr/local/bundle"),
            ("LANG", "C.UTF-8"),
            ("PATH", "/usr/local/bundle/bin"),
        ],
        "rust" => &[
            ("CARGO_HOME", "/usr/local/cargo"),
            ("PATH", "/usr/local/cargo/bin"),
            ("RUSTUP_HOME", "/usr/local/rustup"),
        ],
        _ => &[],
    }
}

/// What a stage of a build has come to.
#[derive(Clone, Default)]
pub(super) struct Stage {
    pub(super) name: Option<String>,
    pub(super) image: Option<String>,
    pub(super) workdir: Option<String>,
    /// Variables of ENV and ARG.
    pub(super) env: Variables,
    /// Those of ARG alone, which processes do not get.
    pub(super) args: Vec<String>,
    pub(super) user: Option<User>,
    pub(super) shell: Option<Vec<String>>,
    pub(super) actions: Vec<FileAction>,
    pub(super) unsupported: Vec<(usize, String)>,
}

impl Stage {
    /// Returns the folder that the next instruction works in.
    pub(super) fn workdir(&self) -> &str {
        self.workdir.as_deref().unwrap_or("/")
    }

    /// Returns the variables that an instruction can name: those of the lines before it, those that every image has, and those
    /// of known ones. Processes do not get the latter: they say where programs of the image are.
    pub(super) fn variables(&self) -> Variables {
        let image = list_image_variables(self.image.as_deref().unwrap_or_default());
        let path = image
            .iter()
            .find(|(name, _)| *name == "PATH")
            .map(|(_, first)| format!("{first}:{IMAGE_PATH}"));
        let mut all: Variables =
            image.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        all.insert("PATH".to_owned(), path.unwrap_or_else(|| IMAGE_PATH.to_owned()));
        all.extend(self.env.clone());
        all
    }

    /// Sets a variable of an ARG line, unless ENV has set it: that counts more.
    pub(super) fn set_argument(&mut self, name: String, value: String) {
        let is_argument = self.args.contains(&name);
        if self.env.contains_key(&name) && !is_argument {
            return;
        }
        self.env.insert(name.clone(), value);
        if !is_argument {
            self.args.push(name);
        }
    }

    /// Returns the variables that processes get.
    pub(super) fn process_env(&self) -> Variables {
        let is_kept = |(name, _): &(&String, &String)| !self.args.contains(name);
        let kept = self.env.iter().filter(is_kept);
        kept.map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}
