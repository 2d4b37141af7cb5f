//! Every kind of wrong content is refused with a message of its own, and before any code runs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use ralph_orchestrator_plugin_host::{LibraryError, PrivateCopy, check, load};

use crate::c;

struct Folder {
    dir: tempfile::TempDir,
    marker: PathBuf,
}

impl Folder {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let marker = dir.path().join("constructed");
        Self { dir, marker }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A library whose constructor leaves the marker.
    fn compile(&self, name: &str, arguments: &[&str]) -> PathBuf {
        let marker = c::marker(&self.marker);
        let mut all = vec![marker.as_str()];
        all.extend_from_slice(arguments);
        c::plugin(self.dir.path(), name, &all)
    }

    fn write(&self, name: &str, content: &[u8]) -> PathBuf {
        fs::write(self.path(name), content).unwrap();
        self.path(name)
    }

    fn load(&self, path: &Path) -> Result<(), LibraryError> {
        let copy: PrivateCopy = check(path, None)?.copy_to(&self.path("copies"))?;
        load(&copy).map(drop)
    }

    /// The message without the path, and that nothing of the library ran.
    fn refusal(&self, path: &Path) -> String {
        let error = self.load(path).expect_err("it should be refused").to_string();
        assert!(!self.marker.exists(), "its constructor ran, although: {error}");
        let (before, message) = error.split_once(": ").unwrap();
        assert!(before.contains(&self.dir.path().display().to_string()), "no path in {error}");
        message.to_owned()
    }
}

/// One byte or some of a file changed.
fn edited(good: &[u8], at: usize, with: &[u8]) -> Vec<u8> {
    let mut bytes = good.to_vec();
    bytes[at..at + with.len()].copy_from_slice(with);
    bytes
}

#[test]
fn the_constructor_of_a_good_library_runs() {
    let folder = Folder::new();
    let good = folder.compile("good.so", &[]);
    check(&good, None).unwrap();
    assert!(!folder.marker.exists(), "checking runs nothing");
    folder.load(&good).unwrap();
    assert!(folder.marker.exists(), "loading does");
}

#[test]
fn a_library_of_a_newer_minor_version_is_loaded() {
    let folder = Folder::new();
    let unknown_kind = "-DMANIFEST=\"{\\\"name\\\":\\\"n\\\",\\\"version\\\":\\\"9\\\",\\\"color\\\":1,\
        \\\"provides\\\":[{\\\"kind\\\":\\\"reporter\\\",\\\"name\\\":\\\"r\\\"},\
        {\\\"kind\\\":\\\"agent\\\",\\\"name\\\":\\\"a\\\",\\\"speed\\\":2}]}\"";
    let newer = folder.compile("newer.so", &["-DNEWER", "-DMINOR=7", unknown_kind]);
    let checked = check(&newer, None).unwrap();
    let provided = &checked.header().manifest.provides;
    assert_eq!(provided.iter().map(|item| item.name.as_str()).collect::<Vec<_>>(), ["a"]);
    folder.load(&newer).unwrap();
}

/// Name, arguments of the compiler, and a part of the message.
type Case = (&'static str, Vec<String>, &'static str);

fn manifest(json: &str) -> Vec<String> {
    vec![format!("-DMANIFEST=\"{}\"", json.replace('"', "\\\""))]
}

fn item(kind: &str, name: &str) -> String {
    format!("{{\"kind\":\"{kind}\",\"name\":\"{name}\"}}")
}

/// A manifest that provides these, with more keys.
fn provides(items: &[String], more: &str) -> Vec<String> {
    let items = items.join(",");
    manifest(&format!("{{\"name\":\"n\",\"version\":\"1\",\"provides\":[{items}]{more}}}"))
}

