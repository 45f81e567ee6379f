//! The settings as the panel shows them, and changes of one member at a time.
//!
//! What a member takes, where it came from and how it is written is the gateway's business
//! ([`oneslot::config`]); here it only gets another spelling.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use oneslot::config::{
    self, EditError, Fault as ConfigFault, Loaded, MEMBERS, Notice, Place, Sources,
};
use serde::{Deserialize, Serialize};
use tauri::State;

use crate::app::App;
use crate::serving::{Fault, Serving};

/// Ports that are tried where the configured one is taken.
const OTHER_PORTS: std::ops::Range<u16> = 11_412..11_512;

/// What a member takes.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Kind {
    /// True or false.
    Bool,
    /// A whole number in a range.
    Whole {
        /// The least.
        min: u64,
        /// The greatest.
        max: u64,
    },
    /// One of these numbers.
    Number {
        /// The numbers.
        of: Vec<u64>,
    },
    /// One of these words.
    Word {
        /// The words.
        of: Vec<String>,
    },
    /// `auto` or a whole number in a range.
    AutoOr {
        /// The least.
        min: u64,
        /// The greatest.
        max: u64,
    },
    /// Any text.
    Text,
    /// A credential.
    Secret,
    /// `auto` or the URL of a server.
    Server,
    /// Addresses with ports.
    Addresses,
    /// Host names.
    Hosts,
    /// Web origins.
    Origins,
    /// Named keys.
    Keys,
}

/// In what a member counts.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[cfg_attr(
    test,
    ts(
        type = "\"\" | \"ms\" | \"s\" | \"bytes\" | \"MiB\" | \"percent\" | \"tokens\" | \"requests\" | \"readings\" | \"connections\""
    )
)]
pub struct Unit(&'static str);

/// A value as it would be written. A credential that is set is `{hidden: true}`, never its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(untagged)]
pub enum Value {
    /// True or false.
    Bool(bool),
    /// A whole number.
    Whole(u64),
    /// Text.
    Text(String),
    /// A list of texts.
    List(Vec<String>),
    /// A credential that is set.
    Hidden {
        /// Always true.
        #[cfg_attr(test, ts(type = "true"))]
        hidden: bool,
    },
}

/// Who set a member. `variable` and `flag` win over the file, so the panel cannot change them.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(tag = "from", rename_all = "snake_case")]
pub enum Origin {
    /// No one.
    Default,
    /// The preset.
    Preset,
    /// The file.
    File {
        /// File and line.
        place: String,
    },
    /// The environment.
    Variable {
        /// The variable.
        place: String,
    },
    /// The command line.
    Flag {
        /// The flag.
        place: String,
    },
}

/// One setting.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Member {
    path: String,
    kind: Kind,
    unit: Unit,
    reason: String,
    value: Value,
    default: Value,
    origin: Origin,
}

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

/// Which list somebody who was turned away is to be put on.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListKind {
    /// `access.allowed_origins`.
    Origin,
    /// `access.allowed_hosts`.
    Host,
}

#[tauri::command]
pub(super) async fn settings(app: State<'_, App>) -> Result<SettingsPage, Fault> {
    page(app.serving.sources())
}

#[tauri::command]
pub(super) async fn change(
    app: State<'_, App>,
    path: String,
    value: Option<Value>,
) -> Result<Changed, Fault> {
    let serving = Arc::clone(&app.serving);
    changed(&serving, &path, value)
}

#[tauri::command]
pub(super) async fn allow(
    app: State<'_, App>,
    kind: ListKind,
    value: String,
) -> Result<Changed, Fault> {
    let serving = Arc::clone(&app.serving);
    let loaded = serving.sources().load();
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
    changed(&serving, path, Some(Value::List(list)))
}

#[tauri::command]
pub(super) async fn another_port(app: State<'_, App>) -> Result<Changed, Fault> {
    let serving = Arc::clone(&app.serving);
    let loaded = serving.sources().load();
    let listen = loaded
        .map_err(|error| Fault::failed(&error))?
        .settings
        .listen;
    let Some(port) = free_port(&listen) else {
        return Ok(refused("no port from 11412 to 11511 is free".to_owned()));
    };
    let elsewhere = |one: SocketAddr| SocketAddr::new(one.ip(), port).to_string();
    let listen = listen.into_iter().map(elsewhere).collect();
    let changed = changed(&serving, "listen", Some(Value::List(listen)));
    serving.try_again();
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
                // A machine without this family has nobody in the way either.
                || TcpListener::bind(SocketAddr::new(address.ip(), 0)).is_err()
        };
        TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok() && listen.iter().all(one)
    };
    OTHER_PORTS.into_iter().find(is_free)
}

