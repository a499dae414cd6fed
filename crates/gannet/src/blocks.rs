//! Payload that is not copied: blocks to be filled and sent, and received bytes where they lie.

use crate::host::Inner;
use gannet_link::{OwnedBlock, View};
use gannet_stack::tcp::ReceivedBlock;
use std::io::{self, Write};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Memory that the peer (or the device) will read directly: fill it, then hand it to
/// [`crate::TcpStream::send_block`]. Dropped unsent, it goes back to the host.
///
/// Bytes that were not written keep what an earlier use of this process left there.
#[derive(Debug)]
pub struct SendBlock {
    block: OwnedBlock,
}

impl SendBlock {
    pub(crate) fn new(block: OwnedBlock) -> SendBlock {
        SendBlock { block }
    }

    pub(crate) fn into_inner(self) -> OwnedBlock {
        self.block
    }
}

impl Deref for SendBlock {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.block
    }
}

impl DerefMut for SendBlock {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.block
    }
}

/// Received bytes where the sender (or the device) left them. The sender's memory comes back to it
/// when this is dropped, so do not keep it for long.
///
/// Another process may be able to change the bytes while they are here: there is no `&[u8]` to be
/// had, only copies, each taken once.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// # use gannet::{Host, TcpListener, TcpStream};
/// # let network = format!("doc-blocks-{}", std::process::id());
/// # let server = Host::builder().channel(&network, "10.0.0.1/24").build()?;
/// # let client = Host::builder().channel(&network, "10.0.0.2/24").build()?;
/// # let listener = TcpListener::bind(&server, "10.0.0.1:80")?;
/// # let near = TcpStream::connect(&client, "10.0.0.1:80")?;
/// # let (far, _) = listener.accept()?;
/// let mut block = near.take_block()?;
/// block[..5].copy_from_slice(b"hello");
/// near.send_block(block, 5)?;
///
/// let received = far.recv_block()?.expect("not the end of the stream");
/// let mut text = [0; 5];
/// assert_eq!(received.read_at(0, &mut text), 5);
/// assert_eq!(&text, b"hello");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RecvBlock {
    host: Arc<Inner>,
    /// `None` only while it is being dropped.
    block: Option<ReceivedBlock>,
}

impl RecvBlock {
    pub(crate) fn new(host: Arc<Inner>, block: ReceivedBlock) -> RecvBlock {
        let block = Some(block);
        RecvBlock { host, block }
    }

    fn view(&self) -> Option<&View> {
        self.block.as_ref().map(|b| &b.view)
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.view().map_or(0, View::len)
    }

    /// Whether there are none. There always are some.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where they lie, for code in other languages; null only while this is being dropped. Good for
    /// as long as this exists. The bytes may change while they are read.
    pub fn as_ptr(&self) -> *const u8 {
        self.view().map_or(std::ptr::null(), View::as_ptr)
    }

    /// Copies bytes from position `from` on into `out`; how many, 0 past the end. Takes no lock.
    pub fn read_at(&self, from: usize, out: &mut [u8]) -> usize {
        self.view().map_or(0, |view| view.read_at(from, out))
    }

    /// Writes all bytes to `out`; how many.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn copy_to(&self, out: &mut impl Write) -> io::Result<usize> {
        let mut buffer = [0; 4096];
        let mut done = 0;
        loop {
            let n = self.read_at(done, &mut buffer);
            let Some(bytes) = buffer.get(..n).filter(|b| !b.is_empty()) else {
                return Ok(done);
            };
            out.write_all(bytes)?;
            done += n;
        }
    }

    /// A copy of all bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len()];
        self.read_at(0, &mut bytes);
        bytes
    }
}

impl Drop for RecvBlock {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            let mut shard = self.host.shared.lock();
            shard.stack.tcp_release_block(block);
            shard.stack.flush();
        }
    }
}
