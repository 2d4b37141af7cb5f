//! Asks the dynamic linker what a library needs and nobody has, without any code of it being run.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use object::LittleEndian;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use ralph_orchestrator_supervisor::{CaptureLimit, Grace, Spec, Supervisor};

use crate::copy::PrivateCopy;
use crate::error::{LibraryError, Refusal};

/// With these, glibc's dynamic linker says what it would load and what is missing, and neither maps the
/// library's code to be run nor calls its constructors. This is what `ldd -r` does.
const ONLY_SAY: [(&str, &str); 3] =
    [("LD_TRACE_LOADED_OBJECTS", "1"), ("LD_WARN", "1"), ("LD_BIND_NOW", "1")];
/// Where else libraries are looked for.
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";
/// How long it may take.
const WITHIN: Duration = Duration::from_secs(10);
/// So much of a program is read to find its linker, which its first page says in practice.
const BEGINNING: u64 = 64 * 1024;
/// So many things that are missing are named.
const NAMED: usize = 20;

impl PrivateCopy {
    /// Whether the dynamic linker finds everything that the library needs. It is asked as a process of
    /// its own, started by `supervisor`. Only glibc's can be asked without running anything; where
    /// there is another one, or none answers, what is missing shows only when the library is loaded.
    ///
    /// # Errors
    /// Libraries, versions and symbols that are missing.
    pub async fn linkable(&self, supervisor: &Supervisor) -> Result<(), LibraryError> {
        let Some(linker) = linker() else { return Ok(()) };
        let path = std::env::var(LIBRARY_PATH).ok().map(|path| (LIBRARY_PATH.to_owned(), path));
        let only_say = ONLY_SAY.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let spec = Spec {
            program: linker,
            args: vec![self.path().into()],
            cwd: self.path().parent().unwrap_or(self.path()).to_owned(),
            env: only_say.into_iter().chain(path).collect(),
            stdin: Vec::new(),
            grace: Grace::default(),
        };
        let late = tokio::time::sleep(WITHIN);
        let Ok(output) = supervisor.output(spec, CaptureLimit::default(), late).await else {
            return Ok(());
        };
        let missing = missing(&output.stdout.text(), &output.stderr.text());
        if missing.is_empty() {
            return Ok(());
        }
        Err(LibraryError::new(self.path(), Refusal::Needs { missing }))
    }
}

/// The dynamic linker of this program, if it is glibc's.
fn linker() -> Option<PathBuf> {
    let mut beginning = Vec::new();
    File::open("/proc/self/exe").ok()?.take(BEGINNING).read_to_end(&mut beginning).ok()?;
    let header = FileHeader64::<LittleEndian>::parse(&*beginning).ok()?;
    let endian = header.endian().ok()?;
    let headers = header.program_headers(endian, &*beginning).ok()?;
    let path =
        headers.iter().find_map(|one| one.interpreter(endian, &*beginning).ok().flatten())?;
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    let name = path.file_name()?.to_str()?;
    name.starts_with("ld-linux").then(|| path.to_owned())
}

/// What is missing, each thing once, libraries first.
fn missing(stdout: &str, stderr: &str) -> Vec<String> {
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
    if all.len() > NAMED {
        let more = all.split_off(NAMED).len();
        all.push(format!("{more} more"));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_linker_says_is_told_once_each_and_bounded() {
        let stdout = "\tlinux-vdso.so.1 (0x7f)\n\tlibdep.so => not found\n\tlibc.so.6 => /lib/libc.so.6 (0x7f)\n";
        let stderr = "./x.so: /lib/libc.so.6: version `GLIBC_2.99' not found (required by ./x.so)\n\
                      undefined symbol: g\t(./x.so)\nundefined symbol: g\t(./x.so)\n\
                      undefined symbol: h, version V\t(./x.so)\n";
        assert_eq!(
            missing(stdout, stderr),
            [
                "the library `libdep.so`",
                "the version `GLIBC_2.99` of a library",
                "the symbol `g`",
                "the symbol `h`"
            ]
        );
        let many: String = (0..100).map(|n| format!("undefined symbol: s{n}\t(x)\n")).collect();
        let told = missing("", &many);
        assert_eq!((told.len(), told.last().unwrap().as_str()), (NAMED + 1, "80 more"));
    }

    #[test]
    #[cfg(target_env = "gnu")]
    fn this_program_has_a_linker_that_is_there() {
        assert!(linker().unwrap().exists(), "{:?}", linker());
    }
}
