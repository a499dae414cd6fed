//! Handlers that do not return, or make calls themselves; threads that are cancelled in a call.

use super::Ret;
use super::handler::every;
use crate::far;
use libc::{c_int, c_void, siginfo_t, ucontext_t};
use std::arch::naked_asm;
use std::cell::UnsafeCell;
use std::ptr::{null, null_mut};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

/// What handlers and cases share; cases have one process each.
struct Shared<T>(UnsafeCell<T>);
// SAFETY: one thread uses each of them, and its handlers.
unsafe impl<T> Sync for Shared<T> {}

/// A handler with siginfo and context.
type Handler = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);

fn install(signal: c_int, handler: Handler, flags: c_int, mask: &[c_int]) {
    // SAFETY: zero is a value of it; a function of this program's.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = flags | libc::SA_SIGINFO;
        for signal in mask {
            libc::sigaddset(&raw mut action.sa_mask, *signal);
        }
        libc::sigaction(signal, &raw const action, null_mut());
    }
}

static BEFORE: Shared<Option<ucontext_t>> = Shared(UnsafeCell::new(None));
static WITHIN: Shared<Option<ucontext_t>> = Shared(UnsafeCell::new(None));
static LEAVING: AtomicUsize = AtomicUsize::new(0);

extern "C" fn leave(_: c_int, _: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: the context of `left_by_handler`, which waits in `swapcontext`.
    unsafe {
        if let Some(before) = &*BEFORE.0.get() {
            libc::setcontext(before);
        }
    }
}

extern "C" fn read_for_ever() {
    let fd = LEAVING.load(SeqCst) as c_int;
    let mut byte = 0u8;
    // SAFETY: a place of our own.
    while unsafe { libc::read(fd, (&raw mut byte).cast(), 1) } >= 0 {}
    // A handler that returned would have brought us here.
    super::exit(98);
}

/// Reads until a handler leaves the call by `setcontext`, as by `siglongjmp`: after this time in
/// microseconds.
pub(crate) fn left_by_handler(fd: i32, micros: i64) {
    far::here(fd);
    LEAVING.store(fd as usize, SeqCst);
    install(libc::SIGALRM, leave, 0, &[]);
    let mut stack = vec![0u8; 128 << 10];
    // SAFETY: contexts and a stack of our own, which live until the handler has come back here.
    unsafe {
        let before = (*BEFORE.0.get()).insert(std::mem::zeroed());
        let within = (*WITHIN.0.get()).insert(std::mem::zeroed());
        libc::getcontext(within);
        within.uc_stack.ss_sp = stack.as_mut_ptr().cast();
        within.uc_stack.ss_size = stack.len();
        within.uc_link = null_mut();
        libc::makecontext(within, read_for_ever, 0);
        let time = libc::timeval {
            tv_sec: 0,
            tv_usec: micros,
        };
        let timer = libc::itimerval {
            it_interval: libc::timeval {
                tv_sec: 0,
                tv_usec: 0,
            },
            it_value: time,
        };
        libc::setitimer(libc::ITIMER_REAL, &raw const timer, null_mut());
        libc::swapcontext(before, within);
    }
    std::hint::black_box(&mut stack);
}

type Work = Box<dyn Fn()>;
static WORK: Shared<Option<Work>> = Shared(UnsafeCell::new(None));

extern "C" fn do_work(_: c_int, _: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: set before the handler was installed.
    let (work, errno) = unsafe { (&*WORK.0.get(), libc::__errno_location()) };
    // SAFETY: always a valid place.
    let before = unsafe { *errno };
    if let Some(work) = work {
        work();
    }
    // SAFETY: always a valid place.
    unsafe { *errno = before };
}

/// A handler of SIGALRM that does this.
pub(crate) fn handle_by(flags: i32, work: impl Fn() + 'static) {
    // SAFETY: no handler uses it yet.
    unsafe { *WORK.0.get() = Some(Box::new(work)) };
    install(libc::SIGALRM, do_work, flags, &[]);
}

/// SIGALRM again and again, so many microseconds apart; 0 for no more.
pub(crate) fn alarm_every(micros: i64) {
    every(micros);
}

