//! Tells a client that reads slowly from one that does not read at all.
//!
//! Only the second may be cut. What the gateway sees by itself is that the system takes bytes of
//! an answer again, and the system does so late: after a good part of the client's buffer is
//! free, which at a kilobyte a second takes minutes. Of a client on loopback Linux also knows how
//! much it has yet to take, to the byte; so before one is cut, that is looked at.
//!
//! Not here: how answers are cut into pieces ([`super::socket`]).

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::clock::Stopwatch;

/// The files that list connections, of both families.
const LISTS: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];

/// The lists come in parts, and where many connections come and go meanwhile one may be missing.
const LOOKS: u32 = 5;

/// A limit on how long a client may take no byte of an answer.
#[derive(Default)]
pub(super) struct WriteClock {
    /// Runs for half of the limit: what was seen at its middle is compared with its end.
    half: Stopwatch,
    client: Option<Client>,
    looking: Option<Pin<Box<dyn Future<Output = Option<u64>> + Send>>>,
    /// What was yet to be taken at the last look.
    seen: Option<u64>,
    /// Halves that have passed without a byte being taken.
    still: u32,
}

/// A client on this machine: the two ends of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Client {
    theirs: SocketAddr,
    ours: SocketAddr,
}

impl std::fmt::Debug for WriteClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteClock")
            .field("client", &self.client)
            .field("seen", &self.seen)
            .field("still", &self.still)
            .finish_non_exhaustive()
    }
}

impl WriteClock {
    /// A clock for this client, if it is on this machine.
    pub(super) fn of(client: Option<Client>) -> Self {
        Self {
            client,
            ..Self::default()
        }
    }

    /// Runs while `progress` is pending and turns into an error when the client has taken
    /// nothing for `limit`; for half of that longer if it stopped after it had moved.
    pub(super) fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        limit: Duration,
        progress: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if progress.is_ready() {
            self.half.stop();
            (self.looking, self.seen, self.still) = (None, None, 0);
            return progress;
        }
        self.poll_over(cx, limit).map(|()| {
            Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the client reads nothing",
            ))
        })
    }

    fn poll_over(&mut self, cx: &mut Context<'_>, limit: Duration) -> Poll<()> {
        loop {
            if let Some(looking) = &mut self.looking {
                let now = ready!(looking.as_mut().poll(cx));
                self.looking = None;
                let moved = self.seen.is_some() && now.is_some() && now != self.seen;
                self.seen = now.or(self.seen);
                self.still = if moved { 0 } else { self.still + 1 };
                if self.still >= 2 {
                    return Poll::Ready(());
                }
            }
            ready!(self.half.poll_over(cx, limit / 2));
            self.half.stop();
            let client = self.client;
            self.looking = Some(Box::pin(async move {
                // The list may be long, and is read beside the others.
                let look = move || client.and_then(Client::yet_to_take);
                tokio::task::spawn_blocking(look).await.ok().flatten()
            }));
        }
    }
}

impl Client {
    /// The client at the other end, if it is on this machine.
    pub(super) fn of(theirs: SocketAddr, ours: SocketAddr) -> Option<Self> {
        let here = cfg!(target_os = "linux") && theirs.ip().to_canonical().is_loopback();
        here.then_some(Self { theirs, ours })
    }

    /// Bytes that are on their way to the client or have arrived, and that it has not taken;
    /// `None` where nobody tells. While nothing more is written they only become fewer.
    fn yet_to_take(self) -> Option<u64> {
        let lists = || LISTS.map(|list| std::fs::read_to_string(list).unwrap_or_default());
        (0..LOOKS).find_map(|_| self.find(&lists().concat()))
    }

    /// The same by the text of the lists: each end is a line of its own.
    fn find(self, lists: &str) -> Option<u64> {
        let (theirs, ours) = (canonical(self.theirs), canonical(self.ours));
        let (mut sent, mut arrived) = (None, None);
        for line in lists.lines() {
            let mut fields = line.split_whitespace().skip(1);
            let ends = (fields.next().and_then(end), fields.next().and_then(end));
            let queues = fields.nth(1).and_then(|queues| queues.split_once(':'));
            let number = |text: &str| u64::from_str_radix(text, 16).ok();
            if ends == (Some(ours), Some(theirs)) {
                sent = queues.and_then(|(queue, _)| number(queue));
            } else if ends == (Some(theirs), Some(ours)) {
                arrived = queues.and_then(|(_, queue)| number(queue));
            }
        }
        Some(sent? + arrived?)
    }
}

