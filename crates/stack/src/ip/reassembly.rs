//! Fragments put together (RFC 791, RFC 815, RFC 1122 section 3.3.2, RFC 8200 section 4.5), for
//! both families.
//!
//! A fragment is copied at once to its final place in blocks of the link it came by, and its own
//! blocks go home: what others send in pieces never pins what we receive into, whatever the
//! pieces' sizes, and a complete datagram is a frame of at most eight ranges like any other. (To
//! refer to the fragments where they lie would save the copy, but a frame refers to eight ranges
//! and 64 KiB come in 45 fragments; and every fragment would cost a block.)
//!
//! Nothing is believed twice: a fragment that overlaps another or contradicts the length told by
//! the last one spoils the whole datagram, in both families (teardrop, CVE-2020-17438, RFC 5722).
//! Exact duplicates are ignored; networks duplicate.
//!
//! Memory is bounded for all datagrams together; who is thrown out when it runs short says
//! `shelf.rs`.
//!
//! | file | job |
//! |---|---|
//! | `reassembly.rs` | [`Reassembly`]: from fragment to datagram |
//! | `reassembly/datagram.rs` | one incomplete datagram and its bytes |
//! | `reassembly/coverage.rs` | which parts of it have come |
//! | `reassembly/shelf.rs` | all of them, by age and source |

mod coverage;
mod datagram;
mod shelf;

use core::net::IpAddr;
use core::time::Duration;

use gannet_base::Instant;
use gannet_link::frame::Bounds;
use gannet_link::slot::RANGES_MAX;
use gannet_link::{Driver, Frame, Range, Slot, Space};
use gannet_wire::IpProtocol;
use hashbrown::HashMap;

use self::datagram::{Datagram, Outcome};
use self::shelf::{DrawerId, Shelf};
use crate::config::IpConfig;
use crate::counters::{DropReason, Drops};
use crate::hash::{HashKey, KeyedState, Purpose};
use crate::link::{LinkId, Links};

/// Longest header that is kept of a first fragment: IPv6 with a fragment header.
pub(super) const HEAD_MAX: usize = 48;
/// Bytes of a first fragment's payload that are quoted when the others do not come.
const QUOTE_MAX: usize = 512;

/// What the fragments of one datagram have in common (RFC 791 section 2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// Where they come in; those of one datagram that come by two links never meet.
    pub(super) link: LinkId,
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    /// Identification.
    pub(super) ident: u32,
    /// IPv4 only: 0 in IPv6, whose identifications serve all protocols.
    pub(super) protocol: u8,
}

/// The header of a fragment as it came, for what of it concerns the whole datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    /// Its bytes, to be quoted in ICMP errors.
    pub(super) bytes: [u8; HEAD_MAX],
    /// How many; 0 when they cannot be quoted.
    pub(super) len: usize,
    /// Type of service, or traffic class.
    pub(super) tos: u8,
    /// What the payload is.
    pub(super) protocol: u8,
}

/// One fragment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// Where its first byte belongs.
    pub(super) offset: u32,
    /// Number of bytes.
    pub(super) len: u32,
    /// Others follow.
    pub(super) more: bool,
    pub(super) head: Head,
}

impl Piece {
    /// Where the byte behind its last one belongs.
    fn end(&self) -> u32 {
        self.offset + self.len
    }
}

/// A datagram that is complete.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whole {
    /// The header of its first fragment.
    pub(super) head: Head,
}

/// A datagram whose fragments did not all come, but the first did.
pub(crate) struct Expired {
    pub(crate) link: LinkId,
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    /// Its header and first bytes.
    quote: [u8; HEAD_MAX + QUOTE_MAX],
    quote_len: usize,
}

impl Expired {
    /// Its header and first bytes.
    pub(crate) fn quote(&self) -> &[u8] {
        self.quote.get(..self.quote_len).unwrap_or(&[])
    }
}

/// All incomplete datagrams of a host.
pub(super) struct Reassembly {
    numbers: HashMap<Key, u32, KeyedState>,
    shelf: Shelf,
    hash: HashKey,
    limit: usize,
    timeout_v4: Duration,
    timeout_v6: Duration,
    /// Nothing expires before.
    due: Option<Instant>,
}

