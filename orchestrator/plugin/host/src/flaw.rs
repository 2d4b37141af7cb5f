//! What can be wrong with the file of a library.

use std::fmt;

use plugin_abi::{ABI_MAJOR, DECL_SIZE};

/// One thing that is wrong with the content of a file that should be a plugin library.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Flaw {
    /// Nothing is in it.
    #[error("the file is empty; give the path of a built library, such as target/release/lib….so")]
    Empty,
    /// It is no object file of any kind.
    #[error(
        "it is no library: it begins with `{beginning}`; give the path of a built library, such as \
         target/release/lib….so"
    )]
    NoObject {
        /// How it begins, escaped.
        beginning: String,
    },
    /// It is of another operating system, or no code for a processor at all.
    #[error("it is {what}, and this program loads ELF libraries; build it on this system")]
    Foreign {
        /// What it is.
        what: &'static str,
    },
    /// It is an archive.
    #[error(
        "it is a static library; `crate-type = [\"cdylib\"]` in its Cargo.toml makes a shared one"
    )]
    Archive,
    /// It is for processors of 32 bits.
    #[error("it is for a processor of 32 bits, and this program for one of 64 ({here})")]
    Bits32 {
        /// This program's processor.
        here: &'static str,
    },
    /// It is for another processor.
    #[error("it is for the processor {found}, and this program for {here}; build it for {here}")]
    Processor {
        /// The file's.
        found: String,
        /// This program's.
        here: &'static str,
    },
    /// It ends too early.
    #[error(
        "it is cut off: it has {found} bytes and should have {expected}; build or copy it again"
    )]
    Truncated {
        /// The smallest size that its header allows.
        expected: u64,
        /// Its size.
        found: u64,
    },
    /// Its header leads nowhere.
    #[error("it is damaged: {reason}; build or copy it again")]
    Damaged {
        /// What cannot be read.
        reason: String,
    },
    /// It is an object file, but no shared library.
    #[error(
        "it is {what} and no shared library; `crate-type = [\"cdylib\"]` in its Cargo.toml makes one"
    )]
    NotShared {
        /// What it is.
        what: &'static str,
    },
    /// A symbol is missing.
    #[error(
        "it does not export `{symbol}`, so it is no plugin; `export_plugin!` belongs into the crate \
         whose crate-type is cdylib"
    )]
    NoSymbol {
        /// Which one.
        symbol: &'static str,
    },
    /// A symbol is wanted, not given.
    #[error("it wants `{symbol}` from somebody else instead of exporting it, so it is no plugin")]
    Imported {
        /// Which one.
        symbol: &'static str,
    },
    /// A symbol is code.
    #[error("its `{symbol}` is a function, and has to be data")]
    NotData {
        /// Which one.
        symbol: &'static str,
    },
    /// A symbol's content is not in the file.
    #[error("its `{symbol}` has no content in the file: it has to be data with an initial value")]
    NoContent {
        /// Which one.
        symbol: &'static str,
    },
    /// A symbol is too small.
    #[error(
        "its `{symbol}` has {found} bytes, at least {expected} were expected: it is no plugin of ours"
    )]
    SymbolSize {
        /// Which one.
        symbol: &'static str,
        /// Its size.
        found: u64,
        /// The smallest that is allowed.
        expected: u64,
    },
    /// The declaration begins with something else.
    #[error(
        "its declaration begins with `{found}` and not with `RALPHPLG`: it is no plugin of ours"
    )]
    Magic {
        /// How it begins, escaped.
        found: String,
    },
    /// It was built for another version.
    #[error(
        "it was built for version {found} of the plugin interface{made_with}, and this program has \
         version {ABI_MAJOR}; build it with version {ABI_MAJOR} of the SDK"
    )]
    Major {
        /// The version of its interface.
        found: u16,
        /// What the manifest says it was made with, as ` (SDK 2.0.0)`.
        made_with: String,
    },
    /// The declaration says that it is shorter than any version ever was, or longer than it is.
    #[error(
        "its declaration says that it has {found} bytes; at least {DECL_SIZE} are needed, and the \
         file has {there}"
    )]
    DeclSize {
        /// What it says.
        found: u32,
        /// What the file has.
        there: u64,
    },
    /// A function is missing.
    #[error("the function `{field}` of its declaration is null")]
    Null {
        /// Which one.
        field: &'static str,
    },
    /// The manifest is no JSON.
    #[error("its manifest is not JSON: {error}")]
    ManifestNotJson {
        /// Why not.
        error: String,
    },
    /// The manifest is JSON, but not the right one.
    #[error("its manifest is not as it should be: {error}")]
    ManifestWrong {
        /// What is wrong with it.
        error: String,
    },
    /// The plugin provides nothing.
    #[error(
        "its manifest says that it provides nothing; an agent, detector or validator is needed"
    )]
    ProvidesNothing,
    /// The plugin provides something that nobody asks for.
    #[error("its manifest provides a `{kind}`; known are `agent`, `detector` and `validator`")]
    UnknownKind {
        /// What.
        kind: String,
    },
    /// The name of what it provides cannot be written in a configuration.
    #[error(
        "its manifest names the {kind} `{name}`; a name has 1 to 64 letters, digits, `-` and `_`"
    )]
    ItemName {
        /// Its kind.
        kind: &'static str,
        /// Its name, escaped.
        name: String,
    },
    /// Two things have one name.
    #[error("its manifest provides the {kind} `{name}` twice")]
    Twice {
        /// Their kind.
        kind: &'static str,
        /// Their name.
        name: String,
    },
    /// A panic would end the host.
    #[error(
        "it was built with `panic = \"{found}\"`, so that a panic would end this program, too; build it with `unwind`"
    )]
    Panic {
        /// The strategy.
        found: String,
    },
}

/// Everything that is wrong with a file; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaws(Vec<Flaw>);

impl Flaws {
    /// `None` if nothing is wrong.
    pub(crate) fn of(all: Vec<Flaw>) -> Option<Self> {
        (!all.is_empty()).then_some(Self(all))
    }

    /// All of them, never none.
    #[must_use]
    pub fn all(&self) -> &[Flaw] {
        &self.0
    }
}

impl From<Flaw> for Flaws {
    fn from(flaw: Flaw) -> Self {
        Self(vec![flaw])
    }
}

impl fmt::Display for Flaws {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, flaw) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("; ")?;
            }
            flaw.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Flaws {}
