//! Settings from a file and from the environment of a process: texts that anybody may have written.
#![no_main]

use gannet::settings::{Knob, Settings};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    for read in [Settings::parse("f", text), Settings::from_handover(text)] {
        match read {
            // what was taken is written so that it is taken again, as the same
            Ok(settings) => {
                let again = Settings::from_handover(&settings.handover()).expect("its own words");
                for knob in Knob::all() {
                    assert_eq!(again.text(knob), settings.text(knob));
                    assert_eq!(again.number(knob), settings.number(knob));
                }
                let _ = (settings.tcp(), settings.udp(), settings.link(), settings.place());
            }
            Err(problem) => assert_eq!(problem.to_string().lines().count(), 3, "{problem}"),
        }
    }
});
