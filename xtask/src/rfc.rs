//! `cargo xtask rfc`: the RFC sentences that the code says it obeys.
//!
//! Beside the code stands `//= https://www.rfc-editor.org/rfc/rfcN#section-S`, then the sentence in
//! lines that start with `//#`; beside a test the same with `//= type=test` in between. Every such
//! quote must stand in `specs/rfcN.toml`, word for word; the report says which requirements have
//! code, which have a test, and which are obeyed nowhere.
//!
//! * `rfc/spec.rs`: the requirement sentences of one RFC, and where a quote stands among them
//! * `rfc/annotation.rs`: the quotes in the source
//! * `rfc/coverage.rs`: both put together
//! * `rfc/complete.rs`: RFCs of which every MUST is obeyed or excepted
//! * `rfc/labels.rs`: RFC 9293 by its labels, each obeyed and tested or excepted
//! * `rfc/report.rs`: the table, the list of what is missing, JSON
//! * `rfc/extract.rs`: a new file for `specs/` from the text of an RFC

mod annotation;
mod complete;
mod coverage;
mod extract;
mod labels;
mod report;
mod spec;

use crate::explain::Explained;
use crate::{only_known, tidy};
use std::path::Path;

/// Runs the task; true when every quote stands in the specs and no label is missing.
pub(crate) fn run(root: &Path, options: &[&str]) -> Result<bool, Explained> {
    if let Some((&"extract", rest)) = options.split_first() {
        return extract::run(root, rest);
    }
    only_known(options, &["--missing", "--json"])?;
    let specs = spec::load_all(root)?;
    let exceptions = coverage::load_exceptions(root)?;
    let files = tidy::source::tracked_files(root)?;
    let annotations: Vec<_> = files.iter().flat_map(annotation::scan).collect();
    let coverage = coverage::join(&specs, &annotations, &exceptions);
    if options.contains(&"--json") {
        println!("{}", report::json(&specs, &coverage)?);
    } else {
        print!("{}", report::table(&specs, &coverage));
        if options.contains(&"--missing") {
            print!("{}", report::missing(&specs, &coverage));
        }
    }
    let (line, missing) = labels::report(&specs, &coverage);
    if !options.contains(&"--json") {
        print!("{line}");
    }
    let lost = complete::errors(&specs, &coverage);
    for error in coverage.errors.iter().chain(&missing).chain(&lost) {
        eprintln!("{error}");
    }
    Ok(coverage.errors.is_empty() && missing.is_empty() && lost.is_empty())
}