impl Reassembly {
    pub(super) fn new(config: &IpConfig, hash: HashKey) -> Self {
        Reassembly {
            numbers: HashMap::with_hasher(KeyedState::new(hash)),
            shelf: Shelf::new(),
            hash,
            limit: config.reassembly_memory,
            timeout_v4: config.reassembly_timeout_v4,
            timeout_v6: config.reassembly_timeout_v6,
            due: None,
        }
    }

    /// A fragment arrives; its bytes are what is left of `frame`, which stays the caller's to
    /// release unless the datagram is complete: then it has been released, and is replaced by the
    /// datagram's payload.
    ///
    /// # Errors
    /// Why the fragment was thrown away, perhaps with others.
    pub(super) fn arrives<D: Driver>(
        &mut self,
        now: Instant,
        key: &Key,
        piece: &Piece,
        (links, drops): (&mut Links<D>, &mut Drops),
        frame: &mut Frame,
    ) -> Result<Option<Whole>, DropReason> {
        possible(piece, key.destination.is_ipv6())?;
        let number = self.number(now, key, links)?;
        self.make_room(number, piece, (links, drops))?;
        let outcome = self.add(number, piece, links, frame);
        match outcome {
            Ok(Outcome::Partial) => Ok(None),
            Ok(Outcome::Complete) => self.finish(number, links, frame).map(Some),
            Err(reason @ (DropReason::FragmentOverlap | DropReason::FragmentConflict)) => {
                //= https://www.rfc-editor.org/rfc/rfc8200#section-4.5
                //# If any of the fragments being reassembled overlap with any other fragments being
                //# reassembled for the same packet, reassembly of that packet must be abandoned and
                //# all the fragments that have been received for that packet must be discarded, and
                //# no ICMP error messages should be sent.
                self.spoil(number, links);
                Err(reason)
            }
            Err(reason) => Err(reason),
        }
    }

    /// The datagram that a fragment belongs to; begun if there is none.
    fn number<D: Driver>(
        &mut self,
        now: Instant,
        key: &Key,
        links: &Links<D>,
    ) -> Result<u32, DropReason> {
        if let Some(&number) = self.numbers.get(key) {
            return Ok(number);
        }
        let link = links.get(key.link).ok_or(DropReason::NoMemory)?;
        //= https://www.rfc-editor.org/rfc/rfc1122#section-3.3.2
        //# There MUST be a reassembly timeout.
        let (timeout, octets) = match key.source {
            IpAddr::V4(source) => (self.timeout_v4, source.to_ipv6_mapped().octets()),
            //= https://www.rfc-editor.org/rfc/rfc8200#section-4.5
            //# If insufficient fragments are received to complete reassembly of a packet within 60
            //# seconds of the reception of the first-arriving fragment of that packet, reassembly
            //# of that packet must be abandoned and all the fragments that have been received for
            //# that packet must be discarded.
            IpAddr::V6(source) => (self.timeout_v6, source.octets()),
        };
        let expires = now + timeout;
        let datagram = Datagram::new(*key, expires, link.endpoint.pool.block_bytes());
        let hash = self.hash.hash(Purpose::Flow, &octets);
        let drawer = DrawerId::new(hash, key.source.is_ipv6());
        let number = self.shelf.insert(drawer, datagram);
        self.numbers.insert(*key, number);
        self.due = Some(self.due.map_or(expires, |due| due.min(expires)));
        Ok(number)
    }

    /// Throws others out until `piece` fits, or the datagram itself when it is the one to go.
    fn make_room<D: Driver>(
        &mut self,
        number: u32,
        piece: &Piece,
        (links, drops): (&mut Links<D>, &mut Drops),
    ) -> Result<(), DropReason> {
        loop {
            let Some(datagram) = self.shelf.get_mut(number) else {
                return Err(DropReason::FragmentEvicted);
            };
            let more = datagram.cost_with(piece) - datagram.cost();
            if datagram.spoilt || self.shelf.bytes() + more <= self.limit {
                return Ok(());
            }
            let victim = self.shelf.victim().ok_or(DropReason::FragmentEvicted)?;
            self.discard(victim, links);
            if victim == number {
                return Err(DropReason::FragmentEvicted);
            }
            drops.add(DropReason::FragmentEvicted);
        }
    }

