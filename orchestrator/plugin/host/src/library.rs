//! Loads a library and calls its functions: the one place that meets foreign code.
//!
//! A library is never unloaded: its threads, the destructors of its thread-local data and its static
//! data live on.

#![allow(unsafe_code, reason = "the functions of a library are foreign code")]

use std::cell::Cell;
use std::error::Error as _;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::time::Duration;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use plugin_abi::{
    ABI_MAJOR, ABI_MINOR, Bytes, CloseFn, DECL_SYMBOL, HOST_API_SIZE, HostApi, OpenFn, PluginDecl,
    SendFn, status,
};

use crate::copy::PrivateCopy;
use crate::error::{LibraryError, Refusal};
use crate::manifest::Manifest;

/// A library that is loaded, until the process ends.
#[derive(Clone, Debug)]
pub struct Loaded {
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

impl Loaded {
    /// What it says of itself.
    #[must_use]
    pub const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// BLAKE3 of its content, in hexadecimal.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

/// Loads a library whose content was checked, after looking whether the copy is still what it was; one
/// that was removed is made again. Its constructors run. To load the same content again gives the same library.
///
/// # Errors
/// Somebody changed the copy, or the dynamic linker refuses it: a symbol or another library that it
/// needs is not there. None of its code ran then.
pub fn load(copy: &PrivateCopy) -> Result<Loaded, LibraryError> {
    copy.restore()?;
    copy.verify()?;
    load_verified(copy)
}

/// The same for a copy that was read just now.
pub(crate) fn load_verified(copy: &PrivateCopy) -> Result<Loaded, LibraryError> {
    let refused = |reason| LibraryError::new(copy.path(), reason);
    // Now and not when they are first called: a symbol that is missing would end the process then.
    // Locally: two plugins must not find each other's symbols.
    // SAFETY: the constructors of the library run, with the operator's consent, who named it; it was
    // checked to be a whole plugin for this processor.
    let library = unsafe { Library::open(Some(copy.path()), RTLD_NOW | RTLD_LOCAL) };
    let library = library.map_err(|error| refused(Refusal::Link { message: said(&error) }))?;
    // SAFETY: a pointer fits any data symbol; it is not read before it was found to be there.
    let symbol = unsafe { library.get::<*const PluginDecl>(DECL_SYMBOL) };
    let decl = match symbol {
        Ok(symbol) => *symbol,
        Err(error) => return Err(refused(Refusal::Link { message: said(&error) })),
    };
    // The handle is all that could unload it.
    let _ = library.into_raw();
    let differs = |what| refused(Refusal::Differs { what });
    if decl.is_null() || !decl.is_aligned() {
        return Err(differs("its declaration is at no usable address"));
    }
    // SAFETY: `inspect` found at least the size of `PluginDecl` behind this symbol, in a library that
    // is never unloaded; nothing writes to it.
    let decl: &'static PluginDecl = unsafe { &*decl };
    if decl.prefix != copy.header().prefix {
        return Err(differs("its declaration is another one"));
    }
    let (Some(open), Some(send), Some(close)) = (decl.open, decl.send, decl.close) else {
        return Err(differs("a function of its declaration is null"));
    };
    Ok(Loaded {
        manifest: copy.header().manifest.clone(),
        digest: copy.digest().to_owned(),
        functions: Functions { open, send, close },
    })
}

/// `libloading` says only that it failed; why is in its source.
fn said(error: &libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

/// Takes a frame of the plugin and answers with a status of the interface. The flag is whether it must
/// not wait: it is called from inside of one of the plugin's functions.
pub(crate) type Sink = Box<dyn Fn(&[u8], bool) -> i32 + Send + Sync>;

thread_local! {
    /// This thread is inside of a function of a plugin.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// A session with a loaded library. All calls are made by the thread that has it.
pub(crate) struct Session {
    functions: Functions,
    plugin: *mut c_void,
}

// SAFETY: the pointer is only handed back to the plugin, whose functions may be called by any thread,
// one at a time: they are called with `&mut self`.
unsafe impl Send for Session {}

/// A function of a plugin answered with a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its function `{function}` answered {status} ({})", status::word(*status))]
pub(crate) struct Failure {
    pub(crate) function: &'static str,
    pub(crate) status: i32,
}

impl Session {
    /// Opens a session whose frames go to `sink`. May take its time. The sink is never dropped: a
    /// thread of the plugin may use it after the session was closed.
    pub(crate) fn open(library: &Loaded, sink: Sink) -> Result<Self, Failure> {
        let sink: &'static Sink = Box::leak(Box::new(sink));
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
        let status = inside(|| unsafe { (functions.open)(api, &raw mut plugin) });
        Failure::unless_ok("open", status).map(|()| Self { functions, plugin })
    }

    /// Hands a frame over.
    pub(crate) fn send(&mut self, frame: &[u8]) -> Result<(), Failure> {
        // SAFETY: the pointer is the one that `open` gave out, the session is not closed, and the
        // frame lives for the call.
        let status = inside(|| unsafe { (self.functions.send)(self.plugin, Bytes::lend(frame)) });
        Failure::unless_ok("send", status)
    }

    /// Ends it, which takes up to `within`.
    pub(crate) fn close(self, within: Duration) -> Result<(), Failure> {
        let millis = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
        // SAFETY: the pointer is the one that `open` gave out, and is not used again.
        let status = inside(|| unsafe { (self.functions.close)(self.plugin, millis) });
        Failure::unless_ok("close", status)
    }
}

impl Failure {
    fn unless_ok(function: &'static str, status: i32) -> Result<(), Self> {
        if status == status::OK { Ok(()) } else { Err(Self { function, status }) }
    }
}

/// Marks this thread as being inside of the plugin for as long as `call` takes.
fn inside(call: impl FnOnce() -> i32) -> i32 {
    let before = INSIDE.replace(true);
    let status = call();
    INSIDE.set(before);
    status
}

unsafe extern "C" fn emit(ctx: *mut c_void, frame: Bytes) -> i32 {
    if ctx.is_null()
        || (frame.ptr.is_null() && frame.len != 0)
        || isize::try_from(frame.len).is_err()
    {
        return status::INVALID;
    }
    // SAFETY: `ctx` is what `Session::open` made of a `Sink` that is never freed.
    let sink = unsafe { &*ctx.cast_const().cast::<Sink>() };
    // SAFETY: the plugin promises that the bytes are there for the call; null and lengths that cannot
    // be were refused.
    let frame = unsafe { frame.as_slice() };
    catch_unwind(AssertUnwindSafe(|| sink(frame, INSIDE.get()))).unwrap_or(status::PANIC)
}

/// Ends this process at once, without the exit handlers and destructors of a library whose threads may
/// still run.
pub(crate) fn leave(exit: u8) -> ! {
    // SAFETY: takes any number and does not return.
    unsafe { libc::_exit(i32::from(exit)) }
}
