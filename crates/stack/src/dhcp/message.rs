//! The messages of a client (RFC 2131 section 4.4 and table 5).

use core::net::Ipv4Addr;

use gannet_wire::MacAddr;
use gannet_wire::dhcpv4::{DhcpOption, Header, MAX_LEN, MessageType, code};

/// The parameters that the client asks for.
const WANTED: [u8; 7] = [
    code::SUBNET_MASK,
    code::ROUTERS,
    code::DNS_SERVERS,
    code::MTU,
    code::LEASE_TIME,
    code::RENEWAL_TIME,
    code::REBINDING_TIME,
];

/// What differs between the messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) kind: MessageType,
    pub(super) xid: u32,
    pub(super) secs: u16,
    /// The address that the client uses; 0.0.0.0 when it has none.
    pub(super) own: Ipv4Addr,
    /// The address that it wants, or does not want any more.
    pub(super) requested: Option<Ipv4Addr>,
    pub(super) server: Option<Ipv4Addr>,
}

impl Message {
    /// Writes the message of the client with this hardware address and identifier; its length.
    //= https://www.rfc-editor.org/rfc/rfc2131#section-3.2
    //# If the client used a 'client identifier' to obtain its address, the client MUST use the same
    //# 'client identifier' in the DHCPREQUEST message.
    pub(super) fn write(&self, mac: MacAddr, id: &[u8], out: &mut [u8]) -> Option<usize> {
        let header = Header {
            to_server: true,
            xid: self.xid,
            secs: self.secs,
            //= https://www.rfc-editor.org/rfc/rfc2131#section-4.1
            //# A client that cannot receive unicast IP datagrams until its protocol software has
            //# been configured with an IP address SHOULD set the BROADCAST bit in the 'flags'
            //# field to 1 in any DHCPDISCOVER or DHCPREQUEST messages that client sends.
            broadcast: self.own.is_unspecified() && self.asks(),
            ciaddr: self.own,
            yiaddr: Ipv4Addr::UNSPECIFIED,
            siaddr: Ipv4Addr::UNSPECIFIED,
            giaddr: Ipv4Addr::UNSPECIFIED,
            chaddr: mac,
        };
        //= https://www.rfc-editor.org/rfc/rfc2131#section-3.1
        //# If the client used a 'client identifier' when it obtained the lease, it MUST use the
        //# same 'client identifier' in the DHCPRELEASE message.
        let mut options = [DhcpOption::MessageType(self.kind); 6];
        let mut count = 1;
        let mut push = |option| {
            if let Some(place) = options.get_mut(count) {
                *place = option;
                count += 1;
            }
        };
        push(DhcpOption::ClientId(id));
        if let Some(address) = self.requested {
            push(DhcpOption::RequestedAddress(address));
        }
        if let Some(server) = self.server {
            push(DhcpOption::ServerId(server));
        }
        if self.asks() {
            push(DhcpOption::ParameterRequest(&WANTED));
            // What a message may be long, headers of IP and UDP included.
            push(DhcpOption::MaxMessageSize(MAX_LEN as u16 + 28));
        }
        header.emit(options.get(..count)?, out)
    }

    //= https://www.rfc-editor.org/rfc/rfc2131#section-3.5
    //# If the client includes a list of parameters in a DHCPDISCOVER message, it MUST include that
    //# list in any subsequent DHCPREQUEST messages.
    fn asks(&self) -> bool {
        matches!(self.kind, MessageType::DISCOVER | MessageType::REQUEST)
    }
}
