//! Finds out which compiler builds this, for the manifests of plugins.

#[allow(clippy::disallowed_methods)] // A compiler is no agent, and ends by itself.
fn main() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = std::process::Command::new(rustc).arg("--version").output();
    let version = output.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    println!("cargo::rustc-env=RALPH_SDK_RUSTC={}", version.as_deref().unwrap_or_default().trim());
    println!("cargo::rerun-if-changed=build.rs");
}