fn wrong_declarations() -> Vec<Case> {
    vec![
        ("no declaration", vec!["-DDECL_NONE".into()], "does not export `ralph_plugin_decl`"),
        ("declaration wanted", vec!["-DDECL_UNDEFINED".into()], "imports `ralph_plugin_decl`"),
        ("declaration is code", vec!["-DDECL_FUNCTION".into()], "is a function"),
        ("declaration in no file", vec!["-DDECL_ZERO".into()], "has no content in the file"),
        ("declaration of 4 bytes", vec!["-DDECL_TINY".into()], "has 4 bytes, expected at least 16"),
        (
            "only the prefix",
            vec!["-DDECL_PREFIX".into()],
            "a size field of 56 bytes; expected at least 56 and at most the 16 bytes",
        ),
        ("bad magic", vec!["-DMAGIC=\"RALPHPL?\"".into()], "begins with `RALPHPL?`"),
        (
            "another major version",
            vec!["-DMAJOR=2".into()],
            "version 2 of the plugin interface (by hand)",
        ),
        (
            "major version 0",
            vec!["-DMAJOR=0".into(), "-DMANIFEST_NONE".into()],
            "version 0 of the plugin interface, but",
        ),
        ("shorter", vec!["-DSIZE=48".into()], "a size field of 48 bytes"),
        (
            "longer than it is",
            vec!["-DSIZE=64".into()],
            "a size field of 64 bytes; expected at least 56 and at most the 56 bytes",
        ),
        (
            "open is null",
            vec!["-DOPEN=NULL".into()],
            "the function `open` of its declaration is null",
        ),
        (
            "send is null",
            vec!["-DSEND=NULL".into()],
            "the function `send` of its declaration is null",
        ),
        (
            "close is null",
            vec!["-DCLOSE=NULL".into()],
            "the function `close` of its declaration is null",
        ),
    ]
}

fn wrong_manifests() -> Vec<Case> {
    vec![
        ("no manifest", vec!["-DMANIFEST_NONE".into()], "does not export `ralph_plugin_manifest`"),
        ("empty manifest", manifest(""), "its `ralph_plugin_manifest` has 1 bytes"),
        ("manifest is no JSON", manifest("name = 1"), "its manifest is not JSON"),
        ("manifest is a list", manifest("[1]"), "invalid type: integer `1`"),
        ("manifest without a name", manifest("{}"), "missing field `name`"),
        ("nothing provided", provides(&[], ""), "provides nothing"),
        ("misspelt kind", provides(&[item("agnet", "r")], ""), "did you mean `agent`?"),
        ("unknown kind", provides(&[item("reporter", "r")], ""), "of the unknown kind `reporter`"),
        ("bad name", provides(&[item("agent", "a/b")], ""), "names the agent `a/b`"),
        ("empty name", provides(&[item("validator", "")], ""), "names the validator ``"),
        (
            "twice",
            provides(&[item("agent", "echo"), item("agent", "echo")], ""),
            "provides the agent `echo` twice",
        ),
        (
            "panics abort",
            provides(&[item("agent", "echo")], ",\"panic\":\"abort\""),
            "built with `panic = \"abort\"`",
        ),
        (
            "undefined symbol",
            vec!["-DUNDEFINED".into()],
            "undefined symbol: a_function_that_nobody_has",
        ),
    ]
}

#[test]
fn each_way_to_build_it_wrongly_has_its_message() {
    let folder = Folder::new();
    let cases: Vec<Case> = wrong_declarations().into_iter().chain(wrong_manifests()).collect();
    let mut messages = BTreeSet::new();
    for (name, arguments, expected) in &cases {
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let library = folder.compile(&format!("{}.so", name.replace(' ', "-")), &arguments);
        let message = folder.refusal(&library);
        assert!(message.contains(expected), "{name}: {message}");
        messages.insert(message);
    }
    assert_eq!(messages.len(), cases.len(), "two kinds share a message");
}

