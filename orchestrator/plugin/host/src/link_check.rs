//! Finds missing dependencies of a library with the dynamic linker, without running any of its code.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use object::LittleEndian;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use ralph_orchestrator_supervisor::{CaptureLimit, Grace, Spec, Supervisor};

use crate::error::{LibraryError, LibraryErrorKind};
use crate::library_cache::PrivateCopy;

/// With these, glibc's dynamic linker lists what it would load and what is missing, without running any
/// code of the library, as `ldd -r` does.
const TRACE_VARIABLES: [(&str, &str); 3] =
    [("LD_TRACE_LOADED_OBJECTS", "1"), ("LD_WARN", "1"), ("LD_BIND_NOW", "1")];
/// Further folders to search.
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";
/// The time that the linker has.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The number of bytes read of a program to find its linker, which is named in its first page in
/// practice.
const HEAD_BYTES: u64 = 64 * 1024;
/// The number of missing dependencies that are listed.
const MAX_LISTED: usize = 20;

impl PrivateCopy {
    /// Checks that the dynamic linker finds all dependencies. `supervisor` starts the linker as a process.
    /// Only glibc's can do so without running code; with another linker, missing dependencies are reported
    /// only when the library is loaded.
    ///
    /// # Errors
    /// Libraries, versions and symbols that are missing.
    pub async fn check_dependencies(&self, supervisor: &Supervisor) -> Result<(), LibraryError> {
        let Some(linker) = linker() else { return Ok(()) };
        let path = std::env::var(LIBRARY_PATH).ok().map(|path| (LIBRARY_PATH.to_owned(), path));
        let trace = TRACE_VARIABLES.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let spec = Spec {
            program: linker,
            args: vec![self.path().into()],
            cwd: self.path().parent().unwrap_or(self.path()).to_owned(),
            env: trace.into_iter().chain(path).collect(),
            stdin: Vec::new(),
            grace: Grace::default(),
        };
        let timeout = tokio::time::sleep(TIMEOUT);
        let Ok(output) = supervisor.output(spec, CaptureLimit::default(), timeout).await else {
            return Ok(());
        };
        let missing = parse_missing(&output.stdout.text(), &output.stderr.text());
        if missing.is_empty() {
            return Ok(());
        }
        Err(LibraryError::new(self.path(), LibraryErrorKind::MissingDependencies { missing }))
    }
}

/// Returns the dynamic linker of this program, if it is glibc's.
fn linker() -> Option<PathBuf> {
    let mut head = Vec::new();
    File::open("/proc/self/exe").ok()?.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    let header = FileHeader64::<LittleEndian>::parse(&*head).ok()?;
    let endian = header.endian().ok()?;
    let headers = header.program_headers(endian, &*head).ok()?;
    let path = headers.iter().find_map(|one| one.interpreter(endian, &*head).ok().flatten())?;
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    let name = path.file_name()?.to_str()?;
    name.starts_with("ld-linux").then(|| path.to_owned())
}

/// Parses the linker's output. Lists each missing dependency once, libraries first.
fn parse_missing(stdout: &str, stderr: &str) -> Vec<String> {
    let libraries = stdout.lines().filter_map(|line| {
        let name = line.trim().strip_suffix("=> not found")?;
        Some(format!("the library `{}`", name.trim()))
    });
    let versions = stderr.lines().filter_map(|line| {
        let (_, wanted) = line.split_once("version `")?;
        let (version, _) = wanted.split_once("' not found")?;
        Some(format!("the version `{version}` of a library"))
    });
    let symbols = stderr.lines().filter_map(|line| {
        let (_, symbol) = line.split_once("undefined symbol: ")?;
        let name = symbol.split(['\t', ' ', ',']).next().unwrap_or(symbol);
        Some(format!("the symbol `{name}`"))
    });
    let mut all: Vec<String> = Vec::new();
    for one in libraries.chain(versions).chain(symbols) {
        if !all.contains(&one) {
            all.push(one);
        }
    }
    if all.len() > MAX_LISTED {
        let more = all.split_off(MAX_LISTED).len();
        all.push(format!("{more} more"));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_each_missing_dependency_once_and_bounded() {
        let stdout = "\tlinux-vdso.so.1 (0x7f)\n\tlibdep.so => not found\n\tlibc.so.6 => /lib/libc.so.6 (0x7f)\n";
        let stderr = "./x.so: /lib/libc.so.6: version `GLIBC_2.99' not found (required by ./x.so)\n\
                      undefined symbol: g\t(./x.so)\nundefined symbol: g\t(./x.so)\n\
                      undefined symbol: h, version V\t(./x.so)\n";
        assert_eq!(
            parse_missing(stdout, stderr),
            [
                "the library `libdep.so`",
                "the version `GLIBC_2.99` of a library",
                "the symbol `g`",
                "the symbol `h`"
            ]
        );
        let many: String = (0..100).map(|n| format!("undefined symbol: s{n}\t(x)\n")).collect();
        let listed = parse_missing("", &many);
        assert_eq!((listed.len(), listed.last().unwrap().as_str()), (MAX_LISTED + 1, "80 more"));
    }

    #[test]
    #[cfg(target_env = "gnu")]
    fn finds_the_linker_of_this_program() {
        assert!(linker().unwrap().exists(), "{:?}", linker());
    }
}