fn changed(serving: &Serving, path: &str, value: Option<Value>) -> Result<Changed, Fault> {
    let sources = serving.sources();
    if let Some(fixed) = fixed_by(sources, path) {
        return Ok(refused(format!(
            "{path} is set by {fixed}, which wins over the file"
        )));
    }
    let value = match value.map(Value::into_written).transpose() {
        Ok(value) => value,
        Err(reason) => return Ok(refused(reason.to_owned())),
    };
    match sources.edit(path, value.as_ref()) {
        Ok(()) => Ok(Changed::Done {
            ok: true,
            page: page(sources)?,
        }),
        Err(error) => Ok(refused(said(error))),
    }
}

fn fixed_by(sources: &Sources, path: &str) -> Option<String> {
    let origin = sources.load().ok()?.origin(path);
    match origin {
        config::Origin::Given(place @ (Place::Variable(_) | Place::Flag(_))) => {
            Some(place.to_string())
        }
        config::Origin::Default
        | config::Origin::Preset
        | config::Origin::Given(Place::File { .. }) => None,
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
        | EditError::Write { .. } => Fault::failed(&error).text,
    }
}

fn refused(reason: String) -> Changed {
    Changed::Refused { ok: false, reason }
}

fn page(sources: &Sources) -> Result<SettingsPage, Fault> {
    let loaded = sources.load().map_err(|error| Fault::failed(&error))?;
    Ok(SettingsPage {
        file: sources.file.display().to_string(),
        faults: faults(&loaded),
        members: MEMBERS
            .iter()
            .map(|member| Member::of(member, &loaded))
            .collect(),
    })
}

/// Why the file as it stands is not in use.
fn faults(loaded: &Loaded) -> Vec<String> {
    let faults = |notice: &Notice| match notice {
        Notice::LastGoodServes { faults, .. }
        | Notice::DefaultsServe { faults }
        | Notice::Locked { faults } => faults.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    };
    loaded.notices.iter().flat_map(faults).collect()
}

impl Member {
    fn of(member: &config::Member, loaded: &Loaded) -> Self {
        let place = |place: &Place| place.to_string();
        Self {
            path: member.path.to_owned(),
            kind: Kind::of(member.kind),
            unit: Unit(member.unit.name()),
            reason: member.reason.to_owned(),
            value: Value::of(member.read(&loaded.settings)),
            default: Value::of(member.default(loaded.settings.preset)),
            origin: match loaded.origin(member.path) {
                config::Origin::Default => Origin::Default,
                config::Origin::Preset => Origin::Preset,
                config::Origin::Given(at @ Place::File { .. }) => {
                    Origin::File { place: place(&at) }
                }
                config::Origin::Given(Place::Variable(name)) => Origin::Variable { place: name },
                config::Origin::Given(Place::Flag(name)) => Origin::Flag {
                    place: name.to_owned(),
                },
            },
        }
    }
}

impl Kind {
    fn of(kind: config::Kind) -> Self {
        match kind {
            config::Kind::Bool => Self::Bool,
            config::Kind::Whole(min, max) => Self::Whole { min, max },
            config::Kind::Number(of) => Self::Number { of: of.to_vec() },
            config::Kind::Word(of) => Self::Word {
                of: of.iter().map(ToString::to_string).collect(),
            },
            config::Kind::AutoOr(min, max) => Self::AutoOr { min, max },
            config::Kind::Text => Self::Text,
            config::Kind::Secret => Self::Secret,
            config::Kind::Server => Self::Server,
            config::Kind::Addresses => Self::Addresses,
            config::Kind::Hosts => Self::Hosts,
            config::Kind::Origins => Self::Origins,
            config::Kind::Keys => Self::Keys,
        }
    }
}

impl Value {
    fn of(value: config::Value) -> Self {
        match value {
            config::Value::Bool(value) => Self::Bool(value),
            config::Value::Whole(number) => Self::Whole(number),
            config::Value::Text(text) => Self::Text(text),
            config::Value::List(texts) => Self::List(texts),
            // Their digests are nobody's reading.
            config::Value::Keys(keys) => Self::List(keys.into_iter().map(|key| key.name).collect()),
            config::Value::Hidden => Self::Hidden { hidden: true },
        }
    }

    fn into_written(self) -> Result<config::Value, &'static str> {
        Ok(match self {
            Self::Bool(value) => config::Value::Bool(value),
            Self::Whole(number) => config::Value::Whole(number),
            Self::Text(text) => config::Value::Text(text),
            Self::List(texts) => config::Value::List(texts),
            Self::Hidden { .. } => return Err("a hidden value cannot be written"),
        })
    }
}
