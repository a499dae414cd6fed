//! A driver that shows every frame to somebody on its way.

use gannet_link::driver::Received;
use gannet_link::frame::FRAME_MAX;
use gannet_link::slot::{RANGES_MAX, flags};
use gannet_link::{
    Capabilities, Checksum, Driver, Endpoint, Frame, LinkState, Medium, Pool, Range, RxChecksum,
    Slot, Space, View,
};

/// Which way a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To us.
    In,
    /// From us.
    Out,
}

/// One frame as it passes.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Which way.
    pub direction: Direction,
    /// What the first byte belongs to.
    pub medium: Medium,
    /// All bytes of the frame.
    pub bytes: &'a [u8],
    /// Payload bytes per segment of a super-segment; else 0.
    pub gso_size: u16,
    /// The transport checksum field need not hold the checksum: somebody vouches for the bytes, or
    /// fills it in later.
    pub checksum_open: bool,
}

/// Who looks.
pub trait Sink {
    /// A frame passes. Must not block for long, and has no way to disturb the traffic.
    fn frame(&mut self, seen: &Seen<'_>);
}

/// A driver with somebody who looks at every frame both ways: out when the driver accepts it, in
/// when it hands it over, checked.
pub struct Watched<D, S> {
    driver: D,
    sink: S,
    /// The bytes of the frame at hand, in one piece.
    bytes: Vec<u8>,
}

impl<D: Driver, S: Sink> Watched<D, S> {
    /// `driver`, watched by `sink`.
    pub fn new(driver: D, sink: S) -> Self {
        let bytes = vec![0; FRAME_MAX as usize];
        Watched {
            driver,
            sink,
            bytes,
        }
    }

    /// The same for a whole endpoint. Its counts of refused slots start again.
    pub fn endpoint(endpoint: Endpoint<D>, sink: S) -> Endpoint<Self> {
        let Endpoint { pool, driver, .. } = endpoint;
        Endpoint::new(pool, Watched::new(driver, sink))
    }

    /// The driver within.
    pub fn inner(&self) -> &D {
        &self.driver
    }

    /// The driver within, for what the trait does not cover.
    pub fn inner_mut(&mut self) -> &mut D {
        &mut self.driver
    }

    /// Who looks.
    pub fn sink(&self) -> &S {
        &self.sink
    }

    /// The bytes of a frame to go out, gathered; how many.
    fn gather_outgoing(&mut self, pool: &Pool, slot: &Slot) -> usize {
        let mut ranges = [Range::EMPTY; RANGES_MAX];
        let count = slot.range_count().min(RANGES_MAX);
        for (index, range) in ranges.iter_mut().take(count).enumerate() {
            let (offset, len) = slot.raw_range(index);
            let space = Space::Own;
            *range = Range { offset, len, space };
        }
        self.gather(pool, slot.inline(), ranges.get(..count).unwrap_or(&[]))
    }

    fn show_incoming(&mut self, pool: &Pool, frame: &Frame) {
        let len = self.gather(pool, frame.head(), frame.ranges());
        let checksum_open = frame.checksum() == RxChecksum::Valid;
        self.show(Direction::In, len, frame.gso_size(), checksum_open);
    }

    fn show(&mut self, direction: Direction, len: usize, gso_size: u16, checksum_open: bool) {
        self.sink.frame(&Seen {
            direction,
            medium: self.driver.capabilities().medium,
            bytes: self.bytes.get(..len).unwrap_or(&[]),
            gso_size,
            checksum_open,
        });
    }

    /// Copies a frame's bytes into one piece; how many.
    fn gather(&mut self, pool: &Pool, inline: &[u8], ranges: &[Range]) -> usize {
        let Watched { driver, bytes, .. } = self;
        let mut len = 0;
        let mut put = |from: &[u8]| {
            let Some(to) = bytes.get_mut(len..len + from.len()) else {
                return;
            };
            to.copy_from_slice(from);
            len += from.len();
        };
        put(inline);
        for &range in ranges.iter().filter(|range| range.space == Space::Own) {
            put(pool.bytes(range).unwrap_or(&[]));
        }
        for &range in ranges.iter().filter(|range| range.space == Space::Peer) {
            let to = bytes.get_mut(len..).unwrap_or(&mut []);
            let room = to.len().min(range.len as usize);
            len += driver.read(range, to.get_mut(..room).unwrap_or(&mut []));
        }
        len
    }
}

impl<D: Driver, S: Sink> Driver for Watched<D, S> {
    fn capabilities(&self) -> &Capabilities {
        self.driver.capabilities()
    }

    fn transmit(&mut self, pool: &mut Pool, slot: &Slot) -> bool {
        // The driver may send the frame at once and let go of its bytes: look before.
        let len = self.gather_outgoing(pool, slot);
        if !self.driver.transmit(pool, slot) {
            return false;
        }
        let open = slot.flags() & (flags::CSUM_PARTIAL | flags::CSUM_VALID) != 0
            || self.driver.capabilities().checksum == Checksum::None;
        self.show(Direction::Out, len, slot.gso_size(), open);
        true
    }

    fn room(&mut self) -> usize {
        self.driver.room()
    }

    fn receive(&mut self, pool: &mut Pool, frame: &mut Frame) -> Received {
        let received = self.driver.receive(pool, frame);
        if received == Received::Frame {
            self.show_incoming(pool, frame);
        }
        received
    }

    fn reclaim(&mut self, pool: &mut Pool) -> usize {
        self.driver.reclaim(pool)
    }

    fn flush(&mut self, pool: &mut Pool) {
        self.driver.flush(pool);
    }

    fn release(&mut self, range: Range) {
        self.driver.release(range);
    }

    fn read(&self, range: Range, out: &mut [u8]) -> usize {
        self.driver.read(range, out)
    }

    fn view(&self, range: Range) -> Option<View> {
        self.driver.view(range)
    }

    fn arm(&mut self) -> bool {
        self.driver.arm()
    }

    fn disarm(&mut self) {
        self.driver.disarm();
    }

    fn state(&self) -> LinkState {
        self.driver.state()
    }
}
