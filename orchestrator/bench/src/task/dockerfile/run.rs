//! What the commands of a RUN line do, as far as that can be told without running them.

use super::super::provided::{Package, PackageManager};

/// What a command does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RunEffect {
    /// Installs a package.
    Install(Package),
    /// Creates a folder, and those above it.
    Folder {
        /// The folder, as it is written.
        path: String,
        /// Its mode.
        mode: Option<u32>,
    },
    /// Sets permissions.
    Mode {
        /// The file or folder, as it is written.
        path: String,
        /// What becomes of its mode.
        change: ModeChange,
        /// Everything below it too.
        is_recursive: bool,
    },
}

/// What becomes of a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModeChange {
    /// It is set.
    Set(u32),
    /// These bits are added.
    Add(u32),
}

impl ModeChange {
    /// Returns the mode after the change.
    pub(crate) const fn apply(self, mode: u32) -> u32 {
        match self {
            Self::Set(new) => new,
            Self::Add(bits) => mode | bits,
        }
    }
}

/// Where commands leave nothing that a task could need.
const CACHES: [&str; 5] =
    ["/var/lib/apt/lists", "/var/cache/apt", "/var/cache/apk", "/root/.cache", "/root/.npm"];

/// Returns what a command does.
///
/// # Errors
/// Returns why that cannot be told.
pub(super) fn interpret_command(words: &[String]) -> Result<Vec<RunEffect>, String> {
    let is_assignment = |word: &&String| {
        word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        })
    };
    let words: Vec<&str> = words.iter().skip_while(is_assignment).map(String::as_str).collect();
    match words.as_slice() {
        [] | ["true" | ":" | "set" | "echo", ..] => Ok(Vec::new()),
        ["apt-get" | "apt", rest @ ..] => interpret_apt(rest),
        ["apk", rest @ ..] => interpret_apk(rest),
        ["python" | "python3", "-m", "pip", rest @ ..] | ["pip" | "pip3", rest @ ..] => {
            interpret_pip(rest)
        }
        ["uv", "pip", rest @ ..] => interpret_pip(rest),
        ["npm", rest @ ..] => interpret_npm(rest),
        ["mkdir", rest @ ..] => interpret_mkdir(rest),
        ["chmod", rest @ ..] => interpret_chmod(rest),
        ["rm", rest @ ..] if rest.iter().all(|word| word.starts_with('-') || is_cache(word)) => {
            Ok(Vec::new())
        }
        [program, ..] => Err(format!("`{program}` is not interpreted")),
    }
}

