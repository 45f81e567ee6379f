//! A wire tap between the gateway and a real server: passes every byte on and keeps a copy.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

use super::wire::{Decoder, Head, find};

/// What went over one connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Heard {
    /// From the gateway.
    pub(crate) asked: Vec<u8>,
    /// From the server.
    pub(crate) answered: Vec<u8>,
}

impl Heard {
    /// Whether it was a chat.
    pub(crate) fn is_chat(&self) -> bool {
        self.asked
            .starts_with(b"POST /v1/chat/completions HTTP/1.1\r\n")
    }

    /// The JSON body of its request.
    pub(crate) fn request(&self) -> Value {
        serde_json::from_slice(&body(&self.asked)).expect("a chat's body is JSON")
    }

    /// The body of its answer, without its framing.
    pub(crate) fn answer(&self) -> Vec<u8> {
        body(&self.answered)
    }
}

fn body(bytes: &[u8]) -> Vec<u8> {
    let end = find(bytes, b"\r\n\r\n").expect("a head that ended") + 4;
    let mut decoder = Decoder::new(Head::parse(&bytes[..end]).framing());
    decoder.push(&bytes[end..]);
    decoder.body
}

/// A listener in front of a server. It keeps listening whether the server is there or not.
pub(crate) struct Tap {
    address: SocketAddr,
    heard: Arc<Mutex<Vec<Heard>>>,
}

impl Tap {
    /// In front of the server on this loopback port.
    pub(crate) fn before(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port is free");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let heard = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&heard);
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(("127.0.0.1", port)) else {
                    continue;
                };
                let number = {
                    let mut all = all.lock().unwrap();
                    all.push(Heard::default());
                    all.len() - 1
                };
                pass(&near, &far, &all, move |heard| &mut heard[number].asked);
                pass(&far, &near, &all, move |heard| &mut heard[number].answered);
            }
        });
        Self { address, heard }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The chats so far, in the order in which their connections were made.
    pub(crate) fn chats(&self) -> Vec<Heard> {
        let heard = self.heard.lock().unwrap();
        heard
            .iter()
            .filter(|heard| heard.is_chat())
            .cloned()
            .collect()
    }
}

/// Copies one direction; its end ends both, as a dying peer would.
fn pass(
    from: &TcpStream,
    to: &TcpStream,
    all: &Arc<Mutex<Vec<Heard>>>,
    of: impl Fn(&mut Vec<Heard>) -> &mut Vec<u8> + Send + 'static,
) {
    let (Ok(mut from), Ok(mut to)) = (from.try_clone(), to.try_clone()) else {
        return;
    };
    let all = Arc::clone(all);
    thread::spawn(move || {
        let mut buffer = [0; 16 * 1024];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            of(&mut all.lock().unwrap()).extend_from_slice(&buffer[..count]);
            if to.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    });
}
