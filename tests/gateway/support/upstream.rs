//! A scripted model server on raw sockets that records all it sees.
//!
//! Each connection has a thread. Whatever a script does, the thread looks every few milliseconds
//! whether its peer has gone, and notes how. A request counts as in flight from its last byte
//! until the last write of its answer, or until either side closed.
//!
//! Not here: what kind of server it plays ([`super::flavour`]).

use std::collections::HashMap;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use socket2::SockRef;

use super::flavour::Flavour;
use super::script::{Script, Step};
use super::wire::{Decoder, Framing, Head, find, json_response};
use super::{LIMIT, eventually};

/// How often a waiting script looks at its peer.
const LOOK: Duration = Duration::from_millis(3);

/// Paths whose `POST` is inference: these count towards the slot.
const INFERENCE: [&str; 16] = [
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/responses",
    "/v1/messages",
    "/v1/rerank",
    "/api/chat",
    "/api/generate",
    "/api/embed",
    "/api/embeddings",
    "/completion",
    "/infill",
    "/embedding",
    "/rerank",
    "/chat/completions",
    "/completions",
];

/// One request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Path and query, as sent.
    pub(crate) target: String,
    pub(crate) head: Head,
    /// Every byte of the head, the empty line included.
    pub(crate) raw_head: Vec<u8>,
    /// The body without its framing.
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// The target without its query.
    pub(crate) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// The body as JSON; `null` when it is none.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// Whether it takes the slot. Ollama's load (a generate without a prompt) is none.
    pub(crate) fn is_inference(&self) -> bool {
        let load = self.path() == "/api/generate" && self.json()["prompt"].is_null();
        self.method == "POST" && INFERENCE.contains(&self.path()) && !load
    }

    /// The text of the last message: how a test tells its chats apart.
    pub(crate) fn last_text(&self) -> String {
        let body = self.json();
        let last = body["messages"]
            .as_array()
            .and_then(|messages| messages.last());
        last.and_then(|message| message["content"].as_str())
            .unwrap_or_default()
            .to_owned()
    }
}

/// How a request ended, seen from the upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// The script ran to its end.
    Answered,
    /// The peer closed politely before that.
    PeerFin,
    /// The peer reset the connection before that.
    PeerRst,
    /// The upstream died.
    Died,
}

/// One line of the upstream's log.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) request: Request,
    /// When its last byte had come.
    pub(crate) at: Instant,
    /// Which connection it came on, counted from 0.
    pub(crate) connection: usize,
    /// How and when it ended.
    pub(crate) ended: Option<(How, Instant)>,
}

type Responder = Arc<dyn Fn(&Request) -> Script + Send + Sync>;

/// What the threads share.
pub(crate) struct State {
    /// Every request, in the order of arrival.
    pub(crate) log: Vec<Seen>,
    /// When each connection was accepted.
    pub(crate) accepted: Vec<Instant>,
    /// The most inference requests that were ever in flight together.
    pub(crate) most_in_flight: usize,
    pub(crate) flavour: Flavour,
    in_flight: HashMap<usize, Arc<TcpStream>>,
    once: HashMap<(String, String), VecDeque<Script>>,
    always: HashMap<(String, String), Responder>,
    key: Option<String>,
    loading: bool,
    alive: bool,
    /// Counts deaths: a thread of an earlier life stops.
    life: usize,
    threads: usize,
}

impl State {
    /// The inference requests, in the order of arrival.
    pub(crate) fn chats(&self) -> Vec<&Seen> {
        self.log
            .iter()
            .filter(|seen| seen.request.is_inference())
            .collect()
    }

    /// How many inference requests are in flight, without those whose peer has gone already.
    pub(crate) fn in_flight(&mut self) -> usize {
        self.in_flight.retain(|_, socket| gone(socket).is_none());
        self.in_flight.len()
    }
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A script that panicked has failed its test already; the others still want to look.
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A model server made of scripts, on a loopback port of its own.
pub(crate) struct Upstream {
    shared: Arc<Shared>,
    address: SocketAddr,
}

impl Upstream {
    /// Serves as this flavour on `127.0.0.1`.
    pub(crate) fn start(flavour: Flavour) -> Self {
        Self::start_on("127.0.0.1:0", flavour)
    }

