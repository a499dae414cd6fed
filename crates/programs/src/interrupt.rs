//! An interrupted run ends what it started before it ends itself.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on the signals that end a program are only noted.
pub(crate) fn watch() -> std::io::Result<()> {
    let flag = INTERRUPTED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(flag))?;
    }
    Ok(())
}

/// Whether one of them came.
pub(crate) fn came() -> bool {
    let flag = INTERRUPTED.get();
    flag.is_some_and(|flag| flag.load(Ordering::Relaxed))
}
