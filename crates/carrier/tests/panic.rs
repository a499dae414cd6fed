//! A carrier that panics, in any of its threads: its process ends at once, and whoever started it
//! can say why. That process is this file once more, whose standard output is the carrier's own, so
//! that it does without the harness of tests.

mod carried;

use carried::{config, network, until};
use gannet_carrier::{carry, start};
use gannet_local::service::{self, Question};
use rustix::io::Errno;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.split_first() {
        Some((word, rest)) if word == "carrier" => be_a_carrier(rest),
        // Whoever only asks which tests there are.
        Some((word, _)) if word == "--list" => ExitCode::SUCCESS,
        _ => {
            a_panic_ends_the_carrier_and_is_told();
            println!("test a_panic_ends_the_carrier_and_is_told ... ok");
            ExitCode::SUCCESS
        }
    }
}

/// Another thread panics as soon as a process has attached.
fn be_a_carrier(words: &[String]) -> ExitCode {
    let host = words.first().map(|word| u64::from_str_radix(word, 16));
    let arena = gannet_local::file_name(host.unwrap().unwrap());
    std::thread::spawn(move || {
        let parent = rustix::process::getppid().unwrap().as_raw_pid();
        let maps = format!("/proc/{parent}/maps");
        until("somebody attaches", || {
            let text = std::fs::read_to_string(&maps).unwrap();
            text.contains(&arena)
        });
        panic!("planted\nin two lines");
    });
    carry(words)
}

fn a_panic_ends_the_carrier_and_is_told() {
    let network = network("panic");
    let config = config(&network, "10.2.0.1/24");
    let own = std::env::current_exe().unwrap();
    let mut started = start(&own, &config).unwrap();
    assert_eq!(started.how_it_ended(), None);
    let answer = service::ask(&config.network().unwrap(), config.host, &Question::Attach).unwrap();
    let _arena = gannet_local::Arena::open(answer.file.unwrap(), true).unwrap();
    let mut ended = None;
    until("it ends", || {
        ended = started.how_it_ended();
        ended.is_some()
    });
    let ended = ended.unwrap();
    let place = Path::new(file!()).file_name().unwrap().to_string_lossy();
    assert!(
        ended.starts_with("it was ended by SIGABRT: panicked at "),
        "{ended}"
    );
    assert!(ended.contains(&*place), "{ended}");
    assert!(ended.ends_with(": planted; in two lines"), "{ended}");
    let asked = service::ask(&config.network().unwrap(), config.host, &Question::Look);
    assert_eq!(asked.err(), Some(Errno::CONNREFUSED));
}
