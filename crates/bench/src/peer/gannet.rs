//! Gannet's sockets: a host of its own in each worker, joined by a channel or by an interface.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::time::Duration;

use gannet::{Datagram, Host, TcpConfig, TcpListener, TcpStream, UdpSocket};

use super::{BATCH, Batch, ByteStream, DatagramPeer, Datagrams, PATIENCE_MS, Span, StreamPeer};
use crate::role::{Attachment, Tcp};

/// A host with one link.
#[derive(Debug)]
pub struct Gannet {
    host: Host,
}

impl Gannet {
    /// A host with this address (in a network of 256), attached here.
    ///
    /// # Errors
    /// Those of `gannet::HostBuilder::build`.
    pub fn new(attachment: &Attachment, address: IpAddr, tcp: Option<&Tcp>) -> io::Result<Self> {
        let address = format!("{address}/24");
        let builder = match attachment {
            Attachment::Channel(network) => Host::builder().channel(network, &address),
            Attachment::Interface(name) => Host::builder().packet(name, &address),
        };
        let builder = match tcp {
            Some(tcp) => builder.tcp(settings(tcp)?),
            None => builder,
        };
        Ok(Self {
            host: builder.build()?,
        })
    }
}

/// Gannet's settings for what the kernel calls so.
fn settings(tcp: &Tcp) -> io::Result<TcpConfig> {
    let unknown = |error| io::Error::new(io::ErrorKind::Unsupported, error);
    Ok(TcpConfig {
        congestion: tcp.congestion.parse().map_err(unknown)?,
        send_buffer_max: tcp.buffer,
        receive_buffer_max: tcp.buffer,
        ..TcpConfig::default()
    })
}

impl StreamPeer for Gannet {
    type Listener = TcpListener;
    type Stream = GannetStream;

    fn listen(&self, at: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
        let listener = TcpListener::bind(&self.host, at)?;
        let at = listener.local_addr()?;
        Ok((listener, at))
    }

    fn accept(&self, listener: &mut TcpListener) -> io::Result<GannetStream> {
        let (inner, _) = listener.accept()?;
        GannetStream::new(inner)
    }

    fn connect(&self, to: SocketAddr) -> io::Result<GannetStream> {
        GannetStream::new(TcpStream::connect(&self.host, to)?)
    }
}

/// A TCP connection of Gannet.
#[derive(Debug)]
pub struct GannetStream(TcpStream);

impl GannetStream {
    fn new(inner: TcpStream) -> io::Result<Self> {
        inner.set_nodelay(true)?;
        Ok(Self(inner))
    }
}

impl Read for GannetStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for GannetStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl ByteStream for GannetStream {
    fn finish(&mut self) -> io::Result<()> {
        self.0.shutdown(Shutdown::Write)
    }
}

impl DatagramPeer for Gannet {
    type Socket = GannetDatagrams;

    fn bind(&self, at: SocketAddr) -> io::Result<(GannetDatagrams, SocketAddr)> {
        let inner = UdpSocket::bind(&self.host, at)?;
        inner.set_read_timeout(Some(Duration::from_millis(PATIENCE_MS)))?;
        let at = inner.local_addr()?;
        Ok((
            GannetDatagrams {
                inner,
                places: vec![Datagram::EMPTY; BATCH],
            },
            at,
        ))
    }
}

/// A UDP socket of Gannet.
#[derive(Debug)]
pub struct GannetDatagrams {
    inner: UdpSocket,
    places: Vec<Datagram>,
}

impl Datagrams for GannetDatagrams {
    fn connect(&mut self, to: SocketAddr) -> io::Result<()> {
        self.inner.connect(to)
    }

    fn receive_from(&mut self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.inner.recv_from(into)
    }

    fn send(&mut self, datagram: &[u8]) -> io::Result<usize> {
        self.inner.send(datagram)
    }

    fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.inner.recv(into)
    }

    fn send_batch(&mut self, batch: &Batch) -> io::Result<usize> {
        self.inner.send_batch(batch.memory(), batch.place())
    }

    fn receive_batch(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let (memory, spans) = batch.parts();
        let count = self.inner.recv_batch(memory, &mut self.places)?;
        for (span, datagram) in spans.iter_mut().zip(&self.places).take(count) {
            *span = Span {
                start: datagram.offset,
                length: datagram.len,
            };
        }
        Ok(count)
    }
}
