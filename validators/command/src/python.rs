//! Where Python would find modules before its own, and before what it is to run.

use std::path::{Path, PathBuf};

use crate::invocation::Invocation;
use crate::program_name::{bare, commands};
use crate::script;

/// The top-level modules of the standard library of Python 3.10 to 3.14 (`sys.stdlib_module_names`) that are
/// not always built in, and those that they look for and do without. Any of them may be loaded by a test
/// or by what runs it, after the folder of the tests is searched.
const STANDARD: &str = "\
    __future__ _aix_support _android_support _apple_support _ast_unparse _asyncio _bisect _blake2 \
    _bootlocale _bootsubprocess _bz2 _codecs_cn _codecs_hk _codecs_iso2022 _codecs_jp _codecs_kr \
    _codecs_tw _collections_abc _colorize _compat_pickle _compression _contextvars _crypt _csv \
    _ctypes _curses _curses_panel _datetime _dbm _decimal _elementtree _gdbm _hashlib _heapq _hmac \
    _interpchannels _interpqueues _interpreters _ios_support _json _lsprof _lzma _markupbase _md5 \
    _msi _multibytecodec _multiprocessing _opcode _opcode_metadata _osx_support _overlapped _pickle \
    _posixshmem _posixsubprocess _py_abc _py_warnings _pydatetime _pydecimal _pyio _pylong _pyrepl \
    _queue _random _remote_debugging _scproxy _sha1 _sha2 _sha256 _sha3 _sha512 _sitebuiltins \
    _socket _sqlite3 _ssl _statistics _strptime _struct _suggestions _sysconfig _threading_local \
    _tkinter _tokenize _types _typing _uuid _weakrefset _winapi _winreg _wmi _zoneinfo _zstd abc \
    aifc annotationlib argparse array ast asynchat asyncio asyncore audioop base64 bdb binascii \
    bisect bz2 cProfile calendar cgi cgitb chunk cmath cmd code codecs codeop collections colorsys \
    compileall compression concurrent configparser contextlib contextvars copy copyreg crypt csv \
    ctypes curses dataclasses datetime dbm decimal difflib dis distutils doctest email encodings \
    ensurepip enum fcntl filecmp fileinput fnmatch fractions ftplib functools genericpath getopt \
    getpass gettext glob graphlib grp gzip hashlib heapq hmac html http idlelib imaplib imghdr imp \
    importlib inspect io ipaddress java json keyword lib2to3 linecache locale logging lzma mailbox \
    mailcap math mimetypes mmap modulefinder msilib msvcrt multiprocessing netrc nis nntplib nt \
    ntpath nturl2path numbers opcode operator optparse org os ossaudiodev pathlib pdb pickle \
    pickletools pipes pkgutil platform plistlib poplib posixpath pprint profile pstats pty \
    py_compile pyclbr pydoc pydoc_data pyexpat queue quopri random re readline reprlib resource \
    rlcompleter runpy sched secrets select selectors shelve shlex shutil signal site sitecustomize \
    smtpd smtplib sndhdr socket socketserver spwd sqlite3 sre_compile sre_constants sre_parse ssl \
    stat statistics string stringprep struct subprocess sunau symtable sysconfig syslog tabnanny \
    tarfile telnetlib tempfile termios textwrap threading timeit tkinter token tokenize tomllib \
    trace traceback tracemalloc tty turtle turtledemo types typing unicodedata unittest urllib \
    usercustomize uu uuid venv vms_lib warnings wave weakref webbrowser winreg winsound wsgiref \
    xdrlib xml xmlrpc zipapp zipfile zlib zoneinfo";
/// What pytest is made of beyond, and what that looks for.
const PYTEST: [&str; 17] = [
    "_pytest",
    "attr",
    "attrs",
    "backports",
    "colorama",
    "exceptiongroup",
    "importlib_metadata",
    "iniconfig",
    "packaging",
    "pluggy",
    "py",
    "pygments",
    "six",
    "toml",
    "tomli",
    "typing_extensions",
    "zipp",
];
/// Versions of Python 3 whose names of compiled modules are reserved.
const VERSIONS: std::ops::RangeInclusive<u8> = 8..=16;

/// What Python would take for its own, or for what it is to run: paths relative to the workspace.
pub(crate) fn paths(invocation: &Invocation) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for command in commands(&invocation.words) {
        let (folders, module) = searched(command, invocation);
        let top = module.map(|module| module.split('.').next().unwrap_or(module));
        for folder in folders {
            paths.extend(top.into_iter().flat_map(|top| list_run_module_paths(&folder, top)));
            let more: &[&str] = if top == Some("pytest") { &PYTEST } else { &[] };
            let names = STANDARD.split(' ').chain(more.iter().copied());
            paths.extend(names.flat_map(|name| sources(&folder, name)));
        }
    }
    paths
}

/// Folders in which Python would find the plug-ins of pytest, relative to the workspace.
pub(crate) fn plugin_folders(invocation: &Invocation) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for command in commands(&invocation.words) {
        let is_pytest =
            command.first().is_some_and(|program| matches!(bare(program), "pytest" | "py.test"));
        match searched(command, invocation) {
            (searched, Some("pytest")) => folders.extend(searched),
            _ if is_pytest => folders.extend(invocation.python_path.iter().cloned()),
            _ => {}
        }
    }
    folders
}