/// A call in which a thread is cancelled.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Within {
    Read,
    Recv,
    Recvmsg,
    Accept,
    Poll,
    Select,
    EpollWait,
    Write,
}

/// A function of the C library's and its arguments.
#[repr(C)]
struct Call {
    function: usize,
    arguments: [usize; 6],
}

/// Makes the call. Written by hand: what unwinds a thread that is cancelled passes through.
#[unsafe(naked)]
extern "C" fn make(call: *mut c_void) -> *mut c_void {
    naked_asm!(
        ".cfi_startproc",
        "push rbx",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_offset rbx, -16",
        "mov rbx, rdi",
        "mov rdi, [rbx + 8]",
        "mov rsi, [rbx + 16]",
        "mov rdx, [rbx + 24]",
        "mov rcx, [rbx + 32]",
        "mov r8, [rbx + 40]",
        "mov r9, [rbx + 48]",
        "call [rbx]",
        "pop rbx",
        ".cfi_adjust_cfa_offset -8",
        "xor eax, eax",
        "ret",
        ".cfi_endproc",
    )
}

/// `PTHREAD_CANCELED`.
const CANCELLED: usize = usize::MAX;

unsafe extern "C" {
    fn pthread_cancel(thread: libc::pthread_t) -> c_int;
}

/// What calls are given places in.
struct Places {
    room: Vec<u8>,
    vector: libc::iovec,
    message: libc::msghdr,
    set: libc::fd_set,
    entry: libc::pollfd,
}

impl Places {
    fn new(fd: i32) -> Box<Places> {
        // SAFETY: zero is a value of each; the descriptor fits into the set.
        let mut places = unsafe {
            let mut set: libc::fd_set = std::mem::zeroed();
            libc::FD_SET(fd, &raw mut set);
            Box::new(Places {
                room: vec![0; 1 << 23],
                vector: std::mem::zeroed(),
                message: std::mem::zeroed(),
                set,
                entry: std::mem::zeroed(),
            })
        };
        (places.entry.fd, places.entry.events) = (fd, libc::POLLIN);
        places.vector.iov_base = places.room.as_mut_ptr().cast();
        places.vector.iov_len = 9;
        places.message.msg_iov = &raw mut places.vector;
        places.message.msg_iovlen = 1;
        places
    }

    fn call(&mut self, within: Within, fd: i32) -> Call {
        let (number, for_ever) = (fd as usize, -1isize as usize);
        let (at, len) = (self.room.as_mut_ptr() as usize, self.room.len());
        let entry = &raw mut self.entry as usize;
        let set = &raw mut self.set as usize;
        let message = &raw mut self.message as usize;
        let (function, [a, b, c, d]) = match within {
            Within::Read => (libc::read as *const () as usize, [number, at, 9, 0]),
            Within::Recv => (libc::recv as *const () as usize, [number, at, 9, 0]),
            Within::Write => (libc::write as *const () as usize, [number, at, len, 0]),
            Within::Recvmsg => (libc::recvmsg as *const () as usize, [number, message, 0, 0]),
            Within::Accept => (libc::accept as *const () as usize, [number, 0, 0, 0]),
            Within::Poll => (libc::poll as *const () as usize, [entry, 1, for_ever, 0]),
            Within::Select => (libc::select as *const () as usize, [number + 1, set, 0, 0]),
            Within::EpollWait => {
                let function = libc::epoll_wait as *const () as usize;
                (function, [number, at, 1, for_ever])
            }
        };
        Call {
            function,
            arguments: [a, b, c, d, 0, 0],
        }
    }
}

/// A thread that makes the call at `fd`, in which it sleeps, is cancelled: whether that ended it.
pub(crate) fn cancelled_within(within: Within, fd: i32) -> bool {
    far::here(fd);
    let mut places = Places::new(fd);
    let mut call = places.call(within, fd);
    let mut thread = 0;
    let mut ended = null_mut();
    // SAFETY: the thread uses what lives here, and is over when this returns.
    unsafe {
        libc::pthread_create(&raw mut thread, null(), make, (&raw mut call).cast());
        libc::usleep(60_000);
        pthread_cancel(thread);
        libc::pthread_join(thread, &raw mut ended);
    }
    std::hint::black_box((&mut call, &mut places));
    ended as usize == CANCELLED
}

