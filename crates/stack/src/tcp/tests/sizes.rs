//! What a connection takes, part by part. A part that grows fails here first; numbers may only go
//! down, or say in the commit what the bytes buy.

use crate::ip::Path;
use crate::tcp::assembler::Assembler;
use crate::tcp::autotune::{AutoTune, ReceiverRtt};
use crate::tcp::congestion::Congestion;
use crate::tcp::connection::{Connection, Open, TimeWait};
use crate::tcp::dormant::{Dormant, Halves};
use crate::tcp::handshake::Opening;
use crate::tcp::header::Template;
use crate::tcp::rack::Rack;
use crate::tcp::recv::{OutOfOrder, Recv};
use crate::tcp::request::Request;
use crate::tcp::rtt::RttEstimator;
use crate::tcp::send::Send;
use crate::tcp::send_queue::SendQueue;
use crate::tcp::sent::Sent;
use crate::tcp::settings::Settings;
use crate::tcp::table::{Entry, Place};

/// (part, bytes it takes, bytes it may take)
macro_rules! parts {
    ($($part:ty => $most:literal),* $(,)?) => {
        [$((stringify!($part), size_of::<$part>(), $most)),*]
    };
}

/// What an idle connection takes in all: its place, its halves with what the allocator adds, its
/// timer, and its share of the index, which is between a half and seven eighths full.
#[test]
fn a_dormant_connection_takes_less_than_a_kibibyte() {
    let index = (size_of::<u32>() + 1) * 2 + 2;
    let timer = 24;
    let allocator = 16;
    let all = Place::SIZE + size_of::<Halves>() + allocator + timer + index;
    std::eprintln!("{all} bytes");
    assert!(all <= 1024, "{all} bytes");
}

#[test]
fn each_part_stays_within_its_budget() {
    let parts = parts![
        Entry => 384,
        Connection => 368,
        Path => 96,
        Settings => 80,
        Opening => 96,
        TimeWait => 40,
        Open => 1536,
        Send => 960,
        Sent => 136,
        Rack => 48,
        RttEstimator => 168,
        Congestion => 184,
        SendQueue => 96,
        Recv => 416,
        Assembler<OutOfOrder> => 88,
        AutoTune => 32,
        ReceiverRtt => 40,
        Option<Template> => 144,
        Option<Request> => 104,
        Dormant => 64,
        Halves => 584,
    ];
    for (part, bytes, most) in parts {
        std::eprintln!("{part:24} {bytes:5} of {most:5}");
    }
    for (part, bytes, most) in parts {
        assert!(bytes <= most, "{part}: {bytes} bytes, at most {most}");
    }
}
