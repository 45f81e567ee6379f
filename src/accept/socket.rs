//! How the gateway's ends of its sockets are set up.

use std::io;

use socket2::SockRef;
use tokio::net::TcpStream;

/// Bytes of an answer that may wait in the system for a client to take them. The rest waits in
/// the upstream, and a client that takes little is still seen to take some: the system tells of
/// room only when a third of this is free.
const SEND_BUFFER: usize = 16 * 1024;

/// Shapes a connection that was just accepted.
///
/// # Errors
/// The connection is gone already.
pub(super) fn shape(stream: &TcpStream) -> io::Result<()> {
    // Without it small answers wait for the client's acknowledgement.
    stream.set_nodelay(true)?;
    SockRef::from(stream).set_send_buffer_size(SEND_BUFFER)
}
