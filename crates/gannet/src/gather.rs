//! What many calls send leaves together: one system call, or one doorbell, for all of it.

use crate::host::{Host, Inner};
use std::sync::Arc;

/// While it lives, what the host's sockets send waits; it leaves when this is dropped, or when a
/// call waits. For loops that serve many sockets in a row. See [`Host::gather`].
#[derive(Debug)]
pub struct Gathering {
    host: Arc<Inner>,
}

impl Host {
    /// From now on, until the value is dropped, what is sent waits to leave together.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// # use gannet::{Host, UdpSocket};
    /// let network = format!("doc-gather-{}", std::process::id());
    /// let a = Host::builder().channel(&network, "10.0.0.1/24").build()?;
    /// let b = Host::builder().channel(&network, "10.0.0.2/24").build()?;
    /// let (from, to) = (UdpSocket::bind(&a, "10.0.0.1:7")?, UdpSocket::bind(&b, "10.0.0.2:7")?);
    /// let together = a.gather();
    /// for n in 0..10 {
    ///     from.send_to(&[n], "10.0.0.2:7")?;
    /// }
    /// drop(together);
    /// for n in 0..10 {
    ///     let mut byte = [0];
    ///     to.recv(&mut byte)?;
    ///     assert_eq!(byte, [n]);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn gather(&self) -> Gathering {
        let host = self.inner().clone();
        let mut shard = host.shared.lock();
        shard.turned = shard.turned.max(crate::clock::now());
        shard.gathering += 1;
        drop(shard);
        Gathering { host }
    }
}

impl Drop for Gathering {
    fn drop(&mut self) {
        self.host.shared.call(|shard, _| {
            shard.gathering = shard.gathering.saturating_sub(1);
        });
    }
}
