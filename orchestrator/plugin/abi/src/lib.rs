//! Defines the C ABI between ralph-orchestrator (the host) and a plugin library.
//! Must not know what the frames mean that it carries.
//!
//! A plugin library exports two *data* symbols, so that everything about it can be read from the file
//! before any of its code runs: [`DECL_SYMBOL`], a [`PluginDecl`], and [`MANIFEST_SYMBOL`], a JSON text.
//! What is said over the three functions of the declaration and the one of the host are frames: JSON
//! objects without a line end, the same ones that a plugin program writes on its standard output, one
//! a line.
//!
//! # Rules
//!
//! Both sides may be built by different compilers, against different standard libraries, async
//! runtimes and allocators. That is sound only because of these:
//!
//! 1. **Memory never changes owner.** [`Bytes`] are lent for the duration of one call; whoever needs
//!    them longer copies them. Nothing that one side allocated is freed by the other. The only pointer
//!    that outlives a call is the one that [`OpenFn`] gives out, and only the plugin reads through it.
//! 2. **Nothing unwinds across.** Every function on either side catches its own panics or exceptions
//!    and returns a [`status`].
//! 3. **Structures only grow at their end.** A reader looks at `size` before it touches a field that
//!    version 1.0 did not have. Nobody copies a structure of the other side as a whole.
//! 4. **Both live until the process ends.** The host never unloads a library, and its [`HostApi`] is
//!    never freed: a thread that outlives [`CloseFn`] may still call [`HostApi::emit`], and is told
//!    [`status::CLOSED`].
//!
//! The header `include/ralph_plugin.h` says the same in C.
#![no_std]
#![allow(unsafe_code, reason = "this crate describes memory that is shared with foreign code")]

use core::ffi::c_void;
use core::ptr;

/// First eight bytes of every [`PluginDecl`].
pub const MAGIC: [u8; 8] = *b"RALPHPLG";
/// Counted up by an incompatible change. Host and plugin must agree.
pub const ABI_MAJOR: u16 = 1;
/// Counted up when a field is appended. Either side may be the older one.
pub const ABI_MINOR: u16 = 0;
/// Name of the exported data symbol that holds the [`PluginDecl`].
pub const DECL_SYMBOL: &str = "ralph_plugin_decl";
/// Name of the exported data symbol that holds the manifest: a JSON text in UTF-8, as long as the
/// symbol's size says, without relocations, so that it can be read from the file. One trailing zero
/// byte, as C puts it after a string, is not counted.
pub const MANIFEST_SYMBOL: &str = "ralph_plugin_manifest";

/// The largest frame in bytes, in either direction: 16 MiB.
pub const MAX_FRAME: usize = 16 * 1024 * 1024;

/// Bytes lent for the duration of one call.
///
/// `ptr` may be null if, and only if, `len` is 0. The callee must neither write to them nor keep the
/// pointer.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    /// The first byte.
    pub ptr: *const u8,
    /// How many there are.
    pub len: usize,
}

impl Bytes {
    /// No bytes.
    pub const EMPTY: Self = Self { ptr: ptr::null(), len: 0 };

    /// Lends `bytes`. The caller sees to it that they outlive the call they are lent for.
    #[must_use]
    pub const fn lend(bytes: &[u8]) -> Self {
        Self { ptr: bytes.as_ptr(), len: bytes.len() }
    }

    /// What was lent; nothing if the pointer is null.
    ///
    /// # Safety
    /// If `ptr` is not null, `len` bytes from it on must be initialised, readable and unchanged for
    /// `'a`, and `len` must not be larger than `isize::MAX`.
    #[must_use]
    pub const unsafe fn as_slice<'a>(self) -> &'a [u8] {
        if self.ptr.is_null() || self.len == 0 {
            return &[];
        }
        // SAFETY: promised by the caller.
        unsafe { core::slice::from_raw_parts(self.ptr, self.len) }
    }
}

/// What functions of this ABI return. Every other value but 0 means a failure, too.
pub mod status {
    /// It is done.
    pub const OK: i32 = 0;
    /// An argument is null, too short, too large, or of another major version.
    pub const INVALID: i32 = -1;
    /// The callee panicked and caught it.
    pub const PANIC: i32 = -2;
    /// The session is closed: nothing can be sent any more, and nothing need be tried again.
    pub const CLOSED: i32 = -3;
    /// It could not be done; a `log` frame before may have said why.
    pub const FAILED: i32 = -4;
    /// The queue is full. The host answers so to an [`emit`](super::HostApi::emit) that would have to
    /// wait, but was made by the very thread that the host called the plugin with.
    pub const BUSY: i32 = -5;

