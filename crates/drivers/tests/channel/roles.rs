//! What the other process does. One test function is its entry; started without a role it has
//! nothing to do.

use crate::support::{accept, connect, options, receive, send, wait};
use crate::{abuse, death, hostile};
use gannet_drivers::wait::Spinner;
use gannet_drivers::{Directory, Listener};
use std::path::Path;

#[test]
fn other_process() {
    let Ok(role) = std::env::var("GANNET_TEST_ROLE") else {
        return;
    };
    let runtime = std::env::var_os("GANNET_TEST_RUNTIME").unwrap();
    let directory = Directory::open_below(Path::new(&runtime), "test").unwrap();
    match role.as_str() {
        "echo" => echo(&directory),
        "connect_and_echo" => connect_and_echo(&directory),
        "survive" => death::survive(Path::new(&runtime), &directory),
        "leave_an_heir" => death::leave_an_heir(&directory),
        "alone_with_two" => death::alone_with_two(Path::new(&runtime), &directory),
        "lie" => hostile::lie(&directory),
        "storm" => hostile::storm(&directory),
        "be_abused" => abuse::be_abused(&directory),
        "be_flooded" => abuse::be_flooded(&directory),
        other => panic!("no role {other}"),
    }
}

/// Has the name "echo", accepts one channel, sends everything back until the peer is gone.
fn echo(directory: &Directory) {
    let mut listener = Listener::bind(directory, "echo", &options()).unwrap();
    let end = accept(&mut listener);
    send_back(end);
}

/// Connects to "main" and sends everything back.
fn connect_and_echo(directory: &Directory) {
    send_back(connect(directory, "other", "main"));
}

fn send_back(mut end: crate::support::End) {
    let mut spinner = Spinner::default();
    while let Some(bytes) = receive(&mut end) {
        let (head, body) = bytes.split_at(bytes.len().min(40));
        while !send(&mut end, head, body) {
            end.reclaim();
            wait(&mut end, &mut spinner);
        }
        end.flush();
    }
}