    /// A server that lists a model and says nothing of a window.
    pub(crate) fn plain() -> Self {
        Self::start(Flavour::Plain)
    }

    /// The same on another address, for instance `[::1]:0`.
    pub(crate) fn start_on(address: &str, flavour: Flavour) -> Self {
        let listener = TcpListener::bind(address).expect("a loopback port is free");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let state = State {
            log: Vec::new(),
            accepted: Vec::new(),
            most_in_flight: 0,
            flavour,
            in_flight: HashMap::new(),
            once: HashMap::new(),
            always: HashMap::new(),
            key: None,
            loading: false,
            alive: true,
            life: 0,
            threads: 0,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        listen(listener, Arc::clone(&shared), 0);
        Self { shared, address }
    }

    /// `http://127.0.0.1:PORT`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers the next chat with this script; scripts are used up in order.
    pub(crate) fn next_chat(&self, script: Script) {
        self.next("POST", "/v1/chat/completions", script);
    }

    /// Answers the next request for this route with this script.
    pub(crate) fn next(&self, method: &str, path: &str, script: Script) {
        let key = (method.to_owned(), path.to_owned());
        self.shared
            .lock()
            .once
            .entry(key)
            .or_default()
            .push_back(script);
    }

    /// Answers every request for this route so, unless there is a script left for it.
    pub(crate) fn always(
        &self,
        method: &str,
        path: &str,
        responder: impl Fn(&Request) -> Script + Send + Sync + 'static,
    ) {
        let key = (method.to_owned(), path.to_owned());
        self.shared.lock().always.insert(key, Arc::new(responder));
    }

    /// Answers every chat so, unless there is a script left.
    pub(crate) fn chats_always(
        &self,
        responder: impl Fn(&Request) -> Script + Send + Sync + 'static,
    ) {
        self.always("POST", "/v1/chat/completions", responder);
    }

    /// Takes back what `always` set for this route: it is the flavour's again.
    pub(crate) fn as_usual(&self, method: &str, path: &str) {
        let key = (method.to_owned(), path.to_owned());
        let mut state = self.shared.lock();
        state.always.remove(&key);
        state.once.remove(&key);
    }

    /// From now on every route but `/health` wants this bearer key.
    pub(crate) fn demand_key(&self, key: &str) {
        self.shared.lock().key = Some(key.to_owned());
    }

    /// While it loads, every route answers 503 "Loading model".
    pub(crate) fn start_loading(&self) {
        self.shared.lock().loading = true;
    }

    pub(crate) fn finish_loading(&self) {
        self.shared.lock().loading = false;
    }

    /// Dies: the port is closed and every connection is reset.
    pub(crate) fn die(&self) {
        {
            let mut state = self.shared.lock();
            state.alive = false;
            state.life += 1;
            self.shared.changed.notify_all();
        }
        eventually("the upstream's threads end", || {
            (self.shared.lock().threads == 0).then_some(())
        });
    }

    /// Listens again on the same port.
    pub(crate) fn come_back(&self) {
        let listener = eventually("the port is free again", || {
            TcpListener::bind(self.address).ok()
        });
        let life = {
            let mut state = self.shared.lock();
            state.alive = true;
            state.life
        };
        listen(listener, Arc::clone(&self.shared), life);
    }

    /// Looks at the state.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.shared.lock())
    }

    /// Waits until the state answers; fails with `why` after `LIMIT`.
    pub(crate) fn until<T>(&self, why: &str, mut look: impl FnMut(&mut State) -> Option<T>) -> T {
        let deadline = Instant::now() + LIMIT;
        let mut state = self.shared.lock();
        loop {
            if let Some(found) = look(&mut state) {
                return found;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero(),
                "the upstream never saw: {why}\n{}",
                tell(&state)
            );
            state = self
                .shared
                .changed
                .wait_timeout(state, left.min(Duration::from_millis(50)))
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .0;
        }
    }