    /// A word for people.
    #[must_use]
    pub const fn word(status: i32) -> &'static str {
        match status {
            OK => "ok",
            INVALID => "invalid",
            PANIC => "panicked",
            CLOSED => "closed",
            FAILED => "failed",
            BUSY => "busy",
            _ => "a status of no meaning",
        }
    }
}

/// Hands one frame to the host. See [`HostApi::emit`].
pub type EmitFn = unsafe extern "C" fn(ctx: *mut c_void, frame: Bytes) -> i32;

/// Opens a session. See [`PluginDecl::open`].
pub type OpenFn = unsafe extern "C" fn(host: *const HostApi, out: *mut *mut c_void) -> i32;

/// Hands one frame to the plugin. See [`PluginDecl::send`].
pub type SendFn = unsafe extern "C" fn(plugin: *mut c_void, frame: Bytes) -> i32;

/// Ends a session. See [`PluginDecl::close`].
pub type CloseFn = unsafe extern "C" fn(plugin: *mut c_void, timeout_ms: u64) -> i32;

/// What the host offers to a session. The host owns it and never frees or moves it, and does not
/// change it after it was given to [`OpenFn`].
#[repr(C)]
#[derive(Debug)]
pub struct HostApi {
    /// Size of this structure in bytes as the host was compiled. To be read first.
    pub size: u32,
    /// [`ABI_MAJOR`] of the host. A plugin that was built for another one returns
    /// [`status::INVALID`] from [`PluginDecl::open`].
    pub abi_major: u16,
    /// [`ABI_MINOR`] of the host.
    pub abi_minor: u16,
    /// To be given back with every [`emit`](Self::emit). The plugin never reads through it.
    pub ctx: *mut c_void,
    /// Hands one frame to the host, which copies it before it returns.
    ///
    /// May be called from any thread of the plugin, by several at once, from the moment that
    /// [`PluginDecl::open`] is called. Frames of one thread arrive in their order. *May block* as long
    /// as the host is behind: this is how the plugin is slowed down, so it must be called from a
    /// thread that may block, and not while holding a lock that [`PluginDecl::send`] takes, nor from
    /// inside of `open`, `send` or `close`. [`status::CLOSED`] is final; [`status::INVALID`] says that
    /// the frame cannot be read. One larger than [`MAX_FRAME`] ends the session.
    pub emit: Option<EmitFn>,
}

// SAFETY: nothing changes it after it was made; `ctx` is only handed back to the host, whose `emit` may
// be called from any thread.
unsafe impl Send for HostApi {}
// SAFETY: as above.
unsafe impl Sync for HostApi {}

/// The frozen part of [`PluginDecl`]: in every version of this ABI, the first 16 bytes mean this.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeclPrefix {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`ABI_MAJOR`] that the plugin was built for.
    pub abi_major: u16,
    /// [`ABI_MINOR`] that the plugin was built for.
    pub abi_minor: u16,
    /// Size of the whole [`PluginDecl`] in bytes as the plugin was compiled.
    pub size: u32,
}

impl DeclPrefix {
    /// What a plugin that is built against this version of the crate declares.
    pub const CURRENT: Self =
        Self { magic: MAGIC, abi_major: ABI_MAJOR, abi_minor: ABI_MINOR, size: DECL_SIZE };
}

/// Size of [`PluginDecl`] in bytes, as of this version.
#[allow(clippy::cast_possible_truncation, reason = "asserted below to be 56")]
pub const DECL_SIZE: u32 = size_of::<PluginDecl>() as u32;

/// Size of [`HostApi`] in bytes, as of this version.
#[allow(clippy::cast_possible_truncation, reason = "asserted below to be 24")]
pub const HOST_API_SIZE: u32 = size_of::<HostApi>() as u32;

