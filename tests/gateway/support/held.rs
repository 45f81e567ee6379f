//! A running answer that holds the slot, and clients that wait behind it.

use super::chat;
use super::client::{Client, Response};
use super::gateway::Gateway;
use super::script::{Gate, Script};
use super::upstream::Upstream;

/// A stream that has begun and ends when the test says so.
pub(crate) struct Held {
    pub(crate) client: Client,
    gate: Gate,
}

/// Takes the slot: the answer has begun, and goes on until it is released.
pub(crate) fn hold(gateway: &Gateway, upstream: &Upstream) -> Held {
    let gate = Gate::new();
    upstream.next_chat(
        Script::stream()
            .delta("holding")
            .wait_for(&gate)
            .delta("released")
            .ending(),
    );
    let mut client = gateway.open_chat(&chat::streamed("hold the slot"));
    client.body_until_has("holding");
    Held { client, gate }
}

impl Held {
    /// Lets the answer end, and returns it.
    pub(crate) fn release(mut self) -> Response {
        self.gate.open();
        self.client.finish()
    }

    /// Lets the answer end without reading it.
    pub(crate) fn let_go(&self) {
        self.gate.open();
    }
}

/// Puts `count` chats into the line, one after the other, so that their order is known; each
/// says its number.
pub(crate) fn queue(gateway: &Gateway, count: usize) -> Vec<Client> {
    (0..count)
        .map(|at| {
            let before = gateway.status()["queue"]["waiting"].as_u64().unwrap_or(0);
            let client = gateway.open_chat(&chat::whole(&format!("number {at}")));
            gateway.until_queue(1, before + 1);
            client
        })
        .collect()
}
