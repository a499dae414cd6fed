//! The `gannet` command.
fn main() {}