/// What a plugin library declares, as a data symbol named [`DECL_SYMBOL`].
///
/// The functions are `Option`s so that a null pointer in a bad library can be represented and refused.
#[repr(C)]
#[derive(Debug)]
pub struct PluginDecl {
    /// Says what the rest is.
    pub prefix: DeclPrefix,
    /// The manifest again, for those who have loaded the library: static memory of the plugin.
    pub manifest: Bytes,
    /// Opens a session: makes what it needs (threads, a runtime) and stores a pointer of the plugin's
    /// own choice in `*out`, which is not null. The host gives it back unchanged and never reads
    /// through it.
    ///
    /// Called from any thread of the host that may block; has to return within the ten seconds that
    /// the first frame is waited for. May be called again for another session, even while the first is
    /// open. `host` is valid until the process ends. If the answer is not [`status::OK`], there is no
    /// session, and `*out` is not looked at.
    pub open: Option<OpenFn>,
    /// Hands one frame to the session, which copies it before it returns.
    ///
    /// *Never blocks*: it queues, and answers [`status::BUSY`] if its queue is full, which ends the
    /// session. One thread at a time calls it, not always the same one.
    pub send: Option<SendFn>,
    /// Ends the session: what still runs is cancelled. Blocks until all of the plugin's threads have
    /// gone, but not longer than `timeout_ms` milliseconds; [`status::FAILED`] says that some have
    /// not. Called at most once, never at the same time as `send`; the pointer that `open` gave out is
    /// not used by the host afterwards. A thread of the plugin that is still there may call
    /// [`HostApi::emit`] and will be told [`status::CLOSED`].
    pub close: Option<CloseFn>,
}

// SAFETY: static data that nothing changes; `manifest` points to static data as well.
unsafe impl Sync for PluginDecl {}

// Pinned, not remembered: a change of the layout does not compile. What is here was released; only
// lines for appended fields may be added, and the sizes changed.
#[cfg(target_pointer_width = "64")]
const _: () = {
    use core::mem::{align_of, offset_of};

    assert!(size_of::<Bytes>() == 16 && align_of::<Bytes>() == 8);
    assert!(offset_of!(Bytes, ptr) == 0 && offset_of!(Bytes, len) == 8);

    assert!(size_of::<DeclPrefix>() == 16 && align_of::<DeclPrefix>() == 4);
    assert!(offset_of!(DeclPrefix, magic) == 0);
    assert!(offset_of!(DeclPrefix, abi_major) == 8);
    assert!(offset_of!(DeclPrefix, abi_minor) == 10);
    assert!(offset_of!(DeclPrefix, size) == 12);

    assert!(size_of::<PluginDecl>() == 56 && align_of::<PluginDecl>() == 8);
    assert!(offset_of!(PluginDecl, prefix) == 0);
    assert!(offset_of!(PluginDecl, manifest) == 16);
    assert!(offset_of!(PluginDecl, open) == 32);
    assert!(offset_of!(PluginDecl, send) == 40);
    assert!(offset_of!(PluginDecl, close) == 48);

    assert!(size_of::<HostApi>() == 24 && align_of::<HostApi>() == 8);
    assert!(offset_of!(HostApi, size) == 0);
    assert!(offset_of!(HostApi, abi_major) == 4);
    assert!(offset_of!(HostApi, abi_minor) == 6);
    assert!(offset_of!(HostApi, ctx) == 8);
    assert!(offset_of!(HostApi, emit) == 16);

    // A null pointer is `None`, and nothing else is.
    assert!(size_of::<Option<OpenFn>>() == size_of::<usize>());
    assert!(size_of::<Option<EmitFn>>() == size_of::<usize>());
};

#[cfg(not(target_pointer_width = "64"))]
compile_error!("plugins need a target with pointers of 64 bits");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_null_pointer_lends_nothing_whatever_the_length_says() {
        let lent = Bytes { ptr: ptr::null(), len: 7 };
        // SAFETY: a null pointer is always allowed.
        assert!(unsafe { lent.as_slice() }.is_empty());
    }

    #[test]
    fn what_is_lent_is_seen() {
        // SAFETY: a literal lives for ever.
        assert_eq!(unsafe { Bytes::lend(b"frame").as_slice() }, b"frame");
    }

    #[test]
    fn a_null_function_is_none() {
        // SAFETY: every field of the structure may be all zeros.
        let decl: PluginDecl = unsafe { core::mem::zeroed() };
        assert!(decl.open.is_none() && decl.send.is_none() && decl.close.is_none());
    }
}
