//! The border between a program and the kernel: every system call that is made outside of this
//! library arrives here, however it is written.
//!
//! * `arm.rs`: raising the border (syscall user dispatch), for this process and each new thread
//! * `trap.rs`: a call arrives as SIGSYS, the slow way that always works
//! * `machine_code.rs`: what calls look like
//! * `sites.rs`: the place of the call is changed at its first trap, so that later ones jump
//! * `gate.rs`: the entry code, and system calls of the library's own
//! * `dispatch.rs`: which calls concern the library, and what becomes of them
//! * `clone.rs`: threads and children; `forking.rs`: a child in its parent's memory
//! * `actions.rs`: what the program wants of each signal; `signals.rs`: masks, and SIGSYS
//! * `deferred.rs`: signals wait until the library is left; `deliver.rs`: the way out, and handlers
//! * `names.rs`: calls by name, which wait at the border
//! * `tls.rs`, `hosted.rs`: a static program's own thread-local storage, `brk` and name
//! * `thread.rs`: the stack and the words that each thread has for all this
//!
//! ```text
//! program: syscall --first time--> SIGSYS: trap.rs --changes the site--> and once more:
//! program: jmp ---------------------------------------------------------> entry: gate.rs
//! entry: no concern of ours: `syscall` in the site's stub, 3 instructions later
//!        ours: library's stack, registers kept -> dispatch.rs -> back with the result
//! ```
//! Syscall user dispatch lets one range of addresses through: this library's, stubs included.
//! Where the kernel has none of it, or code must not be changed, the functions of `calls/` are all
//! there is: see `is_raised`.

mod actions;
mod arm;
mod clone;
mod deferred;
mod deliver;
mod dispatch;
mod forking;
mod gate;
mod hosted;
mod machine_code;
mod names;
mod signals;
mod sites;
mod thread;
mod tls;
mod trap;

pub(crate) use arm::{is_raised, own_file, raise};
pub(crate) use deliver::{RESTART, RESTART_ALWAYS};
pub(crate) use dispatch::{is_answering, leave_to_kernel, passed};
pub(crate) use gate::kernel as system_call;
pub(crate) use gate::kernel_unless_kept;
pub(crate) use hosted::{Hosted, host, program_if_named};
pub(crate) use names::{
    WOULD_SLEEP, answer, begin_by_name, begin_rest, by_name, end_rest, enter, gives_up_sleep,
    has_looked, in_parts, is_foreign, is_rest, leave, leaves_rest, sleeping_call, stay_here, wait,
    wait_by_name, waiting_call,
};
