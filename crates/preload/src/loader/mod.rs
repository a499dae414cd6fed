//! Static programs. The kernel cannot bring this library into them: they have no `ld.so` that
//! would read `LD_PRELOAD`. So a small dynamic program, `gannet-loader`, is executed in their place
//! with the same arguments; it begins with this library as any other, and hands over to `load.rs`.
//!
//! * `take_over.rs`: whether what is to be executed is static, at every `execve`
//! * `load.rs`: the program's segments in memory, and its beginning
//! * `variables.rs`: how it is told of the program
//! * `auxiliary.rs`: the kernel's words to a new program, made to speak of this one

mod auxiliary;
mod load;
mod take_over;
mod variables;

pub(crate) use load::find_loader;
pub(crate) use take_over::{TakeOver, path_at, set_loader, take_over};
pub(crate) use variables::is_variable;
