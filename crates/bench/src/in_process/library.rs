//! Which library.

use super::{gannet, smoltcp, two_copies};
use crate::error::Problem;
use crate::role::{InProcessJob, Library, Report};

/// Runs a TCP stream through a library.
///
/// # Errors
/// When the stack refuses, stands still or delivers a wrong byte.
pub fn run(job: &InProcessJob) -> Result<Report, Problem> {
    match job.library {
        Library::Gannet => gannet::stream(&job.load),
        Library::GannetInPlace => gannet::stream_in_place(&job.load),
        Library::TwoCopies => Ok(two_copies::run(&job.load)),
        Library::Smoltcp => smoltcp::stream(&job.load, 65_535),
        Library::SmoltcpInPlace => smoltcp::stream_in_place(&job.load),
        Library::SmoltcpSmallPackets => smoltcp::stream(&job.load, 1_500),
    }
}
