//! The settings as the panel shows them, and changes of one member at a time.
//!
//! What a member takes, where it came from and how it is written is the gateway's business
//! ([`oneslot::config`]); here it only gets another spelling.

mod spelling;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use oneslot::config::{Basis, EditError, Fault as ConfigFault, MEMBERS, Origin as From, Sources};
use oneslot::telemetry::message::{Fact, Message};
use serde::{Deserialize, Serialize};
use tauri::State;

use crate::gateway_link::{self, Fault, GatewayLink};

pub use spelling::{Kind, Member, Origin, Unit, Value};

/// Ports that are tried where the configured one is taken.
const OTHER_PORTS: std::ops::Range<u16> = 11_412..11_512;

/// All settings.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct SettingsPage {
    file: String,
    faults: Vec<String>,
    members: Vec<Member>,
}

/// What came of a change. A refused one leaves everything as it was.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(untagged)]
pub enum Changed {
    /// It was written.
    Done {
        /// Always true.
        #[cfg_attr(test, ts(type = "true"))]
        ok: bool,
        /// All settings after it.
        page: SettingsPage,
        /// What a person should know of how it was written.
        note: Option<Message>,
    },
    /// It was not.
    Refused {
        /// Always false.
        #[cfg_attr(test, ts(type = "false"))]
        ok: bool,
        /// Why not.
        reason: String,
    },
}

/// The list that a refused origin or host is added to.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListKind {
    /// `access.allowed_origins`.
    Origin,
    /// `access.allowed_hosts`.
    Host,
}

#[tauri::command]
pub(super) async fn settings(link: State<'_, Arc<GatewayLink>>) -> Result<SettingsPage, Fault> {
    page(link.sources())
}

#[tauri::command]
pub(super) async fn change(
    link: State<'_, Arc<GatewayLink>>,
    path: String,
    value: Option<Value>,
) -> Result<Changed, Fault> {
    changed(&link, &path, value)
}

#[tauri::command]
pub(super) async fn allow(
    link: State<'_, Arc<GatewayLink>>,
    kind: ListKind,
    value: String,
) -> Result<Changed, Fault> {
    let loaded = link.sources().load_to_edit();
    let access = loaded
        .map_err(|error| Fault::failed(&error))?
        .settings
        .access;
    let (path, mut list, value) = match kind {
        ListKind::Origin => ("access.allowed_origins", access.allowed_origins, value),
        ListKind::Host => {
            let name = without_port(&value).to_owned();
            ("access.allowed_hosts", access.allowed_hosts, name)
        }
    };
    if !list.contains(&value) {
        list.push(value);
    }
    changed(&link, path, Some(Value::List(list)))
}

#[tauri::command]
pub(super) async fn another_port(link: State<'_, Arc<GatewayLink>>) -> Result<Changed, Fault> {
    let loaded = link.sources().load_to_edit();
    let listen = loaded
        .map_err(|error| Fault::failed(&error))?
        .settings
        .listen;
    let Some(port) = free_port(&listen) else {
        return Ok(refused("no port from 11412 to 11511 is free".to_owned()));
    };
    let elsewhere = |one: SocketAddr| SocketAddr::new(one.ip(), port).to_string();
    let listen = listen.into_iter().map(elsewhere).collect();
    let changed = changed(&link, "listen", Some(Value::List(listen)));
    link.try_again();
    changed
}

/// The name in a Host as it was sent: the list has names, which hold on the port served on.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    }
}

/// A port that is free at each of the addresses. Between this look and its use it can be taken;
/// the gateway then says so as it did before.
fn free_port(listen: &[SocketAddr]) -> Option<u16> {
    let is_free = |port: &u16| {
        let one = |address: &SocketAddr| {
            TcpListener::bind(SocketAddr::new(address.ip(), *port)).is_ok()
                // A machine without this address family cannot have a conflict.
                || TcpListener::bind(SocketAddr::new(address.ip(), 0)).is_err()
        };
        TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok() && listen.iter().all(one)
    };
    OTHER_PORTS.into_iter().find(is_free)
}

fn changed(link: &GatewayLink, path: &str, value: Option<Value>) -> Result<Changed, Fault> {
    let sources = link.sources();
    if let Some(fixed) = fixed_by(sources, path) {
        return Ok(refused(format!(
            "{path} is set by {fixed}, which wins over the file"
        )));
    }
    let value = match value.map(Value::into_json).transpose() {
        Ok(value) => value,
        Err(reason) => return Ok(refused(reason.to_owned())),
    };
    match sources.edit(path, value.as_ref()) {
        Ok(basis) => Ok(Changed::Done {
            ok: true,
            page: page(sources)?,
            note: note(basis),
        }),
        Err(error) => Ok(refused(said(error))),
    }
}

fn note(basis: Basis) -> Option<Message> {
    match basis {
        Basis::File => None,
        Basis::Good { file, good } => {
            let (file, good) = (file.display().to_string(), good.display().to_string());
            Some(Fact::SettingsRestored { file, good }.message())
        }
    }
}

fn fixed_by(sources: &Sources, path: &str) -> Option<String> {
    match sources.load().ok()?.origin(path) {
        origin if !origin.is_fixed() => None,
        From::Given(location) => Some(location.to_string()),
        From::Default | From::Preset => None,
    }
}

/// Beside the field only what it should be is news; for the rest the whole sentence is.
fn said(error: EditError) -> String {
    match error {
        EditError::Faulty { faults } => match faults.as_slice() {
            [ConfigFault::Value { expected, .. }] => format!("expected {expected}"),
            _ => faults
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("; "),
        },
        EditError::Find { .. }
        | EditError::ReadOnly { .. }
        | EditError::Lock { .. }
        | EditError::Write { .. } => gateway_link::chain(&error),
    }
}

fn refused(reason: String) -> Changed {
    Changed::Refused { ok: false, reason }
}

fn page(sources: &Sources) -> Result<SettingsPage, Fault> {
    let loaded = sources.load_to_edit();
    let loaded = loaded.map_err(|error| Fault::failed(&error))?;
    Ok(SettingsPage {
        file: sources.file.display().to_string(),
        faults: loaded
            .notices
            .iter()
            .flat_map(|notice| notice.faults())
            .map(ToString::to_string)
            .collect(),
        members: MEMBERS
            .iter()
            .map(|member| Member::of(member, &loaded))
            .collect(),
    })
}
