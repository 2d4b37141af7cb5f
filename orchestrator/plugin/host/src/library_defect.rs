//! Defects of a library's file.

use std::fmt;

use ralph_orchestrator_plugin_abi::{ABI_MAJOR, DECL_SIZE};

/// A defect of the content of a file that should be a plugin library.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LibraryDefect {
    /// It is empty.
    #[error("the file is empty; give the path of a built library, such as target/release/lib….so")]
    Empty,
    /// It is not an object file.
    #[error(
        "it is not a library: it begins with `{beginning}`; give the path of a built library, such as \
         target/release/lib….so"
    )]
    NotAnObject {
        /// Its first bytes, escaped.
        beginning: String,
    },
    /// It is for another operating system, or not machine code.
    #[error("it is {what}, but this program loads ELF libraries; build it on this system")]
    ForeignFormat {
        /// Its format.
        what: &'static str,
    },
    /// It is an archive.
    #[error(
        "it is a static library; a shared one is made by `crate-type = [\"cdylib\"]` in its Cargo.toml, \
         in C by `cc -fPIC -shared`"
    )]
    Archive,
    /// It is for 32-bit processors.
    #[error("it is a 32-bit library, but this program is 64-bit ({here})")]
    Bits32 {
        /// This program's processor.
        here: &'static str,
    },
    /// It is for another processor.
    #[error("it is built for {found}, but this program for {here}; build it for {here}")]
    Processor {
        /// The file's.
        found: String,
        /// This program's.
        here: &'static str,
    },
    /// It is truncated.
    #[error("it is truncated: it has {found} of {expected} bytes; build or copy it again")]
    Truncated {
        /// The smallest size that its header allows.
        expected: u64,
        /// Its size.
        found: u64,
    },
    /// It is corrupt.
    #[error("it is corrupt: {reason}; build or copy it again")]
    Corrupt {
        /// The parse error.
        reason: String,
    },
    /// Its tables are larger than those of any plugin.
    #[error(
        "its headers, symbols and relocations take more than {most} bytes; export less, with a version \
         script for instance"
    )]
    TablesTooLarge {
        /// The most that is read.
        most: u64,
    },
    /// It is an object file, but not a shared library.
    #[error(
        "it is {what}, not a shared library; one is made by `crate-type = [\"cdylib\"]` in its Cargo.toml, \
         in C by `cc -fPIC -shared`"
    )]
    NotShared {
        /// What it is.
        what: &'static str,
    },
    /// A symbol is missing.
    #[error(
        "it does not export `{symbol}`, so it is not a plugin; use `export_plugin!` in the crate whose \
         crate-type is cdylib; in C define it as `ralph_plugin.h` says, with default visibility, and build \
         with `cc -fPIC -shared`"
    )]
    MissingSymbol {
        /// Its name.
        symbol: &'static str,
    },
    /// A symbol is imported instead of exported.
    #[error("it imports `{symbol}` instead of exporting it, so it is not a plugin")]
    ImportedSymbol {
        /// Its name.
        symbol: &'static str,
    },
    /// A symbol is a function.
    #[error("its `{symbol}` is a function, but must be data")]
    SymbolNotData {
        /// Its name.
        symbol: &'static str,
    },
    /// A symbol has no content in the file.
    #[error("its `{symbol}` has no content in the file: it must be initialised data")]
    SymbolWithoutContent {
        /// Its name.
        symbol: &'static str,
    },
    /// A symbol is too small.
    #[error(
        "its `{symbol}` has {found} bytes, expected at least {expected}: it is not a ralph-orchestrator \
         plugin"
    )]
    SymbolTooSmall {
        /// Its name.
        symbol: &'static str,
        /// Its size.
        found: u64,
        /// The smallest that is allowed.
        expected: u64,
    },
    /// The declaration has another magic number.
    #[error(
        "its declaration begins with `{found}`, not `RALPHPLG`: it is not a ralph-orchestrator plugin"
    )]
    WrongMagic {
        /// Its first bytes, escaped.
        found: String,
    },
    /// It was built for another version of the interface.
    #[error(
        "it was built for version {found} of the plugin interface{built_with}, but this program has \
         version {ABI_MAJOR}; build it with version {ABI_MAJOR} of the SDK, in C with its `ralph_plugin.h`"
    )]
    OtherAbiVersion {
        /// The version of its interface.
        found: u16,
        /// The SDK named in the manifest, as ` (SDK 2.0.0)`.
        built_with: String,
    },
    /// The declared size is smaller than any version's, or larger than the symbol.
    #[error(
        "its declaration has a size field of {declared} bytes; expected at least {DECL_SIZE} and at most \
         the {available} bytes in the file"
    )]
    DeclSize {
        /// The size field.
        declared: u32,
        /// The symbol's size.
        available: u64,
    },
    /// A function is missing.
    #[error("the function `{field}` of its declaration is null")]
    NullFunction {
        /// Its name.
        field: &'static str,
    },
    /// The manifest is not JSON.
    #[error("its manifest is not JSON: {error}")]
    ManifestNotJson {
        /// The parse error.
        error: String,
    },
    /// The manifest is invalid.
    #[error("its manifest is invalid: {error}")]
    InvalidManifest {
        /// The error.
        error: String,
    },
    /// The plugin provides nothing.
    #[error(
        "its manifest provides nothing; expected at least one agent, detector, validator or backlog"
    )]
    ProvidesNothing,
    /// The plugin provides an item of an unknown kind.
    #[error(
        "its manifest provides an item of the unknown kind `{kind}`; expected `agent`, `detector`, \
         `validator` or `backlog`{hint}"
    )]
    UnknownKind {
        /// The kind.
        kind: String,
        /// The kind that is probably meant, as `; did you mean …?`.
        hint: String,
    },
    /// The plugin's name cannot be shown.
    #[error(
        "its manifest calls it `{name}`; a name has 1 to 64 characters, without control characters"
    )]
    InvalidName {
        /// The name, escaped.
        name: String,
    },
    /// An item's name cannot be written in a configuration.
    #[error(
        "its manifest names the {kind} `{name}`; a name has 1 to 64 letters, digits, `-` and `_`"
    )]
    InvalidItemName {
        /// Its kind.
        kind: &'static str,
        /// Its name, escaped.
        name: String,
    },
    /// Two items of one kind have the same name.
    #[error("its manifest provides the {kind} `{name}` twice")]
    DuplicateItem {
        /// Their kind.
        kind: &'static str,
        /// Their name.
        name: String,
    },
    /// A panic would end its process.
    #[error(
        "it was built with `panic = \"{found}\"`, with which a panic ends its process; build it with \
         `unwind`"
    )]
    PanicStrategy {
        /// The strategy.
        found: String,
    },
}

/// All defects of a file; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryDefects(Vec<LibraryDefect>);

impl LibraryDefects {
    /// Returns `None` if there are no defects.
    pub(crate) fn new(all: Vec<LibraryDefect>) -> Option<Self> {
        (!all.is_empty()).then_some(Self(all))
    }

    /// Returns all defects; never empty.
    #[must_use]
    pub fn all(&self) -> &[LibraryDefect] {
        &self.0
    }
}

impl From<LibraryDefect> for LibraryDefects {
    fn from(defect: LibraryDefect) -> Self {
        Self(vec![defect])
    }
}

impl fmt::Display for LibraryDefects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, defect) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("; ")?;
            }
            defect.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for LibraryDefects {}
