//! Packages that the machine provides, so that a task need not install them.

use std::fmt;
use std::io;
use std::str::FromStr;

/// What installs a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PackageManager {
    /// pip, of Python.
    Pip,
    /// apt, of Debian and Ubuntu.
    Apt,
    /// apk, of Alpine.
    Apk,
    /// npm, with `--global`.
    Npm,
}

impl PackageManager {
    const ALL: [(Self, &str); 4] =
        [(Self::Pip, "pip"), (Self::Apt, "apt"), (Self::Apk, "apk"), (Self::Npm, "npm")];

    /// Returns the name that begins a [`Package`].
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(manager, _)| *manager == self).map_or("", |(_, name)| *name)
    }
}

/// A package, written `pip:pytest` or `pip:pytest==8.4.1`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Package {
    /// What installs it.
    pub manager: PackageManager,
    /// Its name, in the manager's normal form.
    pub name: String,
    /// What follows the name: a version, or a condition on it.
    pub version: Option<String>,
}

impl Package {
    /// Returns the package of a requirement as the manager takes it, such as `pytest[x]==8.4.1`, `bats=1.8`,
    /// `@scope/name@2`. None if it names no package but a file, an address or an option.
    #[must_use]
    pub fn from_requirement(manager: PackageManager, requirement: &str) -> Option<Self> {
        let (name, version) = match manager {
            PackageManager::Pip => split_pip(requirement)?,
            PackageManager::Apt => split_at_any(requirement, &['=', '/'])?,
            PackageManager::Apk => split_at_any(requirement, &['=', '<', '>', '~', '@'])?,
            PackageManager::Npm => split_npm(requirement)?,
        };
        let is_inner = |c: char| c.is_ascii_alphanumeric() || "._+-:@/".contains(c);
        let begins =
            |c: char| c.is_ascii_alphanumeric() || (c == '@' && manager == PackageManager::Npm);
        let is_name = name.starts_with(begins) && name.chars().all(is_inner);
        let is_path = name.contains('/') && !name.starts_with('@');
        let is_version = !version.contains(char::is_whitespace) && !version.contains("://");
        (is_name && is_version && !is_path && !is_file(requirement)).then(|| Self {
            manager,
            name,
            version: (!version.is_empty()).then_some(version),
        })
    }

    /// Whether this package, as the machine provides it, is what a task wants to install. Without a version it is so
    /// for every version.
    #[must_use]
    pub fn covers(&self, wanted: &Self) -> bool {
        self.manager == wanted.manager
            && self.name == wanted.name
            && (self.version.is_none() || self.version == wanted.version)
    }
}

/// Whether a requirement names a file that is installed.
fn is_file(name: &str) -> bool {
    [".whl", ".deb", ".apk", ".tgz", ".tar.gz", ".zip"].iter().any(|end| name.ends_with(end))
}

fn split_pip(requirement: &str) -> Option<(String, String)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let end = requirement.find(|c| !is_name(c)).unwrap_or(requirement.len());
    let (name, rest) = requirement.split_at(end);
    let version = match rest.strip_prefix('[') {
        Some(extras) => extras.split_once(']')?.1,
        None => rest,
    };
    let is_version = version.is_empty() || version.starts_with(['=', '<', '>', '~', '!']);
    let mut normal = String::new();
    for c in name.chars() {
        match c {
            '.' | '_' | '-' if normal.ends_with('-') => {}
            '.' | '_' => normal.push('-'),
            c => normal.push(c.to_ascii_lowercase()),
        }
    }
    is_version.then(|| (normal, version.to_owned()))
}

fn split_at_any(requirement: &str, marks: &[char]) -> Option<(String, String)> {
    if requirement.starts_with(['.', '/']) {
        return None;
    }
    let (name, rest) = requirement.split_at(requirement.find(marks).unwrap_or(requirement.len()));
    Some((name.to_owned(), rest.to_owned()))
}

fn split_npm(requirement: &str) -> Option<(String, String)> {
    let from = usize::from(requirement.starts_with('@'));
    let at = requirement.get(from..)?.find('@').map_or(requirement.len(), |at| at + from);
    let (name, version) = requirement.split_at(at);
    Some((name.to_owned(), version.trim_start_matches('@').to_owned()))
}

