//! HTTP to the running OneSlot, over loopback, with the control token of its run.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use oneslot::state::Running;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::Failure;

/// The header that carries the control token.
const TOKEN: &str = "x-oneslot-token";

/// How long a running gateway may take to begin its answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The same for what it is told to do: unloading a model waits for the slot.
const LONG_PATIENCE: Duration = Duration::from_secs(660);

const CONNECTS: Duration = Duration::from_secs(3);

/// Sends one command and returns its JSON answer, `null` if it had none.
///
/// # Errors
///
/// A sentence for the person: not reachable, or what the gateway said.
pub(crate) fn send(
    running: &Running,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Result<Value, Failure> {
    let (status, bytes) = exchange(running, method, path, body)?;
    answer(status, &bytes)
}

/// Sends one command and returns its answer, good or not.
///
/// # Errors
///
/// A sentence for the person: not reachable.
pub(crate) fn exchange(
    running: &Running,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Result<(StatusCode, Bytes), Failure> {
    block_on(async {
        let Exchange {
            response,
            _connection,
        } = request(running, method, path, body).await?;
        let status = response.status();
        let body = response.into_body().collect().await;
        Ok((
            status,
            body.map_err(|error| Failure::of(&error))?.to_bytes(),
        ))
    })?
}

/// Follows the events of the running gateway for a person who looks: `each` gets the text of every
/// one, until it has had enough or the gateway stops.
///
/// # Errors
///
/// A sentence for the person.
pub(crate) fn follow(
    running: &Running,
    mut each: impl FnMut(&str) -> std::io::Result<()>,
) -> Result<(), Failure> {
    block_on(async {
        let Exchange {
            response,
            _connection,
        } = request(running, Method::GET, "/oneslot/events?watched=yes", None).await?;
        if !response.status().is_success() {
            return Err(Failure::not_done(format!(
                "OneSlot answered {}",
                response.status()
            )));
        }
        let mut body = response.into_body();
        let mut pending = Vec::new();
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { break };
            let Some(bytes) = frame.data_ref() else {
                continue;
            };
            pending.extend_from_slice(bytes);
            for event in events(&mut pending) {
                if each(&event).is_err() {
                    return Ok(());
                }
            }
        }
        Err(Failure::not_done("OneSlot has stopped"))
    })?
}

/// Runs `work` to its end on a runtime of its own.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    Ok(runtime.map_err(|error| Failure::of(&error))?.block_on(work))
}

async fn request(
    running: &Running,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Result<Exchange, Failure> {
    let (address, mut sender, connection) = connect(running).await?;
    let patience = if method == Method::POST {
        LONG_PATIENCE
    } else {
        PATIENCE
    };
    let text = body.map(Value::to_string).unwrap_or_default();
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, address.to_string())
        .header(TOKEN, running.token.expose());
    if body.is_some() {
        request = request.header(header::CONTENT_TYPE, "application/json");
    }
    let request = request
        .body(Full::new(Bytes::from(text)))
        .map_err(|error| Failure::of(&error))?;
    let answered = tokio::time::timeout(patience, sender.send_request(request)).await;
    match answered {
        Ok(Ok(response)) => Ok(Exchange {
            response,
            _connection: connection,
        }),
        Ok(Err(error)) => Err(Failure::of(&error)),
        Err(_) => Err(Failure::not_done(format!(
            "{} does not answer",
            running.names
        ))),
    }
}

/// An answer, and the connection its body comes over.
struct Exchange {
    response: Response<Incoming>,
    _connection: Connection,
}

/// The task that moves a connection's bytes; it ends when this is dropped.
type Connection = JoinSet<hyper::Result<()>>;

type Sender = hyper::client::conn::http1::SendRequest<Full<Bytes>>;