/// Returns the folders that a command has Python search before its own, as the command writes them from the workspace
/// on, and the module that it runs, if one.
fn searched<'a>(command: &'a [String], invocation: &Invocation) -> (Vec<PathBuf>, Option<&'a str>) {
    if !command.first().is_some_and(|program| is_python(bare(program))) {
        return (Vec::new(), None);
    }
    let mut folders = invocation.python_path.clone();
    let module = module_of(command);
    match module {
        Some(module) => {
            folders.push(invocation.folder.clone());
            if module == "unittest" {
                folders.extend(discovered(command).map(|folder| invocation.folder.join(folder)));
            }
        }
        None => {
            // The folder of a script is searched in the same way.
            let script = script::find(command).and_then(|index| command.get(index));
            let beside = script.map(|script| Path::new(script).parent().unwrap_or(Path::new("")));
            folders.extend(beside.map(|beside| invocation.folder.join(beside)));
        }
    }
    (folders, module)
}

/// The folders that `unittest discover` searches, as far as its options tell.
fn discovered(command: &[String]) -> impl Iterator<Item = &str> {
    let is_option =
        |word: &str| matches!(word, "-s" | "-t" | "--start-directory" | "--top-level-directory");
    let pairs = command.iter().zip(command.iter().skip(1));
    pairs.filter_map(move |(option, folder)| {
        let is_folder = is_option(option) && folder != ".";
        is_folder.then_some(folder.as_str())
    })
}

/// Where Python looks for the module that it is to run.
fn list_run_module_paths(folder: &Path, name: &str) -> Vec<PathBuf> {
    let machine = std::env::consts::ARCH;
    let mut paths = vec![folder.join(name)];
    paths.extend(["py", "pyc", "so", "abi3.so"].map(|end| folder.join(format!("{name}.{end}"))));
    paths.extend(
        VERSIONS
            .map(|minor| folder.join(format!("{name}.cpython-3{minor}-{machine}-linux-gnu.so"))),
    );
    paths
}

/// Where the code of a module may lie. A folder without any is none that hides one of Python's own.
fn sources(folder: &Path, name: &str) -> [PathBuf; 4] {
    [
        folder.join(format!("{name}.py")),
        folder.join(format!("{name}.pyc")),
        folder.join(format!("{name}/__init__.py")),
        folder.join(format!("{name}/__init__.pyc")),
    ]
}

/// The module that the command has Python run, such as `pytest` of `python3 -m pytest`.
pub(crate) fn module(command: &[String]) -> Option<&str> {
    commands(command).find_map(module_of)
}

pub(crate) fn is_python(name: &str) -> bool {
    matches!(name, "python" | "pypy")
}

/// The same of a command that is Python's own.
pub(crate) fn module_of(command: &[String]) -> Option<&str> {
    let (program, words) = command.split_first()?;
    if !is_python(bare(program)) {
        return None;
    }
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let letters = word.strip_prefix('-').filter(|letters| !letters.starts_with('-'))?;
        match letters.split_once('m') {
            _ if matches!(letters, "W" | "X") => drop(words.next()),
            _ if letters.starts_with(['W', 'X']) => {}
            Some((_, "")) => return words.next(),
            Some((_, name)) => return Some(name),
            None if letters.contains('c') => return None,
            None => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_module_that_python_runs() {
        for (command, name) in [
            (&["python3", "-m", "pytest", "-q"][..], Some("pytest")),
            (&["/usr/bin/python3.12", "-Bm", "unittest"], Some("unittest")),
            (&["python", "-W", "error", "-X", "dev", "-munittest"], Some("unittest")),
            (&["python", "-Wmodule", "-m", "a.b"], Some("a.b")),
            (&["uv", "run", "--with", "x", "python", "-m", "pytest"], Some("pytest")),
            (&["python3", "manage.py", "-m", "x"], None),
            (&["python3", "-c", "import m", "-m", "x"], None),
            (&["make", "-m", "x"], None),
        ] {
            let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(module(&command), name, "{command:?}");
        }
    }

    /// What the Python of this system has, and what running tests has it look for in the workspace.
    #[test]
    #[allow(clippy::disallowed_methods)] // No process of an agent or a check.
    fn knows_the_modules_of_the_installed_python() {
        let script = "import sys\n\
            seen = set()\n\
            class Probe:\n    \
                def find_spec(self, name, path=None, target=None):\n        \
                    path is None and seen.add(name)\n\
            sys.meta_path.insert(2, Probe())\n\
            import unittest, unittest.main, runpy, copy, pickle, platform, subprocess, asyncio\n\
            known = set(getattr(sys, 'stdlib_module_names', ())) - set(sys.builtin_module_names)\n\
            print('\\n'.join(seen | known))\n";
        let output = std::process::Command::new("python3").args(["-c", script]).output().unwrap();
        let found = String::from_utf8_lossy(&output.stdout);
        let is_left_out = |name: &str| {
            matches!(name, "antigravity" | "this" | "zipimport" | "xxsubtype")
                || name.starts_with("_frozen_importlib")
        };
        let known: Vec<&str> = STANDARD.split(' ').collect();
        let unknown: Vec<&str> =
            found.lines().filter(|name| !known.contains(name) && !is_left_out(name)).collect();
        assert!(output.status.success() && found.lines().count() > 10, "{output:?}");
        assert_eq!(unknown, [""; 0]);
    }
}
