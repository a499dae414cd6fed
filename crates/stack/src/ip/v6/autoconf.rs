//! Addresses that nobody gave us: link-local ones (RFC 4862 section 5.3) and those made of
//! advertised prefixes (section 5.5), with interface identifiers that are stable on one network and
//! say nothing on another (RFC 7217).

use core::net::Ipv6Addr;
use core::time::Duration;

use gannet_base::Instant;
use gannet_link::Driver;
use gannet_wire::nd::Prefix;

use super::super::layer::Ip;
use super::Six;
use super::own::{AUTOCONF_MAX, Origin, Own};
use super::routers::Soliciting;
use crate::counters::DropReason;
use crate::hash::Purpose;
use crate::link::LinkId;

/// Lifetimes of all ones never end.
const FOREVER: u32 = u32::MAX;
/// RFC 4862 section 5.5.3 (e): what nobody may make an address's life shorter than, at once.
const TWO_HOURS: Duration = Duration::from_secs(7200);
/// Bits of a prefix that addresses are made of, and of our interface identifiers.
const HALF: u8 = 64;

impl Six {
    /// The address in the /64 of `prefix` on `link` (RFC 7217 section 5); `attempts` others were
    /// found in use.
    //= https://www.rfc-editor.org/rfc/rfc7217#section-5
    //# RID = F(Prefix, Net_Iface, Network_ID, DAD_Counter, secret_key)
    //= https://www.rfc-editor.org/rfc/rfc7217#section-5
    //# IPv6 implementations conforming to this specification MUST generate Interface Identifiers
    //# using the algorithm specified in this section as a replacement for any other algorithms for
    //# generating "stable" addresses with SLAAC (such as those specified in [RFC2464], [RFC2467],
    //# and [RFC2470]).
    //= https://www.rfc-editor.org/rfc/rfc7217#section-5
    //# The method specified in this document MUST be employed for generating the Interface
    //# Identifiers with SLAAC for all the stable addresses, including IPv6 global, link-local, and
    //# unique-local addresses.
    //= https://www.rfc-editor.org/rfc/rfc7217#section-5
    //# Unless otherwise noted, all of the parameters included in the expression below MUST be
    //# included when generating an Interface Identifier.
    pub(super) fn opaque_address(&self, link: LinkId, prefix: Ipv6Addr, attempts: u8) -> Ipv6Addr {
        let network = prefix.to_bits() >> HALF;
        let mut counter = attempts;
        loop {
            let mut bytes = [0; 13];
            let (head, tail) = bytes.split_at_mut(8);
            head.copy_from_slice(&(network as u64).to_be_bytes());
            if let Some((counters, number)) = tail.split_first_mut() {
                *counters = counter;
                number.copy_from_slice(&link.number().to_be_bytes());
            }
            let identifier = self.key.hash(Purpose::InterfaceIdentifier, &bytes);
            if !is_reserved(identifier) {
                return Ipv6Addr::from_bits(network << HALF | u128::from(identifier));
            }
            counter = counter.wrapping_add(16);
        }
    }
}

//= https://www.rfc-editor.org/rfc/rfc7217#section-5
//# The resulting Interface Identifier SHOULD be compared against the
//# reserved IPv6 Interface Identifiers [RFC5453] [IANA-RESERVED-IID]
fn is_reserved(identifier: u64) -> bool {
    const ANYCAST: u64 = 0xfdff_ffff_ffff_ff80;
    const ETHERNET: u64 = 0x0200_5eff_fe00_0000;
    identifier == 0
        || (ANYCAST..=ANYCAST + 0x7f).contains(&identifier)
        || (ETHERNET..=ETHERNET + 0x00ff_ffff).contains(&identifier)
}

impl<D: Driver> Ip<D> {
    /// From now on the link has an address of its own, asks for routers and takes addresses of the
    /// prefixes that they advertise.
    pub(crate) fn autoconfigure(&mut self, link: LinkId) {
        if !self.is_ethernet(link) || self.six.soliciting.iter().any(|s| s.link == link) {
            return;
        }
        self.six.soliciting.push(Soliciting::new(link));
        self.take_link_local(link);
    }

    /// Every Ethernet on which IPv6 is spoken has a link-local address (RFC 4291 section 2.1).
    pub(in crate::ip) fn take_link_local(&mut self, link: LinkId) {
        let mut own = self.six.own.iter().filter(|own| own.link == link);
        let has = own.any(|own| own.address.is_unicast_link_local());
        if has || !self.is_ethernet(link) {
            return;
        }
        let prefix = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0);
        let address = self.six.opaque_address(link, prefix, 0);
        self.take_address(Own::new(link, address, HALF, Origin::LinkLocal));
    }

    /// A router advertised a prefix to make addresses of (RFC 4862 section 5.5.3).
    pub(super) fn prefix_offered(
        &mut self,
        now: Instant,
        link: LinkId,
        offer: &Prefix,
    ) -> Result<(), DropReason> {
        //= https://www.rfc-editor.org/rfc/rfc4862#section-5.5.3
        //# b) If the prefix is the link-local prefix, silently ignore the
        //# Prefix Information option.
        //= https://www.rfc-editor.org/rfc/rfc4862#section-5.5.3
        //# c) If the preferred lifetime is greater than the valid lifetime,
        //# silently ignore the Prefix Information option.
        let unusable = offer.prefix.is_unicast_link_local()
            || offer.prefix.is_multicast()
            || offer.preferred_lifetime > offer.valid_lifetime
            || offer.len != HALF;
        if unusable {
            return Err(DropReason::DiscoveryIgnored);
        }
        let (valid, preferred) = (
            until(now, offer.valid_lifetime),
            until(now, offer.preferred_lifetime),
        );
        let network = offer.prefix.to_bits() >> HALF;
        let mut known = false;
        let of_prefix = self.six.own.iter_mut().filter(|own| {
            own.link == link
                && own.origin == Origin::Autoconf
                && own.address.to_bits() >> HALF == network
        });
        for own in of_prefix {
            known = true;
            own.preferred_until = preferred;
            //= https://www.rfc-editor.org/rfc/rfc4862#section-5.5.3
            //# If the received Valid Lifetime is greater than 2 hours or
            //# greater than RemainingLifetime, set the valid lifetime of the
            //# corresponding address to the advertised Valid Lifetime.
            let two_hours = now + TWO_HOURS;
            if valid > two_hours || valid > own.valid_until {
                own.valid_until = valid;
            } else if own.valid_until > two_hours {
                own.valid_until = two_hours;
            }
        }
        if known || offer.valid_lifetime == 0 {
            return Ok(());
        }
        let autoconf = |own: &&Own| own.link == link && own.origin == Origin::Autoconf;
        if self.six.own.iter().filter(autoconf).count() >= AUTOCONF_MAX {
            return Err(DropReason::DiscoveryTableFull);
        }
        let address = self.six.opaque_address(link, offer.prefix, 0);
        // all 128 bits: what is on the link is another question (RFC 5942 section 4)
        let own = Own::new(link, address, 128, Origin::Autoconf);
        self.take_address(Own {
            preferred_until: preferred,
            valid_until: valid,
            ..own
        });
        Ok(())
    }
}

/// The end of a lifetime in seconds.
pub(super) fn until(now: Instant, seconds: u32) -> Instant {
    match seconds {
        FOREVER => Instant::FAR_FUTURE,
        seconds => now + Duration::from_secs(u64::from(seconds)),
    }
}
