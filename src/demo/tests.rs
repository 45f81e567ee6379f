//! Tests of `demo`: each name is what it promises.

use http_body_util::Full;
use hyper::client::conn::http1 as client;

use super::*;
use crate::proxy::inspect::{Finish, StreamEnd, StreamObserver, WholeEnd, observe_whole};

/// A client; dropping it closes its connections.
struct Client {
    address: String,
    connections: JoinSet<()>,
}

impl Client {
    fn of(demo: &Demo) -> Self {
        Self::at(demo.base_url.strip_prefix("http://").unwrap())
    }

    fn at(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            connections: JoinSet::new(),
        }
    }

    async fn ask(&mut self, method: Method, path: &str, body: &str) -> Response<Incoming> {
        let stream = TcpStream::connect(&self.address).await.unwrap();
        let (mut send, connection) = client::handshake(TokioIo::new(stream)).await.unwrap();
        self.connections.spawn(async {
            // How a connection ends is seen in its answers.
            let _ = connection.await;
        });
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", &self.address)
            .body(Full::new(Bytes::from(body.to_owned())))
            .unwrap();
        send.send_request(request).await.unwrap()
    }
}

async fn text(response: Response<Incoming>) -> Bytes {
    response.into_body().collect().await.unwrap().to_bytes()
}

const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn a_stream_is_complete_paced_and_says_what_it_is() {
    let demo = start().await.unwrap();
    let mut client = Client::of(&demo);
    let began = std::time::Instant::now();
    let body = r#"{"messages":[{"role":"user","content":"hello there"}],"stream":true,"max_tokens":5,"stream_options":{"include_usage":true}}"#;
    let response = client.ask(Method::POST, CHAT, body).await;
    assert_eq!(
        response.headers()["content-type"],
        "text/event-stream",
        "it is a stream"
    );
    let bytes = text(response).await;
    assert!(began.elapsed() >= PACE * 5, "the words come one by one");
    let mut observer = StreamObserver::default();
    observer.feed(&bytes);
    assert_eq!(
        observer.verdict(),
        StreamEnd::Complete,
        "with finish and [DONE]"
    );
    let seen = observer.observed();
    assert_eq!(seen.content_chunks, 5, "max_tokens is honoured");
    assert_eq!(
        seen.finish,
        Some(Finish::Length),
        "and said to be the reason"
    );
    let usage = seen.usage.unwrap();
    assert_eq!(
        (usage.prompt_tokens, usage.completion_tokens),
        (Some(7), Some(5)),
        "usage comes because it was asked for: two words, a role and the message's own four"
    );
    let said = String::from_utf8(bytes.to_vec()).unwrap();
    assert!(
        said.lines()
            .filter(|line| line.starts_with("data: {"))
            .all(|line| line.contains("built-in demo, not a model")),
        "every piece says what it is"
    );
}

#[tokio::test]
async fn a_whole_answer_is_complete_and_says_what_it_is() {
    let demo = start().await.unwrap();
    let mut client = Client::of(&demo);
    let body = r#"{"messages":[{"role":"user","content":"CANARY"}],"max_completion_tokens":8}"#;
    let bytes = text(client.ask(Method::POST, CHAT, body).await).await;
    let (end, seen) = observe_whole(&bytes);
    assert_eq!(end, WholeEnd::Complete, "it is JSON without an error");
    assert_eq!(
        seen.usage.unwrap().completion_tokens,
        Some(8),
        "the newer limit counts"
    );
    let said = String::from_utf8(bytes.to_vec()).unwrap();
    assert!(
        said.contains("built-in demo, not a model"),
        "it says what it is"
    );
    assert!(!said.contains("CANARY"), "and repeats nothing");
}

#[tokio::test]
async fn its_models_name_a_window_and_other_routes_are_errors() {
    let demo = start().await.unwrap();
    let mut client = Client::of(&demo);
    let bytes = text(client.ask(Method::GET, "/v1/models", "").await).await;
    let models: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(models["data"][0]["id"], MODEL, "one model");
    assert_eq!(
        models["data"][0]["max_model_len"], WINDOW,
        "with its window"
    );
    for (method, path, body, status) in [
        (Method::GET, "/props", "", 404),
        (Method::GET, CHAT, "", 404),
        (Method::POST, CHAT, "{}", 400),
        (Method::POST, CHAT, "not json", 400),
    ] {
        let response = client.ask(method, path, body).await;
        assert_eq!(response.status(), status, "{path} with {body:?}");
        assert!(
            matches!(observe_whole(&text(response).await).0, WholeEnd::Error(_)),
            "as an error in the dialect"
        );
    }
}

#[tokio::test]
async fn a_prompt_over_its_window_is_refused_as_servers_do() {
    let demo = start().await.unwrap();
    let mut client = Client::of(&demo);
    let body = serde_json::json!({"messages": [{"role": "user", "content": "word ".repeat(5000)}]});
    let response = client.ask(Method::POST, CHAT, &body.to_string()).await;
    assert_eq!(response.status(), 400, "it does not fit");
    let said = text(response).await;
    assert!(
        String::from_utf8_lossy(&said).contains("context_length_exceeded"),
        "with the code clients know"
    );
}

#[tokio::test]
async fn dropping_the_demo_ends_its_answers_and_frees_its_port() {
    let demo = start().await.unwrap();
    let mut client = Client::of(&demo);
    let body = r#"{"messages":[],"stream":true}"#;
    let mut response = client.ask(Method::POST, CHAT, body).await;
    assert!(response.frame().await.is_some(), "it has begun");
    let address = demo.base_url.strip_prefix("http://").unwrap().to_owned();
    drop(demo);
    let ended = tokio::time::timeout(Duration::from_secs(1), response.collect()).await;
    assert!(ended.unwrap().is_err(), "the answer is cut, not finished");
    assert!(
        TcpStream::connect(address).await.is_err(),
        "the listener is closed"
    );
}

#[tokio::test]
async fn a_client_that_leaves_stops_the_words() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = Client::at(&listener.local_addr().unwrap().to_string());
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        serve(stream).await;
    });
    let body = r#"{"messages":[],"stream":true}"#;
    let mut response = client.ask(Method::POST, CHAT, body).await;
    assert!(response.frame().await.is_some(), "it has begun");
    drop(response);
    let stopped = tokio::time::timeout(Duration::from_secs(1), serving.join_next()).await;
    assert!(
        stopped.is_ok(),
        "the connection ends long before the speech would have"
    );
}
