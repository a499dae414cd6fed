//! What runs before the program's `main`.

use crate::{border, calls, loader, note, passing, real, state};

#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    real::find_all();
    state::attach();
    if let Some(state) = state::get() {
        calls::prepare_forks();
        passing::adopt_inherited(state);
        state::is_complete(state);
        match border::raise() {
            Ok(()) => loader::set_loader(border::own_file().and_then(loader::find_loader)),
            Err(_) => note::names_only(state),
        }
    }
}