impl fmt::Display for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.manager.name(), self.name)?;
        match (&self.version, self.manager) {
            (Some(version), PackageManager::Npm) => write!(f, "@{version}"),
            (Some(version), _) => f.write_str(version),
            (None, _) => Ok(()),
        }
    }
}

/// An entry of `provided` names no package.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no package: write \"pip:NAME\", \"apt:NAME\", \"apk:NAME\" or \"npm:NAME\"")]
pub struct PackageError(pub String);

impl FromStr for Package {
    type Err = PackageError;

    fn from_str(text: &str) -> Result<Self, PackageError> {
        let error = || PackageError(text.to_owned());
        let (manager, requirement) = text.split_once(':').ok_or_else(error)?;
        let found = PackageManager::ALL.iter().find(|(_, name)| *name == manager);
        let (manager, _) = found.ok_or_else(error)?;
        Self::from_requirement(*manager, requirement).ok_or_else(error)
    }
}

/// What a program printed, and whether it exited with 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramOutput {
    /// It exited with 0.
    pub is_success: bool,
    /// Its standard output.
    pub stdout: String,
}

/// A package that should be on the machine is not there.
#[derive(Debug, thiserror::Error)]
pub enum ProvidedError {
    /// It is not installed.
    #[error("{package} is not installed: `{install}` installs it")]
    Missing {
        /// The package.
        package: Package,
        /// The command that installs it.
        install: String,
    },
    /// It has another version.
    #[error("{package} is provided in version {found}: `{install}` installs the other one")]
    OtherVersion {
        /// The package.
        package: Package,
        /// The version that is installed.
        found: String,
        /// The command that installs the other version.
        install: String,
    },
    /// The program that knows cannot be started.
    #[error("{package} cannot be looked for, since `{program}` cannot be started: {source}")]
    Unknown {
        /// The package.
        package: Package,
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
}

const PYTHON: &str =
    "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))";

/// Looks for a package on the machine, and returns its version if that is known. `run` starts a program with
/// arguments and waits for its end.
///
/// # Errors
/// Returns an error if the package is missing, has another version than the entry names, or cannot be looked for.
pub fn find_provided(
    package: &Package,
    run: &mut dyn FnMut(&[&str]) -> io::Result<ProgramOutput>,
) -> Result<Option<String>, ProvidedError> {
    let name = package.name.as_str();
    let query: Vec<&str> = match package.manager {
        PackageManager::Pip => vec!["python3", "-c", PYTHON, name],
        PackageManager::Apt => vec!["dpkg-query", "-W", "-f=${db:Status-Abbrev} ${Version}", name],
        PackageManager::Apk => vec!["apk", "info", "-e", name],
        PackageManager::Npm => {
            vec!["npm", "ls", "--global", "--depth=0", "--parseable", "--long", name]
        }
    };
    let output = run(&query).map_err(|source| ProvidedError::Unknown {
        package: package.clone(),
        program: query.first().copied().unwrap_or_default().to_owned(),
        source,
    })?;
    let install = install_command(package);
    let stdout = output.stdout.trim();
    let version = match package.manager {
        PackageManager::Pip => Some(stdout),
        // "ii" is wanted and installed; a package that was removed may still be known.
        PackageManager::Apt => stdout.strip_prefix("ii").map(str::trim),
        PackageManager::Apk => Some(""),
        PackageManager::Npm => Some(stdout.rsplit('@').next().unwrap_or_default()),
    };
    let Some(version) = version.filter(|_| output.is_success && !stdout.is_empty()) else {
        return Err(ProvidedError::Missing { package: package.clone(), install });
    };
    let exact = package.version.as_deref().map(|wanted| wanted.trim_start_matches(['=', '@']));
    if exact.is_some_and(|exact| !version.is_empty() && exact != version) {
        let found = version.to_owned();
        return Err(ProvidedError::OtherVersion { package: package.clone(), found, install });
    }
    Ok((!version.is_empty()).then(|| version.to_owned()))
}

/// Returns the command that installs a package.
#[must_use]
pub fn install_command(package: &Package) -> String {
    let name = &package.name;
    let version = package.version.as_deref().unwrap_or_default();
    match package.manager {
        PackageManager::Pip => format!("python3 -m pip install '{name}{version}'"),
        PackageManager::Apt => format!("apt-get install {name}{version}"),
        PackageManager::Apk => format!("apk add {name}{version}"),
        PackageManager::Npm if version.is_empty() => format!("npm install --global {name}"),
        PackageManager::Npm => format!("npm install --global {name}@{version}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(text: &str) -> Package {
        text.parse().unwrap()
    }

    #[test]
    fn reads_names_and_versions() {
        for (text, written) in [
            ("pip:pytest", "pip:pytest"),
            ("pip:Py_Test.x[a,b]>=1,<2", "pip:py-test-x>=1,<2"),
            ("apt:libc6:amd64=2.1", "apt:libc6:amd64=2.1"),
            ("apt:bats/stable", "apt:bats/stable"),
            ("apk:bash~5", "apk:bash~5"),
            ("npm:@a/b@1.2", "npm:@a/b@1.2"),
            ("npm:jest", "npm:jest"),
        ] {
            assert_eq!(package(text).to_string(), written);
            assert_eq!(package(written), package(text));
        }
        for text in [
            "pytest",
            "pip:",
            "pip:.",
            "pip:./x",
            "pip:/x",
            "pip:git+https://h/x",
            "pip:x @ https://h/x",
            "pip:a b",
            "apt:./x.deb",
            "apt:x.deb",
            "gem:x",
            "npm:./x",
            "npm:https://h/x",
            "pip:-r",
            "pip:x.whl",
            "pip:x==https://h",
        ] {
            assert_eq!(text.parse::<Package>(), Err(PackageError(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn an_entry_covers_its_version_or_all() {
        let covers = |entry: &str, wanted: &str| package(entry).covers(&package(wanted));
        assert!(covers("pip:pytest", "pip:PyTest==8"));
        assert!(covers("pip:pytest==8", "pip:pytest==8"));
        assert!(!covers("pip:pytest==8", "pip:pytest==7"));
        assert!(!covers("pip:pytest==8", "pip:pytest"));
        assert!(!covers("pip:pytest", "apt:pytest"));
        assert!(!covers("pip:pytest", "pip:pytest-cov"));
    }

    #[test]
    fn looks_for_packages_with_the_programs_that_know() {
        let mut asked = Vec::new();
        let mut answer = |text: &str, is_success, stdout: &str| {
            let found = find_provided(&package(text), &mut |program| {
                asked.push(program.join(" "));
                Ok(ProgramOutput { is_success, stdout: stdout.to_owned() })
            });
            found.map_err(|error| error.to_string())
        };
        assert_eq!(answer("pip:pytest", true, "8.1\n"), Ok(Some("8.1".to_owned())));
        assert_eq!(answer("apt:bats", true, "ii  1.8"), Ok(Some("1.8".to_owned())));
        assert_eq!(answer("apk:bash", true, "bash\n"), Ok(None));
        assert_eq!(answer("npm:jest", true, "/l/jest:jest@29.1\n"), Ok(Some("29.1".to_owned())));
        let removed = answer("apt:bats", true, "rc  1.8").unwrap_err();
        assert_eq!(removed, "apt:bats is not installed: `apt-get install bats` installs it");
        let other = answer("pip:pytest==9", true, "8.1\n").unwrap_err();
        assert!(other.contains("in version 8.1: `python3 -m pip install 'pytest==9'`"), "{other}");
        assert!(answer("pip:pytest", false, "8.1").is_err());
        assert!(answer("pip:pytest", true, "").is_err());
        assert_eq!(asked[1], "dpkg-query -W -f=${db:Status-Abbrev} ${Version} bats");
        let failed = find_provided(&package("pip:x"), &mut |_| Err(io::ErrorKind::NotFound.into()));
        assert!(failed.unwrap_err().to_string().contains("`python3` cannot be started"));
    }
}
