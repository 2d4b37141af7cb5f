//! What the plugin is built with.

/// Name and version of this crate, for manifests.
pub const SDK: &str = concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION"));

/// The compiler that builds the plugin.
pub const RUSTC: &str = env!("RALPH_SDK_RUSTC");
