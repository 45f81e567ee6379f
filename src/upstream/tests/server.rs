//! A scripted model server: one answer per path, everything that was asked written down.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

type Script = dyn Fn(&Asked) -> Answer + Send + Sync;

/// A request as it came in.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    /// `GET /path?query`.
    pub(super) line: String,
    /// Everything up to the empty line, in lower case.
    pub(super) head: String,
    pub(super) body: String,
}

/// What the server does with a request.
pub(super) enum Answer {
    /// A whole answer; the header lines end in CRLF.
    Full(u16, &'static str, String),
    /// These bytes, then the end of the connection.
    Raw(&'static [u8]),
    /// Nothing, for as long as the client waits.
    Silence,
}

pub(super) struct Server {
    pub(super) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    accepting: JoinHandle<()>,
}

impl Server {
    /// Serves on a free port of 127.0.0.1.
    pub(super) async fn start(script: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        Self::at("127.0.0.1:0", script).await.unwrap()
    }

    /// Serves on an address; an error where the machine does not have it.
    pub(super) async fn at(
        address: &str,
        script: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let asked = Arc::new(Mutex::new(Vec::new()));
        let script: Arc<Script> = Arc::new(script);
        let accepting = tokio::spawn({
            let asked = Arc::clone(&asked);
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let (script, asked) = (Arc::clone(&script), Arc::clone(&asked));
                    tokio::spawn(async move { serve(stream, &*script, &asked).await });
                }
            }
        });
        Ok(Self {
            address,
            asked,
            accepting,
        })
    }

    pub(super) fn root(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every request so far.
    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// The request lines so far.
    pub(super) fn lines(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.line).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// A JSON answer with 200.
pub(super) fn json(body: Value) -> Answer {
    json_with(200, body)
}

/// A JSON answer.
pub(super) fn json_with(status: u16, body: Value) -> Answer {
    Answer::Full(
        status,
        "content-type: application/json\r\n",
        body.to_string(),
    )
}

/// 404 as text.
pub(super) fn missing() -> Answer {
    Answer::Full(
        404,
        "content-type: text/plain\r\n",
        "404 page not found".to_owned(),
    )
}

async fn serve(mut stream: TcpStream, script: &Script, log: &Mutex<Vec<Asked>>) {
    let Some(asked) = read(&mut stream).await else {
        return;
    };
    let answer = script(&asked);
    log.lock().unwrap().push(asked);
    match answer {
        Answer::Full(status, headers, body) => {
            let head = format!(
                "HTTP/1.1 {status} X\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            stream.write_all(head.as_bytes()).await.ok();
            stream.write_all(body.as_bytes()).await.ok();
        }
        Answer::Raw(bytes) => {
            stream.write_all(bytes).await.ok();
        }
        Answer::Silence => {
            // Until the client hangs up.
            stream.read_u8().await.ok();
        }
    }
}

async fn read(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
            let length = head
                .to_ascii_lowercase()
                .lines()
                .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok())
                .unwrap_or(0);
            let body = &bytes[end + 4..];
            if body.len() >= length {
                let line = head
                    .lines()
                    .next()?
                    .trim_end_matches(" HTTP/1.1")
                    .to_owned();
                return Some(Asked {
                    line,
                    head: head.to_ascii_lowercase(),
                    body: String::from_utf8(body.to_vec()).unwrap(),
                });
            }
        }
        match stream.read(&mut piece).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend_from_slice(&piece[..read]),
        }
    }
}