#[tokio::test]
#[cfg(target_env = "gnu")]
async fn what_it_needs_and_nobody_has_is_named_before_any_of_it_runs() {
    use ralph_orchestrator_supervisor::Supervisor;

    let folder = Folder::new();
    let supervisor = Supervisor::new(env!("CARGO_BIN_EXE_ralph-plugin-host").into(), Vec::new());
    let linkable = async |library: &Path| {
        let copy = check(library, None).unwrap().copy_to(&folder.path("copies")).unwrap();
        let linkable =
            copy.check_dependencies(&supervisor).await.map_err(|error| error.to_string());
        assert!(!folder.marker.exists(), "its constructor ran: {linkable:?}");
        linkable
    };
    assert_eq!(linkable(&folder.compile("good.so", &[])).await, Ok(()));
    let message = linkable(&folder.compile("symbol.so", &["-DUNDEFINED"])).await.unwrap_err();
    let expected = "missing dependencies: the symbol `a_function_that_nobody_has`; install";
    assert!(message.contains(expected), "{message}");

    let other = folder.write("other.c", b"int other(void) { return 1; }");
    let other = other.display().to_string();
    c::run("cc", &["-shared", "-fPIC", &other], &folder.path("libother.so"));
    let here = format!("-L{}", folder.dir.path().display());
    let arguments = ["-Wl,--no-as-needed", here.as_str(), "-lother", "-DUNDEFINED"];
    let message = linkable(&folder.compile("library.so", &arguments)).await.unwrap_err();
    let expected = "the library `libother.so`, the symbol `a_function_that_nobody_has`";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn reports_all_defects_at_once() {
    let folder = Folder::new();
    let library =
        folder.compile("all.so", &["-DSEND=NULL", "-DCLOSE=NULL", "-DMANIFEST=\"nonsense\""]);
    let message = folder.refusal(&library);
    for expected in ["`send`", "`close`", "not JSON"] {
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn each_kind_of_other_file_has_its_message() {
    let folder = Folder::new();
    let good = fs::read(folder.compile("good.so", &[])).unwrap();
    let object = folder.path("object.o");
    let source = folder.write("main.c", b"int main(void) { return 0; }\n");
    let source = source.to_str().unwrap();
    c::run("cc", &["-c", source], &object);
    let program = folder.path("program");
    c::run("cc", &[source], &program);
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("empty", vec![], "the file is empty"),
        ("script", b"#!/bin/sh\necho\n".to_vec(), "begins with `#!/bin/sh\\necho\\n`"),
        ("zeros", vec![0; 4096], "begins with `\\0"),
        ("archive", b"!<arch>\nlib.o/".to_vec(), "a static library"),
        ("windows", b"MZ\x90\0rest".to_vec(), "for Windows"),
        ("macos", b"\xcf\xfa\xed\xfe\x07\0\0\x01".to_vec(), "for macOS"),
        ("wasm", b"\0asm\x01\0\0\0".to_vec(), "WebAssembly"),
        ("bits", edited(&good, 4, &[1]), "a 32-bit library"),
        ("big-endian", edited(&good, 5, &[2]), "another byte order"),
        ("arm", edited(&good, 18, &[0xb7, 0]), "built for aarch64"),
        ("unknown-processor", edited(&good, 18, &[0xee, 0xee]), "built for machine number 61166"),
        ("magic-only", good[..4].to_vec(), "has 4 of 64 bytes"),
        ("program-type", edited(&good, 16, &[2, 0]), "a program, not a shared"),
        ("object", fs::read(&object).unwrap(), "an object file, not a shared"),
        ("core", edited(&good, 16, &[4, 0]), "a core dump"),
        ("no-type", edited(&good, 16, &[99, 0]), "an ELF file of an unknown type"),
        ("no-segments", edited(&good, 56, &[0, 0]), "without a dynamic section"),
        ("damaged", edited(&good, 62, &[0xfe, 0xfe]), "it is corrupt"),
    ];
    let mut messages = BTreeSet::new();
    for (name, content, expected) in &cases {
        let message = folder.refusal(&folder.write(name, content));
        assert!(message.contains(expected), "{name}: {message}");
        messages.insert(message);
    }
    assert_eq!(messages.len(), cases.len(), "two kinds share a message");
    let message = folder.refusal(&program);
    assert!(message.contains("a program, not a shared"), "a program that can be moved: {message}");
}

#[test]
fn a_library_that_is_cut_off_anywhere_is_refused() {
    let folder = Folder::new();
    let good = fs::read(folder.compile("good.so", &[])).unwrap();
    let steps = (0..good.len()).step_by(97).chain([1, 63, 64, good.len() - 1]);
    for length in steps {
        let message = folder.refusal(&folder.write("cut.so", &good[..length]));
        let expected = match length {
            0 => "the file is empty",
            1..4 => "begins with",
            _ => "truncated",
        };
        assert!(message.contains(expected), "{length} bytes: {message}");
    }
}

#[test]
fn a_real_archive_of_rust_is_called_a_static_library() {
    let folder = Folder::new();
    let source = folder.write("lib.rs", b"#![no_std]\npub fn f() {}\n");
    let library = folder.path("libx.rlib");
    c::run(
        "rustc",
        &["--crate-type", "rlib", "--crate-name", "x", source.to_str().unwrap()],
        &library,
    );
    let message = folder.refusal(&library);
    assert!(message.contains("a static library"), "{message}");
}