/// `0100007F:1F90`: an address as words of the machine's own byte order, and a port.
fn end(text: &str) -> Option<(IpAddr, u16)> {
    let (address, port) = text.split_once(':')?;
    let words = address.as_bytes().chunks(8).map(|word| {
        let word = std::str::from_utf8(word).ok()?;
        Some(u32::from_str_radix(word, 16).ok()?.to_ne_bytes())
    });
    let words: Vec<[u8; 4]> = words.collect::<Option<_>>()?;
    let address = match words.as_slice() {
        [word] => IpAddr::V4(Ipv4Addr::from(*word)),
        [_, _, _, _] => {
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some((address.to_canonical(), u16::from_str_radix(port, 16).ok()?))
}

fn canonical(end: SocketAddr) -> (IpAddr, u16) {
    (end.ip().to_canonical(), end.port())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const HEAD: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";

    fn client(theirs: &str, ours: &str) -> Client {
        Client::of(theirs.parse().unwrap(), ours.parse().unwrap()).unwrap()
    }

    #[cfg(all(target_os = "linux", target_endian = "little"))]
    #[test]
    fn the_clients_own_end_says_what_it_has_yet_to_take() {
        let list = format!(
            "{HEAD}   0: 0100007F:2C93 0100007F:D431 01 00000ABC:00000000 01:0 0 0 0 1 1\n   1: 0100007F:D431 0100007F:2C93 01 00000000:0000FF10 00:0 0 0 0 2 1\n"
        );
        let of = |theirs, ours| client(theirs, ours).find(&list);
        assert_eq!(
            of("127.0.0.1:54321", "127.0.0.1:11411"),
            Some(0xff10 + 0xabc)
        );
        assert_eq!(of("127.0.0.1:54322", "127.0.0.1:11411"), None);
        let six = format!(
            "{HEAD}   0: 00000000000000000000000001000000:D431 00000000000000000000000001000000:2C93 01 00000000:00000007 00:0 0 0 0 2 1\n   1: 00000000000000000000000001000000:2C93 00000000000000000000000001000000:D431 01 00000001:00000000 00:0 0 0 0 2 1\n   2: 0000000000000000FFFF00000100007F:2C93 0000000000000000FFFF00000100007F:D432 01 00000001:00000000 00:0 0 0 0 2 1\n   3: 0000000000000000FFFF00000100007F:D432 0000000000000000FFFF00000100007F:2C93 01 00000000:00000009 00:0 0 0 0 2 1\n"
        );
        let of = |theirs, ours| client(theirs, ours).find(&six);
        assert_eq!(of("[::1]:54321", "[::1]:11411"), Some(8));
        assert_eq!(
            of("127.0.0.1:54322", "127.0.0.1:11411"),
            Some(10),
            "an IPv4 address in an IPv6 socket"
        );
    }

    #[test]
    fn what_is_no_list_says_nothing() {
        let client = Client {
            theirs: "127.0.0.1:1".parse().unwrap(),
            ours: "127.0.0.1:2".parse().unwrap(),
        };
        for text in ["", HEAD, "head\nnonsense\n: : :\n 0: é:1 2:3 01 x\n 0: 1 2"] {
            assert_eq!(client.find(text), None, "{text}");
        }
        let far = "192.0.2.1:1".parse().unwrap();
        assert_eq!(Client::of(far, far), None, "not on this machine");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_client_that_takes_a_byte_at_a_time_is_seen_to_move() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let ours = listener.local_addr().unwrap();
        let mut theirs = tokio::net::TcpStream::connect(ours).await.unwrap();
        let (mut stream, peer) = listener.accept().await.unwrap();
        stream.write_all(&[0; 1000]).await.unwrap();
        let client = Client::of(peer, ours).unwrap();
        while client.yet_to_take() != Some(1000) {
            tokio::task::yield_now().await;
        }
        theirs.read_exact(&mut [0; 1]).await.unwrap();
        assert_eq!(client.yet_to_take(), Some(999));
    }
}
