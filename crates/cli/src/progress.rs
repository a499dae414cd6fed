//! Progress on the standard error; nothing when that is not a terminal.

use gannet_bench::run::compare::Progress;
use indicatif::{ProgressBar, ProgressStyle};

/// A bar with the run in progress and the time left.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::new(0);
        let style = "{bar:30} {pos}/{len} runs, {eta} left: {msg}";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        Self(bar)
    }
}

impl Progress for Bar {
    fn total(&mut self, runs: usize) {
        self.0.set_length(runs as u64);
    }

    fn begin(&mut self, name: &str) {
        self.0.set_message(name.to_owned());
    }

    fn done(&mut self) {
        self.0.inc(1);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
