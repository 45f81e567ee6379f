//! A client that sends exactly the bytes it is given and leaves as it is told.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;
use socket2::{Domain, SockRef, Socket, Type};

use super::LIMIT;
use super::upstream::reset_on_close;
use super::wire::{Decoder, Framing, Head, find};

/// How the answer's end looked on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The framing said it is complete.
    Whole,
    /// The connection was closed before that.
    Fin,
    /// The connection was reset before that.
    Rst,
}

/// An answer.
#[derive(Debug, Clone)]
pub(crate) struct Response {
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
    pub(crate) end: End,
}

impl Response {
    pub(crate) fn status(&self) -> u16 {
        self.head.status()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("the body is not JSON ({error}): {}", self.text()))
    }

    /// `x-oneslot-code`, or nothing when the gateway refused nothing.
    pub(crate) fn code(&self) -> Option<&str> {
        self.head.get("x-oneslot-code")
    }
}

/// One connection to the gateway.
pub(crate) struct Client {
    socket: TcpStream,
    unread: Vec<u8>,
    head: Option<Head>,
    decoder: Option<Decoder>,
    end: Option<End>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).expect("the gateway accepts"))
    }

    /// A client whose receive buffer is as small as the system allows: a reader that can be stuck.
    pub(crate) fn connect_narrow(address: SocketAddr) -> Self {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)
            .expect("a socket can be made");
        socket
            .set_recv_buffer_size(4096)
            .expect("a buffer can be small");
        socket
            .connect(&address.into())
            .expect("the gateway accepts");
        Self::over(socket.into())
    }

    fn over(socket: TcpStream) -> Self {
        socket
            .set_nodelay(true)
            .expect("small writes go out at once");
        Self {
            socket,
            unread: Vec::new(),
            head: None,
            decoder: None,
            end: None,
        }
    }

    /// Sends all of it; fails when the gateway does not take it within the limit.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes)
            .expect("the gateway reads what is sent");
    }

    /// Sends as much as the gateway takes before it closes.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.socket.set_write_timeout(Some(LIMIT))?;
        self.socket.write_all(bytes)
    }

    /// Sends as many of the bytes as the system takes at once.
    pub(crate) fn send_at_once(&self, bytes: &[u8]) {
        let mut socket = self.socket.try_clone().expect("a socket can be shared");
        socket
            .set_nonblocking(true)
            .expect("a socket can be nonblocking");
        let _ = socket.write(bytes);
        socket
            .set_nonblocking(false)
            .expect("a socket can be blocking");
    }

    /// Waits for the head of the answer; interim heads (1xx) are skipped.
    pub(crate) fn head(&mut self) -> Head {
        self.head_within(LIMIT)
    }

    pub(crate) fn head_within(&mut self, limit: Duration) -> Head {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(head) = self.try_head() {
                return head;
            }
            assert!(
                self.end.is_none(),
                "the connection ended without an answer: {:?}",
                self.end
            );
            assert!(self.read(deadline), "no answer within {limit:?}");
        }
    }

    /// Whether nothing at all has come within this time, and the connection is still open.
    pub(crate) fn is_silent_for(&mut self, time: Duration) -> bool {
        let before = self.unread.len() + self.body().len();
        let deadline = Instant::now() + time;
        while self.end.is_none() && self.read(deadline) {
            if self.unread.len() + self.body().len() != before {
                return false;
            }
        }
        self.end.is_none()
    }

    /// The body so far.
    pub(crate) fn body(&self) -> &[u8] {
        self.decoder.as_ref().map_or(&[], |decoder| &decoder.body)
    }

    /// Reads until the body satisfies the condition; fails when it ends before.
    pub(crate) fn body_until(&mut self, why: &str, mut enough: impl FnMut(&[u8]) -> bool) {
        self.head();
        let deadline = Instant::now() + LIMIT;
        while !enough(self.body()) {
            assert!(
                self.end.is_none() && !self.is_whole(),
                "the answer ended before {why}: {}",
                String::from_utf8_lossy(self.body())
            );
            assert!(
                self.read(deadline),
                "not within {LIMIT:?}: {why}; so far: {}",
                String::from_utf8_lossy(self.body())
            );
        }
    }

    /// Reads until these bytes stand in the body.
    pub(crate) fn body_until_has(&mut self, needle: &str) {
        self.body_until(&format!("{needle:?} came"), |body| {
            find(body, needle.as_bytes()).is_some()
        });
    }

    /// Reads the answer to its end.
    pub(crate) fn finish(&mut self) -> Response {
        self.finish_within(LIMIT)
    }

    pub(crate) fn finish_within(&mut self, limit: Duration) -> Response {
        let head = self.head_within(limit);
        let deadline = Instant::now() + limit;
        while !self.is_whole() && self.end.is_none() {
            assert!(
                self.read(deadline),
                "the answer did not end within {limit:?}; so far: {}",
                String::from_utf8_lossy(self.body())
            );
        }
        self.take_response(head)
    }

    /// The answer to a HEAD request: a head alone, whatever it says of a body.
    pub(crate) fn finish_bodiless(&mut self) -> Head {
        let head = self.head();
        self.head = None;
        self.decoder = None;
        head
    }

    /// Waits until the gateway closes; says how.
    pub(crate) fn closed(&mut self) -> End {
        let deadline = Instant::now() + LIMIT;
        while self.end.is_none() {
            assert!(
                self.read(deadline),
                "the gateway did not close within {LIMIT:?}"
            );
        }
        self.end.unwrap_or(End::Fin)
    }

    /// Leaves politely.
    pub(crate) fn fin(self) {
        drop(self);
    }

    /// Leaves with a reset.
    pub(crate) fn rst(self) {
        reset_on_close(&self.socket);
    }

    /// Says that nothing more will be sent, and stays to read.
    pub(crate) fn half_close(&self) {
        self.socket
            .shutdown(Shutdown::Write)
            .expect("an open socket can be half closed");
    }

    /// What came and was not read as an answer, as it was on the wire.
    pub(crate) fn raw(&self) -> Vec<u8> {
        self.unread.clone()
    }

    /// Reads until these bytes have come.
    pub(crate) fn raw_until(&mut self, needle: &[u8]) {
        let deadline = Instant::now() + LIMIT;
        while find(&self.unread, needle).is_none() {
            assert!(self.end.is_none(), "the connection ended before");
            assert!(self.read(deadline), "it never came");
        }
    }

    /// Whether the system holds bytes for this client, unread.
    pub(crate) fn has_unread(&self) -> bool {
        let mut byte = [std::mem::MaybeUninit::uninit(); 1];
        SockRef::from(&self.socket)
            .recv_with_flags(&mut byte, libc::MSG_PEEK | libc::MSG_DONTWAIT)
            .is_ok_and(|count| count > 0)
    }

    fn is_whole(&self) -> bool {
        self.decoder.as_ref().is_some_and(|decoder| decoder.whole)
    }

    fn take_response(&mut self, head: Head) -> Response {
        let decoder = self
            .decoder
            .take()
            .unwrap_or_else(|| Decoder::new(Framing::Length(0)));
        self.head = None;
        self.unread = decoder.rest().to_vec();
        let until_close = head.framing() == Framing::UntilClose;
        let end = match self.end {
            None => End::Whole,
            Some(_) if decoder.whole => End::Whole,
            Some(End::Fin) if until_close => End::Whole,
            Some(end) => end,
        };
        Response {
            head,
            body: decoder.body,
            end,
        }
    }

    fn try_head(&mut self) -> Option<Head> {
        while self.head.is_none() {
            let end = find(&self.unread, b"\r\n\r\n")? + 4;
            let raw: Vec<u8> = self.unread.drain(..end).collect();
            let head = Head::parse(&raw);
            let status = head.status();
            if (100..200).contains(&status) {
                continue;
            }
            let framing = if status == 204 || status == 304 {
                Framing::Length(0)
            } else {
                head.framing()
            };
            let mut decoder = Decoder::new(framing);
            decoder.push(&std::mem::take(&mut self.unread));
            self.decoder = Some(decoder);
            self.head = Some(head);
        }
        self.head.clone()
    }

    /// Reads once; false when the deadline passed first.
    fn read(&mut self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        self.socket
            .set_read_timeout(Some(left))
            .expect("a read can have a limit");
        let mut buffer = [0; 16 * 1024];
        match self.socket.read(&mut buffer) {
            Ok(0) => self.end = Some(End::Fin),
            Ok(count) => match &mut self.decoder {
                Some(decoder) => decoder.push(&buffer[..count]),
                None => self.unread.extend_from_slice(&buffer[..count]),
            },
            Err(error) => match error.kind() {
                std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => return false,
                std::io::ErrorKind::Interrupted => {}
                _ => self.end = Some(End::Rst),
            },
        }
        true
    }
}

/// A request as bytes: first line, the fields as given, a length for the body, the body.
pub(crate) fn request(method: &str, target: &str, fields: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut out = format!("{method} {target} HTTP/1.1\r\n");
    for (name, value) in fields {
        out.push_str(&format!("{name}: {value}\r\n"));
    }
    if method != "GET" && method != "HEAD" && method != "OPTIONS" {
        out.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    out.push_str("\r\n");
    let mut out = out.into_bytes();
    out.extend_from_slice(body);
    out
}
