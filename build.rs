//! Links the released program without what it never uses, a seventh of its size, and with the code of a run in one place.

use std::path::Path;
use std::process::Command;
use std::{env, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=release.ld");
    if is_released() && is_linked_by_lld() {
        let script = env::current_dir()?.join("release.ld");
        // Functions whose code is the same are there once.
        for argument in ["--icf=all", "--no-eh-frame-hdr"] {
            println!("cargo::rustc-link-arg-bins=-Wl,{argument}");
        }
        println!("cargo::rustc-link-arg-bins=-Wl,-T,{}", script.display());
    }
    Ok(())
}

fn is_released() -> bool {
    env::var("PROFILE").is_ok_and(|profile| profile == "release")
}

/// Whether the linker is the one that comes with the compiler, which is the default for this target only. Others do not
/// know these arguments.
fn is_linked_by_lld() -> bool {
    const TARGET: &str = "x86_64-unknown-linux-gnu";
    let is_target = env::var("TARGET").is_ok_and(|target| target == TARGET);
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    if !is_target || flags.contains("link") || env::var_os("RUSTC_LINKER").is_some() {
        return false;
    }
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    #[expect(clippy::disallowed_methods, reason = "there is no supervisor in a build")]
    let Ok(output) = Command::new(rustc).args(["--print", "sysroot"]).output() else {
        return false;
    };
    let sysroot = String::from_utf8_lossy(&output.stdout);
    Path::new(sysroot.trim()).join("lib/rustlib").join(TARGET).join("bin/gcc-ld/ld.lld").exists()
}
