//! `gannet-loader`: the file that is executed in place of a static program, so that ld.so brings
//! the library into its process. All the work is the library's (`loader/`): here it is only called.
#![no_main]
#![allow(unsafe_code)]

use libc::{c_char, c_int};

type Load = unsafe extern "C" fn(*mut *mut c_char) -> c_int;

/// What the C library calls.
#[unsafe(no_mangle)]
extern "C" fn main(_count: c_int, argv: *mut *mut c_char) -> c_int {
    // SAFETY: a name that ends with a zero byte.
    let load = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"gannet_load".as_ptr()) };
    if load.is_null() {
        return without_library(argv);
    }
    // SAFETY: the library's function of that name has this signature; the arguments are the C
    // library's.
    unsafe { std::mem::transmute::<*mut libc::c_void, Load>(load)(argv) }
}

/// `LD_PRELOAD` does not name the library, or ld.so does not heed it.
fn without_library(argv: *mut *mut c_char) -> c_int {
    let text = b"gannet: a static program is not carried\n\
        why: its environment has an LD_PRELOAD without gannet's library\n\
        try: start it with `gannet run`, and leave LD_PRELOAD as it is\n";
    // SAFETY: strings of this process; an exec that fails changes nothing.
    unsafe {
        if libc::getenv(c"GANNET_QUIET".as_ptr()).is_null() {
            libc::write(2, text.as_ptr().cast(), text.len());
        }
        let path = libc::getenv(c"GANNET_LOAD".as_ptr());
        if !path.is_null() {
            libc::execv(path, argv.cast());
        }
    }
    126
}
