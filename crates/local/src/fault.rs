//! Places where a test lets this thread die, as a kill between two stores would.

#[cfg(test)]
use std::cell::Cell;

#[cfg(test)]
thread_local! {
    static DEADLY: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// A test may end the thread here.
#[inline(always)]
pub(crate) fn point(name: &'static str) {
    #[cfg(test)]
    if DEADLY.get() == Some(name) {
        DEADLY.set(None);
        std::panic::panic_any(Died);
    }
    let _ = name;
}

/// What a thread ends with that a test has killed.
#[cfg(test)]
struct Died;

/// Runs `work` until it comes to the point `name`, which it must.
#[cfg(test)]
pub(crate) fn kill_at(name: &'static str, work: impl FnOnce()) {
    DEADLY.set(Some(name));
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    DEADLY.set(None);
    let died = outcome.is_err_and(|why| why.is::<Died>());
    assert!(died, "it did not come to {name}");
}
