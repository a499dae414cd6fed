//! What runs before the program's `main`.

use crate::{border, calls, passing, state};

#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    state::attach();
    if let Some(state) = state::get() {
        calls::prepare_forks();
        passing::adopt_inherited(state);
        state::is_complete(state);
        let _ = border::raise();
    }
}
