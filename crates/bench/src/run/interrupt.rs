//! Ctrl-C: a flag that every wait looks at, so that workers are ended and nothing is left behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::error::Problem;

/// Whether the user asked to stop.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Catches the signals that ask a program to end.
    ///
    /// # Errors
    /// When a signal cannot be caught.
    pub fn install() -> Result<Self, Problem> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&flag)).map_err(|error| {
                Problem::new(
                    "cannot catch Ctrl-C",
                    error,
                    "run it from an ordinary terminal",
                )
            })?;
        }
        Ok(Self(flag))
    }

    /// Asks to stop.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Fails once somebody asked to stop.
    ///
    /// # Errors
    /// [`Problem::interrupted`].
    pub fn check(&self) -> Result<(), Problem> {
        match self.0.load(Ordering::Relaxed) {
            true => Err(Problem::interrupted()),
            false => Ok(()),
        }
    }
}