/// Connects to the first of its addresses that takes a connection.
async fn connect(running: &Running) -> Result<(SocketAddr, Sender, Connection), Failure> {
    let mut why = "it does not serve yet; try again in a moment".to_owned();
    for address in running
        .names
        .addresses
        .iter()
        .filter_map(|url| reachable(url))
    {
        match tokio::time::timeout(CONNECTS, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                let io = TokioIo::new(stream);
                let (sender, connection) = hyper::client::conn::http1::handshake(io)
                    .await
                    .map_err(|error| Failure::of(&error))?;
                let mut driver = JoinSet::new();
                driver.spawn(connection);
                return Ok((address, sender, driver));
            }
            Ok(Err(error)) => why = format!("{address}: {error}"),
            Err(_) => why = format!("{address}: no connection"),
        }
    }
    Err(Failure::not_done(format!(
        "cannot reach {}: {why}",
        running.names
    )))
}

/// The address of a base URL; one that means "all addresses" is reached on loopback.
fn reachable(url: &str) -> Option<SocketAddr> {
    let address: SocketAddr = url
        .strip_prefix("http://")?
        .trim_end_matches('/')
        .parse()
        .ok()?;
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    Some(SocketAddr::new(ip, address.port()))
}

/// The JSON of a good answer; the gateway's own sentence of any other.
pub(crate) fn answer(status: StatusCode, bytes: &[u8]) -> Result<Value, Failure> {
    let value: Value = serde_json::from_slice(bytes).unwrap_or(Value::Null);
    if status.is_success() {
        return Ok(value);
    }
    let message = value.pointer("/error/message").and_then(Value::as_str);
    let text = message.map_or_else(|| format!("OneSlot answered {status}"), str::to_owned);
    Err(Failure::not_done(text))
}

/// Takes every whole event out of `pending` and returns its data.
fn events(pending: &mut Vec<u8>) -> Vec<String> {
    let mut events = Vec::new();
    while let Some(end) = pending.windows(2).position(|pair| pair == b"\n\n") {
        let event: Vec<u8> = pending.drain(..end + 2).collect();
        let text = String::from_utf8_lossy(&event);
        let data: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("data:"))
            .map(str::trim_start)
            .collect();
        if !data.is_empty() {
            events.push(data.join("\n"));
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_taken_whole_and_comments_are_passed_over() {
        let mut pending = b": ping\n\ndata: {\"seq\":1}\n\nevent: x\ndata: {\"s".to_vec();
        assert_eq!(events(&mut pending), ["{\"seq\":1}"]);
        pending.extend_from_slice(b"eq\":2}\n\n");
        assert_eq!(
            events(&mut pending),
            ["{\"seq\":2}"],
            "the rest of it came later"
        );
        assert!(pending.is_empty());
    }

    #[test]
    fn an_address_that_means_all_is_reached_on_loopback() {
        for (url, address) in [
            ("http://127.0.0.1:11411", Some("127.0.0.1:11411")),
            ("http://[::1]:5/", Some("[::1]:5")),
            ("http://0.0.0.0:5", Some("127.0.0.1:5")),
            ("http://[::]:5", Some("[::1]:5")),
            ("nonsense", None),
        ] {
            let reached = reachable(url).map(|address| address.to_string());
            assert_eq!(reached.as_deref(), address, "{url}");
        }
    }

    #[test]
    fn a_refusal_is_told_in_the_gateways_own_words() {
        let body = br#"{"error":{"message":"No such request","code":"NOT_FOUND"}}"#;
        let failure = answer(StatusCode::NOT_FOUND, body).map_err(|failure| failure.text);
        assert_eq!(failure, Err("No such request".to_owned()));
        let failure = answer(StatusCode::BAD_GATEWAY, b"<html>").map_err(|failure| failure.text);
        assert_eq!(failure, Err("OneSlot answered 502 Bad Gateway".to_owned()));
        assert_eq!(
            answer(StatusCode::NO_CONTENT, b"").map_err(|failure| failure.text),
            Ok(Value::Null)
        );
    }
}
