//! A wire tap between the gateway and a real server: passes every byte on and keeps a copy.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use serde_json::Value;

use super::wire::{Decoder, Framing, Head, find};

/// One request and what came back.
#[derive(Debug, Clone)]
pub(crate) struct Heard {
    asked: Message,
    answered: Option<Message>,
    asked_at: Instant,
}

impl Heard {
    /// The JSON body of its request.
    pub(crate) fn request(&self) -> Value {
        serde_json::from_slice(&self.asked.body).expect("a chat's body is JSON")
    }

    /// The body of its answer, without its framing.
    pub(crate) fn answer(&self) -> Vec<u8> {
        let answered = self.answered.as_ref().expect("an answer came");
        answered.body.clone()
    }

    /// The status of its answer, if one came.
    pub(crate) fn status(&self) -> Option<u16> {
        self.answered
            .as_ref()
            .map(|answered| answered.head.status())
    }
}

/// A head and the body behind it.
#[derive(Debug, Clone)]
struct Message {
    head: Head,
    body: Vec<u8>,
    /// Where it began among the bytes of its direction.
    start: usize,
}

/// The bytes of one direction, and when each piece of them came.
#[derive(Debug, Default)]
struct Side {
    bytes: Vec<u8>,
    came: Vec<(usize, Instant)>,
}

impl Side {
    fn note(&mut self, bytes: &[u8]) {
        self.came.push((self.bytes.len(), Instant::now()));
        self.bytes.extend_from_slice(bytes);
    }

    /// When the byte at this place came.
    fn at(&self, place: usize) -> Option<Instant> {
        let piece = self.came.iter().rev().find(|(start, _)| *start <= place);
        piece.map(|(_, at)| *at)
    }

    /// The messages so far, the last one perhaps incomplete. Without a length there is no body,
    /// unless it ends with the connection.
    fn messages(&self, unframed: Framing) -> Vec<Message> {
        let mut messages = Vec::new();
        let mut start = 0;
        while let Some(end) = find(&self.bytes[start..], b"\r\n\r\n") {
            let body = start + end + 4;
            let head = Head::parse(&self.bytes[start..body]);
            let framing = match head.framing() {
                Framing::UntilClose => unframed,
                framing => framing,
            };
            let mut decoder = Decoder::new(framing);
            decoder.push(&self.bytes[body..]);
            let next = self.bytes.len() - decoder.rest().len();
            let whole = decoder.whole;
            messages.push(Message {
                head,
                body: decoder.body,
                start,
            });
            if !whole {
                break;
            }
            start = next;
        }
        messages
    }
}

/// Both directions of one connection.
#[derive(Debug, Default)]
struct Wire {
    asked: Side,
    answered: Side,
}

/// A listener in front of a server. It keeps listening whether the server is there or not.
pub(crate) struct Tap {
    address: SocketAddr,
    wires: Arc<Mutex<Vec<Wire>>>,
}

impl Tap {
    /// In front of the server on this loopback port.
    pub(crate) fn before(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port is free");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let wires = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&wires);
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(("127.0.0.1", port)) else {
                    continue;
                };
                let number = {
                    let mut all = all.lock().unwrap();
                    all.push(Wire::default());
                    all.len() - 1
                };
                pass(&near, &far, &all, move |all| &mut all[number].asked);
                pass(&far, &near, &all, move |all| &mut all[number].answered);
            }
        });
        Self { address, wires }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The chats so far, in the order in which they were asked.
    pub(crate) fn chats(&self) -> Vec<Heard> {
        let wires = self.wires.lock().unwrap();
        let mut chats = Vec::new();
        for wire in wires.iter() {
            let mut answers = wire.answered.messages(Framing::UntilClose).into_iter();
            for asked in wire.asked.messages(Framing::Length(0)) {
                let answered = answers.next();
                if !asked
                    .head
                    .first
                    .starts_with("POST /v1/chat/completions HTTP/")
                {
                    continue;
                }
                let asked_at = wire
                    .asked
                    .at(asked.start)
                    .expect("it was asked at some time");
                chats.push(Heard {
                    asked,
                    answered,
                    asked_at,
                });
            }
        }
        chats.sort_by_key(|heard| heard.asked_at);
        chats
    }
}

/// Copies one direction; its end ends both, as a dying peer would.
fn pass(
    from: &TcpStream,
    to: &TcpStream,
    all: &Arc<Mutex<Vec<Wire>>>,
    side: impl Fn(&mut Vec<Wire>) -> &mut Side + Send + 'static,
) {
    let (Ok(mut from), Ok(mut to)) = (from.try_clone(), to.try_clone()) else {
        return;
    };
    let all = Arc::clone(all);
    thread::spawn(move || {
        let mut buffer = [0; 16 * 1024];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            side(&mut all.lock().unwrap()).note(&buffer[..count]);
            if to.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    });
}
