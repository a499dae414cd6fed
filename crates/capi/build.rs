//! Gives the shared library the name under which programs look for it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Before version 1.0 every minor version may change the interface.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libgannet.so.0");
}
