//! The C interface to the host: the three exported functions, and the host's `emit`.

use std::ffi::c_void;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc as std_mpsc};
use std::time::{Duration, Instant};

use ralph_orchestrator_plugin_abi::{
    ABI_MAJOR, Bytes, DeclPrefix, EmitFn, HOST_API_SIZE, HostApi, OpenFn, PluginDecl, status,
};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

use crate::guard;
use crate::item::PluginDefinition;
use crate::log::{self, LogTarget};
use crate::outbox::Outbox;
use crate::session::PluginSession;

/// The number of worker threads of the plugin's runtime.
const WORKERS: usize = 2;
/// The capacity of the queue of host frames: far more than there are open calls.
const HOST_QUEUE: usize = 4096;

/// Returns the declaration of a plugin.
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

/// The state behind the host's pointer.
struct Handle {
    runtime: Runtime,
    session: Arc<PluginSession>,
    frames: mpsc::Sender<Vec<u8>>,
    threads: Arc<AtomicUsize>,
    /// Disconnected when the outbox thread has ended.
    outbox_ended: std_mpsc::Receiver<()>,
}

/// The host's `emit` function.
struct HostEmit {
    emit: EmitFn,
    ctx: *mut c_void,
}

// SAFETY: the interface says that `emit` may be called from any thread; `ctx` is only handed back.
unsafe impl Send for HostEmit {}

impl HostEmit {
    /// Sends a frame. Returns false if the host accepts no more.
    fn emit(&self, frame: &[u8]) -> bool {
        // SAFETY: the function and `ctx` are those of a `HostApi`, which lives as long as the process;
        // the frame lives for the call.
        let status = unsafe { (self.emit)(self.ctx, Bytes::lend(frame)) };
        matches!(status, status::OK | status::INVALID)
    }
}

/// Catches panics, which must not unwind into the host.
fn catch_panic(call: impl FnOnce() -> i32) -> i32 {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(status::PANIC)
}

/// # Safety
/// To be called as [`PluginDecl::open`] says.
pub unsafe fn open(
    plugin: &'static PluginDefinition,
    host: *const HostApi,
    out: *mut *mut c_void,
) -> i32 {
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
    catch_panic(|| match start(plugin, HostEmit { emit, ctx }) {
        Ok(handle) => {
            // SAFETY: not null, and the host lends it for the call.
            unsafe { out.write(Box::into_raw(Box::new(handle)).cast()) };
            status::OK
        }
        Err(error) => {
            // There is no session yet that could report it.
            drop(writeln!(
                std::io::stderr(),
                "plugin {}: cannot start threads: {error}",
                plugin.name
            ));
            status::FAILED
        }
    })
}

fn start(plugin: &'static PluginDefinition, host: HostEmit) -> std::io::Result<Handle> {
    guard::install();
    log::install();
    let threads = Arc::new(AtomicUsize::new(0));
    let (started, stopped) = (Arc::clone(&threads), Arc::clone(&threads));
    let log = LogTarget::default();
    let thread_log = log.clone();
    let runtime = Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .thread_name("plugin")
        .on_thread_start(move || {
            started.fetch_add(1, Ordering::AcqRel);
            thread_log.bind_thread();
        })
        .on_thread_stop(move || {
            stopped.fetch_sub(1, Ordering::AcqRel);
        })
        .enable_all()
        .build()?;
    let (at_end, outbox_ended) = std_mpsc::channel();
    let outbox = Outbox::start(Box::new(move |frame| host.emit(frame)), at_end)?;
    let session = PluginSession::new(plugin, outbox, log, runtime.handle().clone());
    let (frames, frames_rx) = mpsc::channel(HOST_QUEUE);
    runtime.spawn(Arc::clone(&session).handle_frames(frames_rx));
    runtime.spawn(Arc::clone(&session).abort_when_disconnected());
    Ok(Handle { runtime, session, frames, threads, outbox_ended })
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
    catch_panic(|| match handle.frames.try_send(frame.to_vec()) {
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
    catch_panic(|| shut_down(*handle, Duration::from_millis(timeout_ms)))
}

fn shut_down(handle: Handle, timeout: Duration) -> i32 {
    let Handle { runtime, session, frames, threads, outbox_ended } = handle;
    let until = Instant::now().checked_add(timeout);
    let left = || until.map_or(timeout, |until| until.saturating_duration_since(Instant::now()));
    drop(frames);
    session.shut_down(left() / 2);
    drop(session);
    runtime.shutdown_timeout(left());
    // A task that could not be aborted keeps the outbox open: hence the timeout.
    let received = outbox_ended.recv_timeout(left());
    let ended = received == Err(std_mpsc::RecvTimeoutError::Disconnected);
    if ended && threads.load(Ordering::Acquire) == 0 { status::OK } else { status::FAILED }
}
