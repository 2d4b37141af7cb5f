//! Panics of code that another program has compiled in: each is reported with its text, its place and whose code it was.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook};
use std::pin::Pin;
use std::sync::Once;
use std::task::{Context, Poll};

use ralph_orchestrator_contract::BuildError;

thread_local! {
    /// Whether code on this thread is running that is not ours.
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
    /// Where the last panic of such code was.
    static LOCATION: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Has the places of panics kept, once for all. What the program itself does with panics, it still does.
fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            if IS_GUARDED.try_with(Cell::get).unwrap_or(false) {
                let location = info.location().map(ToString::to_string);
                // A thread that is about to end has no such data any more.
                drop(LOCATION.try_with(|last| last.replace(location)));
            }
            before(info);
        }));
    });
}

/// Calls code that is not ours.
///
/// # Errors
/// It panicked: the text and the place.
pub(crate) fn catch_panic<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    install_hook();
    let was_guarded = IS_GUARDED.replace(true);
    let called = catch_unwind(AssertUnwindSafe(call));
    IS_GUARDED.set(was_guarded);
    called.map_err(|payload| {
        let text = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a panic without a message".to_owned());
        match LOCATION.take() {
            Some(location) => format!("{text} (at {location})"),
            None => text,
        }
    })
}

/// Builds something of code that is not ours; `describe` says of a panic whose it is.
///
/// # Errors
/// It cannot be built, or panics.
pub(crate) fn build_guarded<T>(
    build: impl FnOnce() -> Result<T, BuildError>,
    describe: impl FnOnce(&str) -> String,
) -> Result<T, BuildError> {
    catch_panic(build).map_err(|panic| BuildError::at("", describe(&panic))).flatten()
}

/// A future that ends with the text and the place of its panic.
pub(crate) struct CatchPanic<'a, T>(Option<Pin<Box<dyn Future<Output = T> + Send + 'a>>>);

impl<'a, T> CatchPanic<'a, T> {
    /// Guards a future.
    pub(crate) fn new(future: Pin<Box<dyn Future<Output = T> + Send + 'a>>) -> Self {
        Self(Some(future))
    }

    /// Drops the future before its end.
    ///
    /// # Errors
    /// Dropping it panicked: the text and the place.
    pub(crate) fn end(&mut self) -> Result<(), String> {
        let future = self.0.take();
        catch_panic(|| drop(future))
    }
}

impl<T> Future for CatchPanic<'_, T> {
    type Output = Result<T, String>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(future) = &mut self.0 else { return Poll::Pending };
        let polled = match catch_panic(|| future.as_mut().poll(context)) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(value)) => Ok(value),
            Err(panic) => Err(panic),
        };
        // What it still holds may panic, too.
        let ended = self.end();
        Poll::Ready(polled.and_then(|value| ended.map(|()| value)))
    }
}

impl<T> Drop for CatchPanic<'_, T> {
    fn drop(&mut self) {
        // Nobody waits for it any more: the hook of the program has reported it.
        drop(self.end());
    }
}
