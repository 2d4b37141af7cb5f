//! Loads a library and calls its functions: the only module that calls foreign code.
//!
//! A library is never unloaded: its threads, thread-local destructors and static data may still be used.

#![allow(unsafe_code, reason = "the functions of a library are foreign code")]

use std::error::Error as _;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::time::Duration;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use ralph_orchestrator_plugin_abi::{
    ABI_MAJOR, ABI_MINOR, Bytes, CloseFn, DECL_SYMBOL, HOST_API_SIZE, HostApi, OpenFn, PluginDecl,
    SendFn, status,
};

use crate::error::{LibraryError, LibraryErrorKind};
use crate::library_cache::PrivateCopy;
use crate::manifest::Manifest;

/// A loaded library. It stays loaded until the process ends.
#[derive(Clone, Debug)]
pub struct LoadedLibrary {
    manifest: Manifest,
    digest: String,
    functions: Functions,
}

#[derive(Clone, Copy, Debug)]
struct Functions {
    open: OpenFn,
    send: SendFn,
    close: CloseFn,
}

impl LoadedLibrary {
    /// Returns its manifest.
    #[must_use]
    pub const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the BLAKE3 digest of its content, in hexadecimal.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

/// Loads a library from a copy that was just opened and checked. Its constructors run. Loading the same
/// content again returns the same library.
///
/// # Errors
/// The dynamic linker cannot load it, because a symbol or another library is missing. None of its code
/// has run then.
pub fn load(copy: &PrivateCopy) -> Result<LoadedLibrary, LibraryError> {
    let failed = |kind| LibraryError::new(copy.path(), kind);
    let path = format!("{}: ", copy.path().display());
    // The linker begins with the path, which the error has already.
    let link = |error: &libloading::Error| {
        let message = source_message(error);
        let message = message.strip_prefix(&path).unwrap_or(&message).to_owned();
        failed(LibraryErrorKind::Link { message })
    };
    // RTLD_NOW: a missing symbol is an error here, instead of ending the process when it is first called.
    // RTLD_LOCAL: its symbols stay private.
    // SAFETY: the constructors of the library run, with the operator's consent, who named it; it was
    // checked to be a whole plugin for this processor.
    let library = unsafe { Library::open(Some(copy.path()), RTLD_NOW | RTLD_LOCAL) };
    let library = library.map_err(|error| link(&error))?;
    // SAFETY: a pointer fits any data symbol; it is not read before it was found.
    let symbol = unsafe { library.get::<*const PluginDecl>(DECL_SYMBOL) };
    let decl = match symbol {
        Ok(symbol) => *symbol,
        Err(error) => return Err(link(&error)),
    };
    // Dropping the handle would unload it.
    let _ = library.into_raw();
    let differs = |what| failed(LibraryErrorKind::LoadedDiffers { what });
    if decl.is_null() || !decl.is_aligned() {
        return Err(differs("its declaration has no valid address"));
    }
    // SAFETY: `inspect` found at least the size of `PluginDecl` behind this symbol, in a library that
    // is never unloaded; nothing writes to it.
    let decl: &'static PluginDecl = unsafe { &*decl };
    if decl.prefix != copy.header().prefix {
        return Err(differs("its declaration is different"));
    }
    let (Some(open), Some(send), Some(close)) = (decl.open, decl.send, decl.close) else {
        return Err(differs("a function of its declaration is null"));
    };
    Ok(LoadedLibrary {
        manifest: copy.header().manifest.clone(),
        digest: copy.digest().to_owned(),
        functions: Functions { open, send, close },
    })
}

/// Returns the cause, which `libloading` keeps in the error's source.
fn source_message(error: &libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

/// Receives a frame of the plugin and returns a status of the interface.
pub(crate) type FrameSink = Box<dyn Fn(&[u8]) -> i32 + Send + Sync>;

/// A session with a loaded library. Its owner makes all calls.
pub(crate) struct LibrarySession {
    functions: Functions,
    plugin: *mut c_void,
}

// SAFETY: the pointer is only handed back to the plugin, whose functions may be called by any thread,
// one at a time: they are called with `&mut self`.
unsafe impl Send for LibrarySession {}

/// A function of a plugin returned an error status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its function `{function}` returned {status} ({})", status::word(*status))]
pub(crate) struct CallError {
    pub(crate) function: &'static str,
    pub(crate) status: i32,
}

impl LibrarySession {
    /// Opens a session that sends its frames to `sink`. The sink is never dropped: a thread of the plugin
    /// may use it after the session was closed.
    pub(crate) fn open(library: &LoadedLibrary, sink: FrameSink) -> Result<Self, CallError> {
        let sink: &'static FrameSink = Box::leak(Box::new(sink));
        let api: &'static HostApi = Box::leak(Box::new(HostApi {
            size: HOST_API_SIZE,
            abi_major: ABI_MAJOR,
            abi_minor: ABI_MINOR,
            ctx: ptr::from_ref(sink).cast_mut().cast(),
            emit: Some(emit),
        }));
        let mut plugin = ptr::null_mut();
        let functions = library.functions;
        // SAFETY: `api` lives for ever, `plugin` for the call; the function is the one that the
        // library declares as `open`.
        let status = unsafe { (functions.open)(api, &raw mut plugin) };
        CallError::unless_ok("open", status).map(|()| Self { functions, plugin })
    }

    /// Sends a frame to the plugin.
    pub(crate) fn send(&mut self, frame: &[u8]) -> Result<(), CallError> {
        // SAFETY: the pointer is the one that `open` gave out, the session is not closed, and the
        // frame lives for the call.
        let status = unsafe { (self.functions.send)(self.plugin, Bytes::lend(frame)) };
        CallError::unless_ok("send", status)
    }

    /// Closes the session; its threads have up to `timeout` to end.
    pub(crate) fn close(self, timeout: Duration) -> Result<(), CallError> {
        let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        // SAFETY: the pointer is the one that `open` gave out, and is not used again.
        let status = unsafe { (self.functions.close)(self.plugin, millis) };
        CallError::unless_ok("close", status)
    }
}

impl CallError {
    fn unless_ok(function: &'static str, status: i32) -> Result<(), Self> {
        if status == status::OK { Ok(()) } else { Err(Self { function, status }) }
    }
}

unsafe extern "C" fn emit(ctx: *mut c_void, frame: Bytes) -> i32 {
    if ctx.is_null()
        || (frame.ptr.is_null() && frame.len != 0)
        || isize::try_from(frame.len).is_err()
    {
        return status::INVALID;
    }
    // SAFETY: `ctx` is what `LibrarySession::open` made of a `FrameSink` that is never freed.
    let sink = unsafe { &*ctx.cast_const().cast::<FrameSink>() };
    // SAFETY: the plugin lends the bytes for the call; null and impossible lengths were rejected.
    let frame = unsafe { frame.as_slice() };
    catch_unwind(AssertUnwindSafe(|| sink(frame))).unwrap_or(status::PANIC)
}

/// Ends this process immediately, without exit handlers and destructors: threads of the library may
/// still run.
pub(crate) fn exit_now(exit: u8) -> ! {
    // SAFETY: it accepts any number and does not return.
    unsafe { libc::_exit(i32::from(exit)) }
}
