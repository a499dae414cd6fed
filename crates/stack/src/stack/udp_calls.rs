//! The calls on UDP sockets: see [`crate::udp::Udp`], which does the work.

use core::net::{IpAddr, SocketAddr};

use gannet_base::Instant;
use gannet_link::Driver;

use super::Stack;
use crate::ip::Interface;
use crate::udp::{
    BindError, Binding, Datagram, GroupError, SourceChange, UdpError, UdpId, UdpOption, UdpStatus,
};

impl<D: Driver> Stack<D> {
    /// A socket on `local` (address 0.0.0.0: every address of ours; port 0: any free one).
    ///
    /// # Errors
    /// See [`BindError`].
    pub fn udp_bind(&mut self, local: SocketAddr) -> Result<UdpId, BindError> {
        self.udp.bind(&self.ip, local, Binding::default())
    }

    /// As [`Stack::udp_bind`], for one family alone or together with others: see [`Binding`].
    ///
    /// # Errors
    /// See [`BindError`].
    pub fn udp_bind_as(&mut self, local: SocketAddr, how: Binding) -> Result<UdpId, BindError> {
        self.udp.bind(&self.ip, local, how)
    }

    /// From now on the socket talks to `remote` alone; `None`: to everybody again.
    ///
    /// # Errors
    /// [`UdpError::Closed`], [`UdpError::InvalidDestination`], [`UdpError::NoRoute`].
    pub fn udp_connect(&mut self, id: UdpId, remote: Option<SocketAddr>) -> Result<(), UdpError> {
        self.udp.connect(&self.ip, id, remote)
    }

    /// Closes the socket. What was sent goes on its way; what was not read is thrown away.
    pub fn udp_close(&mut self, id: UdpId) {
        self.udp.close(&mut self.ip, id);
    }

    /// Sends one datagram, to `to` or, if that is `None`, to the connected peer. Its length.
    ///
    /// # Errors
    /// See [`UdpError`].
    #[inline]
    pub fn udp_send_to(
        &mut self,
        now: Instant,
        id: UdpId,
        data: &[u8],
        to: Option<SocketAddr>,
    ) -> Result<usize, UdpError> {
        self.udp.send_to(&mut self.ip, now, id, data, to)
    }

    /// Sends the datagrams that lie back to back in `data`, `size` bytes each, the last perhaps
    /// shorter; how many were taken, at least one.
    ///
    /// # Errors
    /// See [`UdpError`]; nothing was taken then.
    pub fn udp_send_batch(
        &mut self,
        now: Instant,
        id: UdpId,
        to: Option<SocketAddr>,
        data: &[u8],
        size: usize,
    ) -> Result<usize, UdpError> {
        self.udp.send_batch(&mut self.ip, now, id, to, (data, size))
    }

    /// Sends datagrams of any sizes to any destinations; how many were taken, at least one.
    ///
    /// # Errors
    /// See [`UdpError`]; that of the first datagram, nothing was taken then.
    pub fn udp_send_many(
        &mut self,
        now: Instant,
        id: UdpId,
        datagrams: &[(&[u8], SocketAddr)],
    ) -> Result<usize, UdpError> {
        self.udp.send_many(&mut self.ip, now, id, datagrams)
    }

    /// Copies the next datagram into `out` and removes it: bytes copied, length of the datagram
    /// (what does not fit is lost), sender.
    ///
    /// # Errors
    /// [`UdpError::WouldBlock`], [`UdpError::Closed`], and once what went wrong earlier.
    #[inline]
    pub fn udp_recv_from(
        &mut self,
        id: UdpId,
        out: &mut [u8],
    ) -> Result<(usize, usize, SocketAddr), UdpError> {
        self.udp.recv_from(&mut self.ip, id, out)
    }

    /// As [`Stack::udp_recv_from`], but leaves the datagram where it is.
    ///
    /// # Errors
    /// As [`Stack::udp_recv_from`].
    pub fn udp_peek_from(
        &mut self,
        id: UdpId,
        out: &mut [u8],
    ) -> Result<(usize, usize, SocketAddr), UdpError> {
        self.udp.peek_from(&mut self.ip, id, out)
    }

    /// Fills `buffer` back to back with as many datagrams as fit and as `out` has places for; how
    /// many, at least one. Only a first datagram longer than all of `buffer` is cut.
    ///
    /// # Errors
    /// As [`Stack::udp_recv_from`].
    pub fn udp_recv_batch(
        &mut self,
        id: UdpId,
        buffer: &mut [u8],
        out: &mut [Datagram],
    ) -> Result<usize, UdpError> {
        self.udp.recv_batch(&mut self.ip, id, buffer, out)
    }

    /// Copies as many datagrams of one size from one sender as `out` holds, back to back, and
    /// removes them: bytes copied, size of each (only the last may be shorter), sender.
    ///
    /// # Errors
    /// As [`Stack::udp_recv_from`].
    pub fn udp_recv_segments(
        &mut self,
        id: UdpId,
        out: &mut [u8],
    ) -> Result<(usize, usize, SocketAddr), UdpError> {
        self.udp.recv_segments(&mut self.ip, id, out)
    }

    /// From now on the socket gets what is sent to its port at `group` by the link that `interface`
    /// means.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub fn udp_join_group(
        &mut self,
        id: UdpId,
        group: IpAddr,
        interface: impl Into<Interface>,
    ) -> Result<(), GroupError> {
        self.udp
            .join_group(&mut self.ip, id, group, interface.into())
    }

    /// Changes the sources that the socket takes of `group` on the link that `interface` means.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub fn udp_change_source(
        &mut self,
        id: UdpId,
        (group, source): (IpAddr, IpAddr),
        change: SourceChange,
        interface: impl Into<Interface>,
    ) -> Result<(), GroupError> {
        let what = (group, source, change);
        self.udp
            .change_source(&mut self.ip, id, what, interface.into())
    }

    /// Takes back what [`Stack::udp_join_group`] did.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub fn udp_leave_group(
        &mut self,
        id: UdpId,
        group: IpAddr,
        interface: impl Into<Interface>,
    ) -> Result<(), GroupError> {
        self.udp
            .leave_group(&mut self.ip, id, group, interface.into())
    }

    /// What can be done with a socket right now; `None` when the id names none.
    pub fn udp_status(&self, id: UdpId) -> Option<UdpStatus> {
        self.udp.status(id)
    }

    /// Our end and, when connected, the peer's; `None` when the id names none.
    pub fn udp_addresses(&self, id: UdpId) -> Option<(SocketAddr, Option<SocketAddr>)> {
        self.udp.addresses(id)
    }

    /// Sets one option; `false` when the id names no socket.
    pub fn udp_set_option(&mut self, id: UdpId, option: UdpOption) -> bool {
        self.udp.set_option(id, option)
    }

    /// Takes the error that the next call would report.
    pub fn udp_take_error(&mut self, id: UdpId) -> Option<UdpError> {
        self.udp.take_error(id)
    }

    /// Sockets whose readiness may have changed since the last call, each once.
    pub fn udp_take_ready(&mut self) -> Option<UdpId> {
        self.udp.take_ready()
    }
}