fn is_cache(path: &str) -> bool {
    let is_below = |cache: &&str| {
        path.strip_prefix(*cache).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    CACHES.iter().any(is_below) && !path.split('/').any(|part| part == "..")
}

/// Splits off options; `valued` are those that take the next word too.
fn split_options<'w>(
    words: &[&'w str],
    valued: &[&str],
) -> Result<(Vec<&'w str>, Vec<&'w str>), String> {
    let (mut options, mut rest) = (Vec::new(), Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if !word.starts_with('-') {
            rest.push(*word);
            continue;
        }
        options.push(*word);
        if valued.contains(word) && words.next().is_none() {
            return Err(format!("`{word}` lacks its value"));
        }
    }
    Ok((options, rest))
}

fn to_packages(manager: PackageManager, names: &[&str]) -> Result<Vec<RunEffect>, String> {
    let to_package = |name: &&str| {
        let package = Package::from_requirement(manager, name);
        package
            .map(RunEffect::Install)
            .ok_or_else(|| format!("`{name}` is not the name of a package"))
    };
    names.iter().map(to_package).collect()
}

fn interpret_apt(words: &[&str]) -> Result<Vec<RunEffect>, String> {
    let (_, rest) = split_options(words, &["-o", "-t", "-c", "--option"])?;
    match rest.as_slice() {
        ["update" | "clean" | "autoclean" | "autoremove"] => Ok(Vec::new()),
        ["install", names @ ..] => to_packages(PackageManager::Apt, names),
        other => Err(format!("`apt-get {}` is not interpreted", other.join(" "))),
    }
}

fn interpret_apk(words: &[&str]) -> Result<Vec<RunEffect>, String> {
    let (options, rest) = split_options(words, &["-X", "--repository"])?;
    match rest.as_slice() {
        ["update"] => Ok(Vec::new()),
        ["add", names @ ..]
            if !options.iter().any(|o| o.starts_with("--virtual") || *o == "-t") =>
        {
            to_packages(PackageManager::Apk, names)
        }
        other => Err(format!("`apk {}` is not interpreted", other.join(" "))),
    }
}

fn interpret_pip(words: &[&str]) -> Result<Vec<RunEffect>, String> {
    let valued = [
        "-i",
        "--index-url",
        "--extra-index-url",
        "--timeout",
        "--retries",
        "--trusted-host",
        "--root-user-action",
    ];
    let (options, rest) = split_options(words, &valued)?;
    let names_a_file = |option: &&&str| {
        let starts =
            ["-r", "--requirement", "-e", "--editable", "-c", "--constraint", "-t", "--target"];
        starts.iter().any(|start| option.starts_with(start))
    };
    if let Some(option) = options.iter().find(names_a_file) {
        return Err(format!("what `pip install {option}` installs cannot be told"));
    }
    match rest.as_slice() {
        ["install", names @ ..] if !names.is_empty() => to_packages(PackageManager::Pip, names),
        other => Err(format!("`pip {}` is not interpreted", other.join(" "))),
    }
}

fn interpret_npm(words: &[&str]) -> Result<Vec<RunEffect>, String> {
    let (options, rest) = split_options(words, &["--registry"])?;
    let is_global = options.iter().any(|option| matches!(*option, "-g" | "--global"));
    match rest.as_slice() {
        ["install" | "i" | "add", names @ ..] if is_global && !names.is_empty() => {
            to_packages(PackageManager::Npm, names)
        }
        other => Err(format!("`npm {}` without --global is not interpreted", other.join(" "))),
    }
}

fn interpret_mkdir(words: &[&str]) -> Result<Vec<RunEffect>, String> {
    let mut mode = None;
    let mut folders = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "-p" | "--parents" | "-v" | "-pv" | "-vp" => {}
            "-m" => mode = Some(parse_octal(words.next().copied().unwrap_or_default())?),
            path => folders.push(plain_path(path)?),
        }
    }
    Ok(folders.into_iter().map(|path| RunEffect::Folder { path, mode }).collect())
}

fn interpret_chmod(words: &[&str]) -> Result<Vec<RunEffect>, String> {
    let is_option = |word: &str| matches!(word, "-R" | "--recursive" | "-v" | "-f");
    let is_recursive = words.iter().any(|word| matches!(*word, "-R" | "--recursive"));
    let rest: Vec<&str> = words.iter().copied().filter(|word| !is_option(word)).collect();
    let [mode, paths @ ..] = rest.as_slice() else {
        return Err("`chmod` lacks its mode".to_owned());
    };
    let change = parse_mode(mode)?;
    let to_effect = |path: &&str| {
        let path = plain_path(path)?;
        Ok(RunEffect::Mode { path, change, is_recursive })
    };
    paths.iter().map(to_effect).collect()
}

/// Returns the change that a mode such as `755`, `+x` or `u+rx` stands for.
fn parse_mode(mode: &str) -> Result<ModeChange, String> {
    if mode.starts_with(|c: char| c.is_ascii_digit()) {
        return parse_octal(mode).map(ModeChange::Set);
    }
    let error = || format!("the mode `{mode}` is not interpreted");
    let (who, bits) = mode.split_once('+').ok_or_else(error)?;
    let mut factor = if who.is_empty() { 0o111 } else { 0 };
    for c in who.chars() {
        factor |= match c {
            'u' => 0o100,
            'g' => 0o010,
            'o' => 0o001,
            'a' => 0o111,
            _ => return Err(error()),
        };
    }
    let mut added = 0;
    for c in bits.chars() {
        added |= match c {
            'r' => 4,
            'w' => 2,
            'x' => 1,
            _ => return Err(error()),
        };
    }
    Ok(ModeChange::Add(factor * added))
}