    /// Waits until `count` inference requests have arrived, and returns them all.
    pub(crate) fn until_chats(&self, count: usize) -> Vec<Seen> {
        self.until(&format!("{count} chats"), |state| {
            let chats: Vec<Seen> = state.chats().into_iter().cloned().collect();
            (chats.len() >= count).then_some(chats)
        })
    }

    /// Waits until the inference request with this number has ended, and says how and when.
    pub(crate) fn until_ended(&self, chat: usize) -> (How, Instant) {
        self.until(&format!("the end of chat {chat}"), |state| {
            state.chats().get(chat).and_then(|seen| seen.ended)
        })
    }

    /// The inference requests so far.
    pub(crate) fn chats(&self) -> Vec<Seen> {
        self.look(|state| state.chats().into_iter().cloned().collect())
    }

    /// The bodies of the inference requests so far, as JSON.
    pub(crate) fn chat_bodies(&self) -> Vec<Value> {
        self.chats()
            .iter()
            .map(|seen| seen.request.json())
            .collect()
    }

    /// The last texts of the chats so far, in the order of arrival.
    pub(crate) fn order(&self) -> Vec<String> {
        self.chats()
            .iter()
            .map(|seen| seen.request.last_text())
            .collect()
    }

    /// Everything that is not inference: `METHOD /path`, in order.
    pub(crate) fn probes(&self) -> Vec<String> {
        self.look(|state| {
            state
                .log
                .iter()
                .filter(|seen| !seen.request.is_inference())
                .map(|seen| format!("{} {}", seen.request.method, seen.request.target))
                .collect()
        })
    }

    /// How many connections were made so far.
    pub(crate) fn connections(&self) -> usize {
        self.look(|state| state.accepted.len())
    }

    /// How many requests of any kind came so far.
    pub(crate) fn requests(&self) -> usize {
        self.look(|state| state.log.len())
    }

    /// The most inference requests that were ever in flight together.
    pub(crate) fn most_in_flight(&self) -> usize {
        self.look(|state| state.most_in_flight)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.alive = false;
        state.life += 1;
        self.shared.changed.notify_all();
    }
}

/// What was seen, for a failure's message.
fn tell(state: &State) -> String {
    state
        .log
        .iter()
        .map(|seen| {
            format!(
                "  {} {} ({} bytes) on connection {}: {:?}\n",
                seen.request.method,
                seen.request.target,
                seen.request.body.len(),
                seen.connection,
                seen.ended.map(|(how, _)| how)
            )
        })
        .collect()
}

/// Accepts until this life ends.
fn listen(listener: TcpListener, shared: Arc<Shared>, life: usize) {
    listener
        .set_nonblocking(true)
        .expect("a listener can be asked without waiting");
    shared.lock().threads += 1;
    thread::spawn(move || {
        loop {
            if shared.lock().life != life {
                break;
            }
            match listener.accept() {
                Ok((socket, _)) => serve(socket, &shared, life),
                Err(_) => thread::sleep(Duration::from_millis(1)),
            }
        }
        drop(listener);
        shared.lock().threads -= 1;
        shared.changed.notify_all();
    });
}

fn serve(socket: TcpStream, shared: &Arc<Shared>, life: usize) {
    let shared = Arc::clone(shared);
    let number = {
        let mut state = shared.lock();
        state.accepted.push(Instant::now());
        state.threads += 1;
        state.accepted.len() - 1
    };
    thread::spawn(move || {
        socket
            .set_nonblocking(false)
            .expect("an accepted socket can wait");
        socket
            .set_nodelay(true)
            .expect("small writes go out at once");
        socket
            .set_read_timeout(Some(Duration::from_millis(20)))
            .expect("a read can have a limit");
        socket
            .set_write_timeout(Some(Duration::from_millis(20)))
            .expect("a write can have a limit");
        let mut connection = Connection {
            socket: Arc::new(socket),
            shared: Arc::clone(&shared),
            life,
            number,
            unread: Vec::new(),
        };
        connection.run();
        if connection.died() {
            reset_on_close(&connection.socket);
        }
        drop(connection);
        shared.lock().threads -= 1;
        shared.changed.notify_all();
    });
}

struct Connection {
    socket: Arc<TcpStream>,
    shared: Arc<Shared>,
    life: usize,
    number: usize,
    unread: Vec<u8>,
}

/// Why a script stopped before its end, or that the connection may go on.
enum Ending {
    KeepAlive,
    Close,
    Early(How),
}

impl Connection {
    fn died(&self) -> bool {
        self.shared.lock().life != self.life
    }

