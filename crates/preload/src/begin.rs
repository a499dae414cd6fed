//! What runs before the program's `main`.

use crate::{border, calls, loader, passing, state};

#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    state::attach();
    if let Some(state) = state::get() {
        calls::prepare_forks();
        passing::adopt_inherited(state);
        state::is_complete(state);
        if border::raise().is_ok() {
            loader::set_loader(border::own_file().and_then(loader::find_loader));
        }
    }
}
