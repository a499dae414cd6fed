//! How `gannet run` ends: as the program does, or with one of three statuses of its own, which are
//! those of `env`, `nice` and `timeout`.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

use gannet_bench::Problem;

/// `gannet run` itself failed.
pub(crate) const OWN_FAILURE: u8 = 125;
/// The program cannot be executed.
const NOT_EXECUTABLE: u8 = 126;
/// There is no such program.
const NOT_FOUND: u8 = 127;

/// The program did not start.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) status: u8,
    pub(super) problem: Problem,
}

impl From<Problem> for Failed {
    fn from(problem: Problem) -> Failed {
        Failed {
            status: OWN_FAILURE,
            problem,
        }
    }
}

impl Failed {
    pub(super) fn not_found(problem: Problem) -> Failed {
        Failed {
            status: NOT_FOUND,
            problem,
        }
    }

    pub(super) fn not_executable(problem: Problem) -> Failed {
        Failed {
            status: NOT_EXECUTABLE,
            problem,
        }
    }

    /// What `execve` or `fork` said.
    pub(super) fn starting(program: &str, error: &io::Error) -> Failed {
        let what = format!("cannot start {program}");
        match error.raw_os_error() {
            Some(libc::ENOENT) => {
                let hint = "its full path; a script whose interpreter exists";
                Failed::not_found(Problem::new(what, error, hint))
            }
            Some(libc::ENOEXEC) => {
                let why = "the kernel knows no such format of executables";
                let hint = "a first line like #!/bin/sh, if it is a script";
                Failed::not_executable(Problem::new(what, why, hint))
            }
            Some(libc::EACCES | libc::EPERM | libc::E2BIG | libc::ETXTBSY | libc::ELIBBAD) => {
                Failed::not_executable(Problem::new(what, error, "ls -l, and chmod +x"))
            }
            _ => Problem::new(what, error, "ulimit -a, for a limit that is reached").into(),
        }
    }
}

/// The program's own status; 128 and the number for a signal, as shells have it.
pub(super) fn code_of(status: ExitStatus) -> ExitCode {
    let code = match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(OWN_FAILURE),
        (None, Some(signal)) => u8::try_from(128 + signal).unwrap_or(OWN_FAILURE),
        (None, None) => OWN_FAILURE,
    };
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_those_of_shells() {
        for (raw, code) in [(0, 0), (3 << 8, 3), (255 << 8, 255), (9, 137), (15, 143)] {
            let status = ExitStatus::from_raw(raw);
            assert_eq!(code_of(status), ExitCode::from(code));
        }
        for (errno, code) in [
            (libc::ENOENT, 127),
            (libc::EACCES, 126),
            (libc::ENOEXEC, 126),
            (libc::EAGAIN, 125),
        ] {
            let error = io::Error::from_raw_os_error(errno);
            assert_eq!(Failed::starting("x", &error).status, code);
        }
    }
}
