//! How the gateway's ends of its sockets are set up, and in which pieces answers are written.
//!
//! A client that takes little but goes on taking must be told from one that takes nothing. What the
//! gateway sees of it is only that the system has room again, and that comes late: after a part of
//! its own buffer is free, and after the client's system has freed a whole packet as it merged it.
//! With a small buffer and small pieces a client that reads 1 kB/s was seen to move every 23 s or
//! sooner on a quiet machine, with the system's own up to 128 s apart (Linux, loopback).
//! [`super::reader`] sees a client on this machine move at once; this is for the others.

use std::io::{self, IoSlice};

use socket2::SockRef;
use tokio::net::TcpStream;

/// Bytes of an answer that may wait in the system for a client to take them; the system doubles
/// it for its own needs.
const SEND_BUFFER: usize = 4 * 1024;

/// The most that is written at once. Larger pieces than the buffer would also wait for delayed
/// acknowledgements (2 MB/s measured); these pass at 100 MB/s.
const PIECE: usize = 1024;

/// Slices written together: the size line of a chunk, its bytes, its end, and one to come.
const TOGETHER: usize = 4;

/// Shapes a connection that was just accepted.
///
/// # Errors
/// The connection is gone already.
pub(super) fn shape(stream: &TcpStream) -> io::Result<()> {
    // Without it small answers wait for the client's acknowledgement.
    stream.set_nodelay(true)?;
    if cfg!(target_os = "linux") {
        SockRef::from(stream).set_send_buffer_size(SEND_BUFFER)?;
    }
    Ok(())
}

/// As much of `bytes` as is written at once.
pub(super) fn piece(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(PIECE)]
}

/// The same of several slices, and how many there are.
pub(super) fn pieces<'a>(slices: &'a [IoSlice<'a>]) -> ([IoSlice<'a>; TOGETHER], usize) {
    let mut few = [IoSlice::new(&[]); TOGETHER];
    let (mut count, mut left) = (0, PIECE);
    for slice in slices.iter().filter(|slice| !slice.is_empty()) {
        if count == TOGETHER || left == 0 {
            break;
        }
        let taken = &slice[..slice.len().min(left)];
        few[count] = IoSlice::new(taken);
        count += 1;
        left -= taken.len();
    }
    (few, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_the_front_of_what_there_is_and_never_too_large() {
        let (size, data, end) = (b"fa0\r\n".as_slice(), vec![b'x'; 4000], b"\r\n".as_slice());
        let slices = [size, b"", &data, end].map(IoSlice::new);
        let (few, count) = pieces(&slices);
        assert_eq!(count, 2, "the size line and the front of the data");
        assert_eq!(few.iter().map(|slice| slice.len()).sum::<usize>(), PIECE);
        assert_eq!(&few[0][..], size);
        assert_eq!(piece(&data).len(), PIECE);
        assert_eq!(piece(end), end, "what is small goes whole");
    }
}