    fn run(&mut self) {
        while let Some(request) = self.read_request() {
            let (index, script) = self.admit(request);
            let ending = self.play(index, &script);
            let how = match ending {
                Ending::KeepAlive | Ending::Close => How::Answered,
                Ending::Early(how) => how,
            };
            {
                let mut state = self.shared.lock();
                state.in_flight.remove(&index);
                state.log[index].ended = Some((how, Instant::now()));
                self.shared.changed.notify_all();
            }
            if !matches!(ending, Ending::KeepAlive) {
                return;
            }
        }
    }

    /// Reads one request, or nothing when the peer or this life is gone.
    fn read_request(&mut self) -> Option<Request> {
        let end = loop {
            if let Some(end) = find(&self.unread, b"\r\n\r\n") {
                break end + 4;
            }
            self.fill()?;
        };
        let raw_head: Vec<u8> = self.unread.drain(..end).collect();
        let head = Head::parse(&raw_head);
        let framing = match head.framing() {
            Framing::UntilClose => Framing::Length(0),
            framing => framing,
        };
        let mut decoder = Decoder::new(framing);
        let ahead: Vec<u8> = self.unread.drain(..).collect();
        decoder.push(&ahead);
        while !decoder.whole {
            self.fill()?;
            let more: Vec<u8> = self.unread.drain(..).collect();
            decoder.push(&more);
        }
        self.unread = decoder.rest().to_vec();
        let mut words = head.first.split(' ');
        Some(Request {
            method: words.next().unwrap_or_default().to_owned(),
            target: words.next().unwrap_or_default().to_owned(),
            raw_head,
            body: decoder.body,
            head,
        })
    }

    fn fill(&mut self) -> Option<()> {
        let mut buffer = [0; 16 * 1024];
        loop {
            match (&*self.socket).read(&mut buffer) {
                Ok(0) => return None,
                Ok(count) => {
                    self.unread.extend_from_slice(&buffer[..count]);
                    return Some(());
                }
                Err(error) if is_timeout(&error) => {
                    if self.died() {
                        return None;
                    }
                }
                Err(_) => return None,
            }
        }
    }

    /// Notes the request and picks its script.
    fn admit(&self, request: Request) -> (usize, Script) {
        let mut state = self.shared.lock();
        let index = state.log.len();
        if request.is_inference() {
            let others = state.in_flight();
            state.in_flight.insert(index, Arc::clone(&self.socket));
            state.most_in_flight = state.most_in_flight.max(others + 1);
        }
        state.log.push(Seen {
            request: request.clone(),
            at: Instant::now(),
            connection: self.number,
            ended: None,
        });
        self.shared.changed.notify_all();
        if let Some(script) = gatekeep(&state, &request) {
            return (index, script);
        }
        let key = (request.method.clone(), request.path().to_owned());
        if let Some(script) = state.once.get_mut(&key).and_then(VecDeque::pop_front) {
            return (index, script);
        }
        if let Some(responder) = state.always.get(&key).map(Arc::clone) {
            drop(state);
            return (index, responder(&request));
        }
        // The one that asks must not count itself.
        let busy = state
            .in_flight()
            .saturating_sub(usize::from(request.is_inference()))
            > 0;
        (index, state.flavour.answer(&request, busy))
    }