    fn add<D: Driver>(
        &mut self,
        number: u32,
        piece: &Piece,
        links: &mut Links<D>,
        frame: &Frame,
    ) -> Result<Outcome, DropReason> {
        let datagram = self.shelf.get_mut(number).ok_or(DropReason::NoMemory)?;
        if datagram.spoilt {
            return Err(DropReason::FragmentOverlap);
        }
        let link = links.get_mut(datagram.key.link);
        let link = link.ok_or(DropReason::NoMemory)?;
        let before = datagram.cost();
        let outcome = datagram.add(piece, &mut link.endpoint, frame);
        let after = datagram.cost();
        self.shelf.charge(number, before, after);
        outcome
    }

    /// All fragments are there: the frame becomes the datagram.
    fn finish<D: Driver>(
        &mut self,
        number: u32,
        links: &mut Links<D>,
        frame: &mut Frame,
    ) -> Result<Whole, DropReason> {
        let mut datagram = self.take(number).ok_or(DropReason::NoMemory)?;
        let link = links.get_mut(datagram.key.link);
        let endpoint = &mut link.ok_or(DropReason::NoMemory)?.endpoint;
        let ecn = datagram.ecn();
        let (Ok(ecn), Some((mut head, _))) = (ecn, datagram.first) else {
            datagram.release(&mut endpoint.pool);
            return Err(DropReason::FragmentEcn);
        };
        head.tos = head.tos & !3 | ecn;
        let (ranges, count) = datagram.into_ranges(&endpoint.pool);
        endpoint.release_frame(frame);
        let bounds = Bounds {
            space: Space::Own,
            segment_bytes: endpoint.pool.block_bytes() * endpoint.pool.blocks() as u32,
            block_bytes: endpoint.pool.block_bytes(),
        };
        frame.load(&bounds, |slot| refer(slot, ranges.get(..count)));
        Ok(Whole { head })
    }

    /// A datagram that contradicts itself: its bytes are given up, and in IPv6 it is remembered
    /// until its time is over, so that fragments to come are not taken for another datagram's.
    /// IPv4's identifications return too soon for that.
    //= https://www.rfc-editor.org/rfc/rfc5722#section-4
    //# When reassembling an IPv6 datagram, if one or more its constituent fragments is determined
    //# to be an overlapping fragment, the entire datagram (and any constituent fragments,
    //# including those not yet received) MUST be silently discarded.
    fn spoil<D: Driver>(&mut self, number: u32, links: &mut Links<D>) {
        let Some(datagram) = self.shelf.get_mut(number) else {
            return;
        };
        if datagram.key.source.is_ipv4() {
            self.discard(number, links);
            return;
        }
        let before = datagram.cost();
        datagram.spoilt = true;
        if let Some(link) = links.get_mut(datagram.key.link) {
            datagram.release(&mut link.endpoint.pool);
        }
        let after = datagram.cost();
        self.shelf.charge(number, before, after);
    }

    /// Takes a datagram out, with its blocks.
    fn take(&mut self, number: u32) -> Option<Datagram> {
        let datagram = self.shelf.remove(number)?;
        self.numbers.remove(&datagram.key);
        if self.shelf.len() == 0 {
            self.due = None;
        }
        Some(datagram)
    }

    fn discard<D: Driver>(&mut self, number: u32, links: &mut Links<D>) {
        if let Some(mut datagram) = self.take(number)
            && let Some(link) = links.get_mut(datagram.key.link)
        {
            datagram.release(&mut link.endpoint.pool);
        }
    }

