//! Plugins that were built when the interface was new have to load for as long as it is supported.

use std::fs;
use std::path::{Path, PathBuf};

use crate::environment::TestEnvironment;

/// The libraries that are kept, one for each version of the interface. They are for one processor.
fn kept() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compatibility");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "so")).collect()
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), should_panic(expected = "loads"))]
fn old_libraries_load_and_work() {
    let kept = kept();
    assert!(kept.iter().any(|path| path.ends_with("abi-1.0.so")), "{kept:?}");
    for library in kept {
        let env = TestEnvironment::new();
        // Git does not keep who may write.
        let copy = env.root().join("library.so");
        fs::copy(&library, &copy).unwrap();
        env.raw_config(&format!(
            "[run]\ndelay = \"0s\"\n\
             [plugins.old]\nlibrary = \"{}\"\n\
             [agent]\nadapter = \"old\"\nunmetered = true\nconfig = {{ word = \"hello\" }}\n\
             [[completion.detector]]\nname = \"old\"\nword = \"x\"\n\
             [[validator]]\nkind = \"old\"\nword = \"hello\"\n",
            copy.display()
        ));
        let ended = env.ralph(&["run", "--verbose"]);
        assert_eq!(ended.code, Some(0), "{} loads: {ended:?}", library.display());
        ended.says("completed: 1 iteration").says("works").says("199");
        // It says where the mistake is.
        let text = env.read("ralph.toml").replace("\"x\"", "\"refused\"");
        env.write("ralph.toml", text);
        env.ralph(&["config", "check"]).expect(78).says("refused in");
    }
}
