//! The four functions that meet the host.

use std::ffi::c_void;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc as std_mpsc};
use std::time::{Duration, Instant};

use plugin_abi::{
    ABI_MAJOR, Bytes, DeclPrefix, EmitFn, HOST_API_SIZE, HostApi, OpenFn, PluginDecl, status,
};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

use crate::guard;
use crate::item::Plugin;
use crate::log::{self, Home};
use crate::out::Out;
use crate::session::Session;

/// Name and version of this crate, for manifests.
pub const SDK: &str = concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION"));
/// The compiler that builds the plugin.
pub const RUSTC: &str = env!("RALPH_SDK_RUSTC");

/// Threads that run what the plugin's author wrote, besides those that block.
const WORKERS: usize = 2;
/// Frames of the host that wait, at most: far more than it has calls open.
const WAITING: usize = 4096;

/// The declaration of a plugin.
#[must_use]
pub const fn decl(manifest: &'static [u8], open: OpenFn) -> PluginDecl {
    PluginDecl {
        prefix: DeclPrefix::CURRENT,
        manifest: Bytes::lend(manifest),
        open: Some(open),
        send: Some(send),
        close: Some(close),
    }
}

/// What the host's pointer leads to.
struct Handle {
    runtime: Runtime,
    session: Arc<Session>,
    frames: mpsc::Sender<Vec<u8>>,
    threads: Arc<AtomicUsize>,
    /// Closed when the thread that speaks has ended.
    silent: std_mpsc::Receiver<()>,
}

/// Where the host takes frames.
struct Host {
    emit: EmitFn,
    ctx: *mut c_void,
}

// SAFETY: the interface says that `emit` may be called from any thread; `ctx` is only handed back.
unsafe impl Send for Host {}

impl Host {
    /// False when it takes no more.
    fn emit(&self, frame: &[u8]) -> bool {
        // SAFETY: the function and `ctx` are those of a `HostApi`, which lives as long as the process;
        // the frame lives for the call.
        let status = unsafe { (self.emit)(self.ctx, Bytes::lend(frame)) };
        matches!(status, status::OK | status::INVALID)
    }
}

/// Catches what must not reach the host.
fn guarded(call: impl FnOnce() -> i32) -> i32 {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(status::PANIC)
}

/// # Safety
/// To be called as [`PluginDecl::open`] says.
pub unsafe fn open(plugin: &'static Plugin, host: *const HostApi, out: *mut *mut c_void) -> i32 {
    if host.is_null() || out.is_null() {
        return status::INVALID;
    }
    // SAFETY: not null, and every version of the structure begins with these fields.
    let (size, major) = unsafe { ((*host).size, (*host).abi_major) };
    if size < HOST_API_SIZE || major != ABI_MAJOR {
        return status::INVALID;
    }
    // SAFETY: not null, and large enough for the fields of this version.
    let (emit, ctx) = unsafe { ((*host).emit, (*host).ctx) };
    let Some(emit) = emit else { return status::INVALID };
    guarded(|| match start(plugin, Host { emit, ctx }) {
        Ok(handle) => {
            // SAFETY: not null, and the host lends it for the call.
            unsafe { out.write(Box::into_raw(Box::new(handle)).cast()) };
            status::OK
        }
        Err(error) => {
            // There is no session yet in which it could be said.
            drop(writeln!(std::io::stderr(), "plugin {}: no threads: {error}", plugin.name));
            status::FAILED
        }
    })
}

fn start(plugin: &'static Plugin, host: Host) -> std::io::Result<Handle> {
    guard::install();
    log::install();
    let threads = Arc::new(AtomicUsize::new(0));
    let (more, less) = (Arc::clone(&threads), Arc::clone(&threads));
    let log = Home::default();
    let home = log.clone();
    let runtime = Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .thread_name("plugin")
        .on_thread_start(move || {
            more.fetch_add(1, Ordering::AcqRel);
            home.enter();
        })
        .on_thread_stop(move || {
            less.fetch_sub(1, Ordering::AcqRel);
        })
        .enable_all()
        .build()?;
    let (spoken, silent) = std_mpsc::channel();
    let out = Out::start(Box::new(move |frame| host.emit(frame)), spoken)?;
    let session = Session::new(plugin, out, log, runtime.handle().clone());
    let (frames, heard) = mpsc::channel(WAITING);
    runtime.spawn(Arc::clone(&session).listen(heard));
    runtime.spawn(Arc::clone(&session).until_gone());
    Ok(Handle { runtime, session, frames, threads, silent })
}

/// # Safety
/// To be called as [`PluginDecl::send`] says.
unsafe extern "C" fn send(plugin: *mut c_void, frame: Bytes) -> i32 {
    // SAFETY: `open` gave the pointer out, and it was not closed; nobody changes it meanwhile.
    let Some(handle) = (unsafe { plugin.cast::<Handle>().as_ref() }) else {
        return status::INVALID;
    };
    // SAFETY: the host lends the bytes for the call.
    let frame = unsafe { frame.as_slice() };
    guarded(|| match handle.frames.try_send(frame.to_vec()) {
        Ok(()) => status::OK,
        Err(mpsc::error::TrySendError::Full(_)) => status::BUSY,
        Err(mpsc::error::TrySendError::Closed(_)) => status::CLOSED,
    })
}

/// # Safety
/// To be called as [`PluginDecl::close`] says.
unsafe extern "C" fn close(plugin: *mut c_void, timeout_ms: u64) -> i32 {
    if plugin.is_null() {
        return status::INVALID;
    }
    // SAFETY: `open` made it by `Box::into_raw`, and the host gives it back once.
    let handle = unsafe { Box::from_raw(plugin.cast::<Handle>()) };
    guarded(|| end(*handle, Duration::from_millis(timeout_ms)))
}

fn end(handle: Handle, within: Duration) -> i32 {
    let Handle { runtime, session, frames, threads, silent } = handle;
    let until = Instant::now().checked_add(within);
    let left = || until.map_or(within, |until| until.saturating_duration_since(Instant::now()));
    drop(frames);
    session.wind_down(left() / 2);
    drop(session);
    runtime.shutdown_timeout(left());
    // Nobody can send any more, unless a task could not be ended: then it would wait for ever.
    let spoken = silent.recv_timeout(left());
    let ended = spoken == Err(std_mpsc::RecvTimeoutError::Disconnected);
    if ended && threads.load(Ordering::Acquire) == 0 { status::OK } else { status::FAILED }
}