static VALUES: Shared<Vec<i32>> = Shared(UnsafeCell::new(Vec::new()));

extern "C" fn note_value(_: c_int, info: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel's; there is room, so that nothing is allocated.
    unsafe {
        let values = &mut *VALUES.0.get();
        if values.len() < values.capacity() {
            values.push((*info).si_value().sival_ptr as usize as i32);
        }
    }
}

/// Real-time signals that bring values are noted from now on.
pub(crate) fn note_values(room: usize) {
    // SAFETY: no handler uses it yet.
    unsafe { *VALUES.0.get() = Vec::with_capacity(room) };
    install(libc::SIGRTMIN() + 1, note_value, 0, &[]);
}

/// Sends a value to a process in such a signal.
pub(crate) fn send_value(pid: i32, value: i32) -> Ret {
    let value = libc::sigval {
        sival_ptr: value as usize as *mut c_void,
    };
    call!(sigqueue(pid, libc::SIGRTMIN() + 1, value))
}

/// The values that came, in order.
pub(crate) fn values() -> Vec<i32> {
    // SAFETY: handlers only add.
    unsafe { (*VALUES.0.get()).clone() }
}

static STACK: Shared<[u8; 64 << 10]> = Shared(UnsafeCell::new([0; 64 << 10]));
static ON_STACK: AtomicUsize = AtomicUsize::new(0);
static MASKED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn look(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
    let here = 0u8;
    let from = STACK.0.get() as usize;
    let inside = (from..from + (64 << 10)).contains(&(&raw const here as usize));
    ON_STACK.store(1 + usize::from(inside), SeqCst);
    // SAFETY: a place of our own.
    let mut now: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: as above; the kernel's context.
    unsafe {
        libc::sigprocmask(libc::SIG_BLOCK, null(), &raw mut now);
        let is = |signal| libc::sigismember(&raw const now, signal) == 1;
        let during = [libc::SIGALRM, libc::SIGUSR1, libc::SIGUSR2].map(is);
        let after = libc::sigismember(
            &raw const (*context.cast::<ucontext_t>()).uc_sigmask,
            libc::SIGUSR1,
        );
        let bits = during
            .iter()
            .fold(after as usize, |all, bit| all << 1 | usize::from(*bit));
        MASKED.store(bits, SeqCst);
    }
}

/// An alternate stack, and a handler of SIGALRM with these flags, and SIGUSR2 in its mask, that
/// looks around.
pub(crate) fn handle_and_look(flags: i32) {
    let stack = libc::stack_t {
        ss_sp: STACK.0.get().cast(),
        ss_flags: 0,
        ss_size: 64 << 10,
    };
    // SAFETY: a stack of our own, which lives for ever.
    unsafe { libc::sigaltstack(&raw const stack, null_mut()) };
    install(libc::SIGALRM, look, flags, &[libc::SIGUSR2]);
}

/// What it saw: whether it ran on that stack, and which of three signals were blocked.
pub(crate) fn looked() -> String {
    let on = match ON_STACK.load(SeqCst) {
        0 => "never",
        1 => "stack",
        _ => "alternate",
    };
    format!("{on} {:04b}", MASKED.load(SeqCst))
}

/// What `sigaction` says of SIGALRM: default or not, and flags.
pub(crate) fn action_of_alarm() -> String {
    action_of(libc::SIGALRM)
}

/// The same of any signal.
pub(crate) fn action_of(signal: i32) -> String {
    // SAFETY: zero is a value of it; a place of our own.
    let action = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, null(), &raw mut action);
        action
    };
    let ours = [look as *const () as usize, do_work as *const () as usize];
    let handler = match action.sa_sigaction {
        libc::SIG_DFL => "default",
        at if ours.contains(&at) => "own",
        _ => "other",
    };
    // SAFETY: a set of our own.
    let masked = unsafe { libc::sigismember(&raw const action.sa_mask, libc::SIGUSR2) };
    format!("{handler} {:x} {masked}", action.sa_flags & !0x0400_0000)
}