/// Returns an octal mode of permissions.
pub(super) fn parse_octal(mode: &str) -> Result<u32, String> {
    let parsed = u32::from_str_radix(mode, 8).ok().filter(|mode| *mode <= 0o7777);
    parsed.map(|mode| mode & 0o777).ok_or_else(|| format!("the mode `{mode}` is not interpreted"))
}

fn plain_path(path: &str) -> Result<String, String> {
    if path.starts_with(['-', '~']) || path.contains(['*', '?', '[']) {
        return Err(format!("`{path}` is more than the name of a file"));
    }
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interpret(text: &str) -> Result<Vec<RunEffect>, String> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        interpret_command(&words)
    }

    fn installs(text: &str) -> Vec<String> {
        let effects = interpret(text).unwrap();
        let name = |effect| match effect {
            RunEffect::Install(package) => Package::to_string(&package),
            other => panic!("{other:?}"),
        };
        effects.into_iter().map(name).collect()
    }

    #[test]
    fn tells_what_is_installed() {
        for (text, expected) in [
            ("pip install pytest", vec!["pip:pytest"]),
            ("pip3 install --no-cache-dir -q a b==1", vec!["pip:a", "pip:b==1"]),
            ("python3 -m pip install -U --index-url https://h/x a", vec!["pip:a"]),
            ("uv pip install --system a", vec!["pip:a"]),
            ("apt-get update", vec![]),
            (
                "DEBIAN_FRONTEND=noninteractive apt-get install -y -o a=b bats jq=1",
                vec!["apt:bats", "apt:jq=1"],
            ),
            ("apt-get -qq install --no-install-recommends bats", vec!["apt:bats"]),
            ("apk add --no-cache bash", vec!["apk:bash"]),
            ("npm install -g jest@29 @a/b", vec!["npm:jest@29", "npm:@a/b"]),
            ("rm -rf /var/lib/apt/lists/* /root/.cache", vec![]),
            ("set -eux", vec![]),
            ("X=1", vec![]),
        ] {
            assert_eq!(installs(text), expected, "{text}");
        }
    }

    #[test]
    fn tells_folders_and_modes() {
        let folder = |path: &str, mode| RunEffect::Folder { path: path.to_owned(), mode };
        assert_eq!(interpret("mkdir -p /a b"), Ok(vec![folder("/a", None), folder("b", None)]));
        assert_eq!(interpret("mkdir -m 700 /a"), Ok(vec![folder("/a", Some(0o700))]));
        for (mode, change, before, after) in [
            ("755", ModeChange::Set(0o755), 0o600, 0o755),
            ("+x", ModeChange::Add(0o111), 0o640, 0o751),
            ("u+rwx", ModeChange::Add(0o700), 0o011, 0o711),
            ("go+w", ModeChange::Add(0o022), 0o600, 0o622),
        ] {
            let path = "f".to_owned();
            let effect = RunEffect::Mode { path, change, is_recursive: true };
            assert_eq!(interpret(&format!("chmod -R {mode} f")), Ok(vec![effect]), "{mode}");
            assert_eq!(change.apply(before), after);
        }
    }

    #[test]
    fn does_not_guess() {
        for text in [
            "pip install -r requirements.txt",
            "pip install --requirement=x",
            "pip install -e .",
            "pip install .",
            "pip install ./x",
            "pip uninstall x",
            "pip",
            "pip install",
            "pip install git+https://h/x",
            "apt-get upgrade -y",
            "apt-get install ./x.deb",
            "apk add --virtual x y",
            "apk del x",
            "npm install jest",
            "npm install -g",
            "npm ci",
            "rm -rf /",
            "rm -rf /app",
            "rm -rf /var/lib/apt/lists/../../../../etc",
            "rm /root/.cachet",
            "mkdir /a/*",
            "mkdir ~/a",
            "chmod u-x f",
            "chmod 99 f",
            "chmod",
            "chmod +x *.sh",
            "curl https://h",
            "git clone x",
            "useradd x",
            "bash -c x",
            "/bin/pip install x",
        ] {
            assert!(interpret(text).is_err(), "{text}");
        }
    }
}
