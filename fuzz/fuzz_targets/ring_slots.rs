//! Any bytes as what the other process writes into its memory: slots, completions, control words.
//! What comes out as a frame lies within the segment; nothing that was sent is lost for good.
#![no_main]

use gannet_link::layout::{COMPLETED, RECEIVED, SLOTS};
use gannet_link::peer::own_pool;
use gannet_link::ring::Control;
use gannet_link::slot::SLOT_BYTES;
use gannet_link::{
    Driver, Endpoint, Frame, HeapMemory, Layout, Memory, NoDoorbell, PeerDriver, Slot,
};
use libfuzzer_sys::fuzz_target;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const LAYOUT: Layout = Layout {
    slots: 4,
    completions: 8,
    block_bytes: 2048,
    blocks: 8,
    align: 4096,
};

fuzz_target!(|data: &[u8]| {
    let own: Arc<dyn Memory> = Arc::new(HeapMemory::new(LAYOUT.bytes()));
    let peer: Arc<dyn Memory> = Arc::new(HeapMemory::new(LAYOUT.bytes()));
    let driver = PeerDriver::new((&own, &LAYOUT), (&peer, &LAYOUT), NoDoorbell).unwrap();
    let mut end = Endpoint::new(own_pool(&own, &LAYOUT).unwrap(), driver);
    let write = |at: usize, bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        let control = Control::new(&peer, at).unwrap();
        control.store(u64::from_le_bytes(word), Ordering::Release);
    };
    // Each piece: a completion, how far the peer says to be, and a slot with the turn made right.
    for (turn, piece) in data.chunks(16 + SLOT_BYTES).enumerate() {
        send(&mut end);
        let (numbers, slot) = piece.split_at(piece.len().min(16));
        let right = (turn as u32 + 1).to_le_bytes();
        for (at, bytes) in numbers.chunks(8).enumerate() {
            let completion = LAYOUT.completions_at() + (turn % 8) * 8;
            write([completion, RECEIVED][at], bytes);
        }
        write(COMPLETED, numbers.get(4..8).unwrap_or(&[]));
        for (at, bytes) in slot.chunks(8).enumerate() {
            let mut bytes = bytes.to_vec();
            if at == SLOT_BYTES / 8 - 1 {
                bytes.truncate(4);
                bytes.resize(4, 0);
                bytes.extend(right);
            }
            write(SLOTS + (turn % 4) * SLOT_BYTES + at * 8, &bytes);
        }
        let mut frame = Frame::new();
        while end.receive(&mut frame, &mut 2) {
            look_at(&end, &frame);
            end.release_frame(&frame);
        }
        end.reclaim();
        end.flush();
        end.driver.arm();
        end.driver.disarm();
    }
    end.pool.complete_all();
    end.pool.invariants();
    assert_eq!(end.pool.free_blocks(), LAYOUT.blocks as usize);
});

fn send(end: &mut Endpoint<PeerDriver<NoDoorbell>>) {
    let Some(block) = end.pool.alloc() else {
        return;
    };
    let range = end.pool.range(block, 0, 100);
    let mut slot = Slot::new();
    slot.inline_mut(4).unwrap().fill(1);
    slot.push_range(range);
    let _ = end.transmit(&slot);
    end.pool.release(range);
}

fn look_at(end: &Endpoint<PeerDriver<NoDoorbell>>, frame: &Frame) {
    let mut out = [0; 70_000];
    assert_eq!(end.peek(frame, &mut out), frame.len());
    let mut frame = frame.clone();
    assert!(frame.strip(frame.head().len() / 2));
    frame.truncate(frame.len() / 2);
    assert_eq!(end.peek(&frame, &mut out), frame.len());
}