    /// The next datagram whose time is over by `now`: thrown away, and returned when its sender
    /// may be told. `None`: there is none left.
    pub(super) fn expire<D: Driver>(
        &mut self,
        now: Instant,
        (links, drops): (&mut Links<D>, &mut Drops),
    ) -> Option<Expired> {
        while self.due.is_some_and(|due| due <= now) {
            let next = self.shelf.next_to_expire();
            let Some((number, _)) = next.filter(|(_, expires)| *expires <= now) else {
                self.due = next.map(|(_, expires)| expires);
                return None;
            };
            drops.add(DropReason::FragmentTimeout);
            let mut datagram = self.take(number)?;
            let Some(link) = links.get_mut(datagram.key.link) else {
                continue;
            };
            let told = (!datagram.spoilt).then(|| Expired::of(&datagram, &link.endpoint.pool));
            datagram.release(&mut link.endpoint.pool);
            if let Some(told) = told.flatten() {
                return Some(told);
            }
        }
        None
    }

    /// When [`Reassembly::expire`] has something to do, perhaps.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.due
    }

    /// The link goes: what came by it goes, too.
    pub(super) fn forget<D: Driver>(&mut self, link: LinkId, links: &mut Links<D>) {
        while let Some(number) = self.shelf.find(|d| d.key.link == link) {
            self.discard(number, links);
        }
    }
}

impl Expired {
    /// `None` when the first fragment has not come: nobody is told then.
    fn of(datagram: &Datagram, pool: &gannet_link::Pool) -> Option<Self> {
        let (head, _) = datagram.first.filter(|(head, _)| head.len > 0)?;
        let mut quote = [0; HEAD_MAX + QUOTE_MAX];
        quote
            .get_mut(..head.len)?
            .copy_from_slice(head.bytes.get(..head.len)?);
        let room = quote.get_mut(head.len..head.len + QUOTE_MAX)?;
        let quote_len = head.len + datagram.quote(pool, room);
        Some(Expired {
            link: datagram.key.link,
            source: datagram.key.source,
            destination: datagram.key.destination,
            quote,
            quote_len,
        })
    }
}

fn refer(slot: &mut Slot, ranges: Option<&[Range]>) -> bool {
    slot.clear();
    let ranges = ranges.unwrap_or(&[]);
    debug_assert!(ranges.len() <= RANGES_MAX);
    ranges.iter().all(|&r| slot.push_range(r))
}

/// What no fragment of an honest sender is like.
fn possible(piece: &Piece, is_ipv6: bool) -> Result<(), DropReason> {
    // Most payload behind the header that the whole datagram would have.
    //= https://www.rfc-editor.org/rfc/rfc8200#section-5
    //# A node must be able to accept a fragmented packet that, after reassembly, is as large as
    //# 1500 octets.
    //= https://www.rfc-editor.org/rfc/rfc791#section-3.1
    //# All hosts must be prepared to accept datagrams of up to 576 octets (whether they arrive
    //# whole or in fragments).
    //= https://www.rfc-editor.org/rfc/rfc791#section-3.2
    //# Every internet destination must be able to receive a datagram of 576 octets either in one
    //# piece or in fragments to be reassembled.
    //= https://www.rfc-editor.org/rfc/rfc1122#section-3.3.2
    //# EMTU_R MUST be greater than or equal to 576, SHOULD be either configurable or indefinite,
    //# and SHOULD be greater than or equal to the MTU of the connected network(s).
    let most = if is_ipv6 { 65_535 } else { 65_535 - 20 };
    if piece.len == 0 {
        return Err(DropReason::FragmentEmpty);
    }
    if piece.more && !piece.len.is_multiple_of(coverage::UNIT) {
        return Err(DropReason::FragmentLength);
    }
    // The ping of death.
    if piece.offset.saturating_add(piece.len) > most {
        return Err(DropReason::FragmentTooLong);
    }
    // RFC 1858: a filter that looks at the first fragment must have seen the flags, and RFC 7112:
    // all headers.
    let least = match IpProtocol(piece.head.protocol) {
        IpProtocol::TCP => 20,
        _ => 8,
    };
    let first_too_small = piece.offset == 0 && piece.more && piece.len < least;
    let within_header = piece.offset > 0 && piece.offset < least;
    match first_too_small || within_header {
        true => Err(DropReason::FragmentTiny),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests;
