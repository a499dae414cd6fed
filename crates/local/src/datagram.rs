//! Datagrams on their way between a program and its carrier: records of a stream, each a header and
//! the payload, sent whole ([`crate::Stream::send_at_least`]).
//!
//! ```text
//! 0       4        6      8             24     28      32
//! | length | family | port | 16 of address | what | errno  | payload
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Bytes of a record's header.
pub const HEADER: usize = 32;
/// Longest payload of a record.
pub const LONGEST: usize = 65_535;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum What {
    /// To the carrier: send this there. From it: this came from there.
    Data = 0,
    /// From the carrier: what was sent there met an error; no payload. The next call reports it if
    /// the socket is connected, see `IP_RECVERR` otherwise.
    Error = 1,
    /// To the carrier: join the group of this address.
    Join = 2,
    /// To the carrier: leave it.
    Leave = 3,
    /// To the carrier: send to and receive from this address only (the address of any host, port 0:
    /// no longer).
    Connect = 4,
}

/// A record's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of payload that follow.
    pub len: u32,
    /// The other end.
    pub address: SocketAddr,
    /// What it is.
    pub what: What,
    /// The hop limit it came with, or is to be sent with (0: the socket's).
    pub ttl: u8,
    /// The type of service it came with.
    pub tos: u8,
    /// Of an [`What::Error`]: which. Of others the scope of an IPv6 address.
    pub code: u32,
}

impl Header {
    /// The header of `len` bytes to or from `address`.
    pub fn data(address: SocketAddr, len: usize) -> Header {
        let code = match address {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(six) => six.scope_id(),
        };
        Header {
            len: len.min(LONGEST) as u32,
            address,
            what: What::Data,
            ttl: 0,
            tos: 0,
            code,
        }
    }

    /// The header that says that what went to `address` met `errno`.
    pub fn error(address: SocketAddr, errno: i32) -> Header {
        Header {
            what: What::Error,
            code: errno as u32,
            ..Header::data(address, 0)
        }
    }

    /// As bytes.
    pub fn pack(&self) -> [u8; HEADER] {
        let (family, address) = match self.address.ip() {
            IpAddr::V4(ip) => {
                let [a, b, c, d] = ip.octets();
                (4u16, [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
            }
            IpAddr::V6(ip) => (6, ip.octets()),
        };
        let mut bytes = [0; HEADER];
        let mut at = 0;
        let mut put = |part: &[u8]| {
            if let Some(place) = bytes.get_mut(at..at + part.len()) {
                place.copy_from_slice(part);
            }
            at += part.len();
        };
        put(&self.len.to_ne_bytes());
        put(&family.to_ne_bytes());
        put(&self.address.port().to_ne_bytes());
        put(&address);
        put(&(self.what as u16).to_ne_bytes());
        put(&[self.ttl, self.tos]);
        put(&self.code.to_ne_bytes());
        bytes
    }

    /// Reads what [`Header::pack`] wrote; `None` for nonsense, after which nothing else in the
    /// stream can be believed.
    pub fn unpack(bytes: &[u8; HEADER]) -> Option<Header> {
        let (len, rest) = bytes.split_first_chunk::<4>()?;
        let (family, rest) = rest.split_first_chunk::<2>()?;
        let (port, rest) = rest.split_first_chunk::<2>()?;
        let (address, rest) = rest.split_first_chunk::<16>()?;
        let (what, rest) = rest.split_first_chunk::<2>()?;
        let (&[ttl, tos], rest) = rest.split_first_chunk::<2>()?;
        let code = u32::from_ne_bytes(rest.try_into().ok()?);
        let len = u32::from_ne_bytes(*len);
        let what = match u16::from_ne_bytes(*what) {
            0 => What::Data,
            1 => What::Error,
            2 => What::Join,
            3 => What::Leave,
            4 => What::Connect,
            _ => return None,
        };
        let port = u16::from_ne_bytes(*port);
        let scope = if what == What::Error { 0 } else { code };
        let address = match u16::from_ne_bytes(*family) {
            4 => {
                let four = address.first_chunk::<4>()?;
                SocketAddr::new(Ipv4Addr::from(*four).into(), port)
            }
            6 => SocketAddrV6::new(Ipv6Addr::from(*address), port, 0, scope).into(),
            _ => return None,
        };
        let sane = len as usize <= LONGEST;
        sane.then_some(Header {
            len,
            address,
            what,
            ttl,
            tos,
            code,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_there_and_back() {
        let mut there = vec![
            Header::data("10.0.0.1:53".parse().unwrap(), 1200),
            Header::data("[fe80::1%3]:53".parse().unwrap(), 0),
            Header::error("[fd00::2]:9".parse().unwrap(), 111),
        ];
        there.push(Header {
            what: What::Join,
            ttl: 7,
            tos: 0xb8,
            ..there[0]
        });
        for header in there {
            assert_eq!(Header::unpack(&header.pack()), Some(header));
        }
    }

    #[test]
    fn nonsense_is_none() {
        let good = Header::data("10.0.0.1:53".parse().unwrap(), 1200).pack();
        for (at, value) in [(2, 9), (4, 5), (24, 9), (25, 1)] {
            let mut bad = good;
            bad[at] = value;
            assert_eq!(Header::unpack(&bad), None, "byte {at}");
        }
    }
}