    fn play(&self, index: usize, script: &Script) -> Ending {
        let last_send = script
            .steps
            .iter()
            .rposition(|step| matches!(step, Step::Send(_) | Step::SendByteByByte(_)));
        let mut close = false;
        for (at, step) in script.steps.iter().enumerate() {
            if Some(at) == last_send && !waits(&script.steps[at + 1..]) {
                self.shared.lock().in_flight.remove(&index);
            }
            let early = match step {
                Step::Wait(time) => self.wait(Some(*time), || false),
                Step::WaitFor(gate) => self.wait(None, || gate.is_open()),
                Step::Hang => self.wait(None, || false),
                Step::Open(gate) => {
                    gate.open();
                    None
                }
                Step::Send(bytes) => {
                    close |= says_close(bytes);
                    self.write(bytes)
                }
                Step::SendByteByByte(bytes) => bytes.iter().find_map(|byte| self.write(&[*byte])),
                Step::Drip {
                    piece,
                    every,
                    times,
                } => (0..*times).find_map(|_| {
                    self.write(piece)
                        .or_else(|| self.wait(Some(*every), || false))
                }),
                Step::Fin => {
                    let _ = self.socket.shutdown(std::net::Shutdown::Both);
                    return Ending::Close;
                }
                Step::Rst => {
                    reset_on_close(&self.socket);
                    return Ending::Close;
                }
            };
            if let Some(how) = early {
                return Ending::Early(how);
            }
        }
        if close {
            Ending::Close
        } else {
            Ending::KeepAlive
        }
    }

    /// Waits for a time, for a condition, or for ever; says so when the peer or this life ended.
    fn wait(&self, time: Option<Duration>, done: impl Fn() -> bool) -> Option<How> {
        let started = Instant::now();
        loop {
            if self.died() {
                return Some(How::Died);
            }
            if let Some(how) = gone(&self.socket) {
                return Some(how);
            }
            if done() || time.is_some_and(|time| started.elapsed() >= time) {
                return None;
            }
            thread::sleep(LOOK);
        }
    }

    fn write(&self, mut bytes: &[u8]) -> Option<How> {
        while !bytes.is_empty() {
            match (&*self.socket).write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if is_timeout(&error) => {
                    if self.died() {
                        return Some(How::Died);
                    }
                }
                Err(_) => return Some(gone(&self.socket).unwrap_or(How::PeerRst)),
            }
        }
        None
    }
}

/// What is said before any script is asked: no key, or still loading.
fn gatekeep(state: &State, request: &Request) -> Option<Script> {
    if state.loading {
        return Some(Script::new().send(&json_response(
            503,
            &serde_json::json!({"error":
            {"code": 503, "message": "Loading model", "type": "unavailable_error"}}),
        )));
    }
    let key = state.key.as_ref()?;
    let wanted = format!("Bearer {key}");
    if request.path() == "/health" || request.head.get("authorization") == Some(&wanted) {
        return None;
    }
    Some(Script::json(
        401,
        &serde_json::json!({"error":
        {"code": 401, "message": "Invalid API Key", "type": "authentication_error"}}),
    ))
}

fn waits(steps: &[Step]) -> bool {
    steps.iter().any(|step| {
        matches!(
            step,
            Step::Wait(_) | Step::WaitFor(_) | Step::Hang | Step::Drip { .. }
        )
    })
}

fn says_close(bytes: &[u8]) -> bool {
    bytes.starts_with(b"HTTP/1.1")
        && find(bytes, b"\r\n\r\n").is_some_and(|end| {
            find(&bytes[..end].to_ascii_lowercase(), b"connection: close").is_some()
        })
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        std::io::ErrorKind::WouldBlock
            | std::io::ErrorKind::TimedOut
            | std::io::ErrorKind::Interrupted
    )
}

/// Whether the peer has closed, without taking anything off the socket.
fn gone(socket: &TcpStream) -> Option<How> {
    let mut byte = [MaybeUninit::uninit(); 1];
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    match SockRef::from(socket).recv_with_flags(&mut byte, flags) {
        Ok(0) => Some(How::PeerFin),
        Ok(_) => None,
        Err(error) if is_timeout(&error) => None,
        Err(_) => Some(How::PeerRst),
    }
}

/// The close to come is a reset, not a polite end.
pub(crate) fn reset_on_close(socket: &TcpStream) {
    SockRef::from(socket)
        .set_linger(Some(Duration::ZERO))
        .expect("a socket can be told to reset");
}
