//! A stand-in for the desktop's tray: owns the watcher's name, and reads and presses what
//! registers there, as GNOME's and KDE's do.

use std::collections::HashMap;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zbus::blocking::Connection;
use zbus::blocking::connection::Builder;
use zbus::blocking::fdo::PropertiesProxy;
use zbus::zvariant::{OwnedValue, Value};

use super::desktop::Desktop;
use super::{eventually, within};

const WATCHER: &str = "org.kde.StatusNotifierWatcher";
const ITEM: &str = "org.kde.StatusNotifierItem";
const MENU: &str = "com.canonical.dbusmenu";

/// The desktop's tray; it goes with the value.
pub(crate) struct Host {
    bus: Connection,
    registered: Receiver<String>,
}

struct Watcher {
    registers: Mutex<mpsc::Sender<String>>,
    items: Arc<Mutex<Vec<String>>>,
}

#[zbus::interface(name = "org.kde.StatusNotifierWatcher")]
impl Watcher {
    fn register_status_notifier_item(
        &self,
        service: &str,
        #[zbus(header)] header: zbus::message::Header<'_>,
    ) {
        // Ask the connection that registered: another of the program's may never answer.
        let sender = header.sender().map(ToString::to_string);
        self.items.lock().unwrap().push(service.to_owned());
        let _ = self
            .registers
            .lock()
            .unwrap()
            .send(sender.unwrap_or_default());
    }

    fn register_status_notifier_host(&self, _service: &str) {}

    #[zbus(property)]
    fn is_status_notifier_host_registered(&self) -> bool {
        true
    }

    #[zbus(property)]
    fn protocol_version(&self) -> i32 {
        0
    }

    #[zbus(property)]
    fn registered_status_notifier_items(&self) -> Vec<String> {
        self.items.lock().unwrap().clone()
    }
}

/// An icon that registered.
pub(crate) struct Icon {
    bus: Connection,
    owner: String,
}

/// What an icon looks like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Look {
    /// Its picture, as bytes; different shapes have different ones.
    pub(crate) picture: Vec<u8>,
    pub(crate) tooltip: String,
    pub(crate) status: String,
}

/// A row of the menu.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    id: i32,
    pub(crate) text: String,
    pub(crate) enabled: bool,
    pub(crate) ticked: Option<bool>,
    pub(crate) rows: Vec<Row>,
}

type Picture = (i32, i32, Vec<u8>);
type Layout = (i32, HashMap<String, OwnedValue>, Vec<OwnedValue>);

impl Host {
    /// Takes the watcher's name on this desktop's bus.
    pub(crate) fn on(desktop: &Desktop) -> Self {
        let (told, registered) = mpsc::channel();
        let watcher = Watcher {
            registers: Mutex::new(told),
            items: Arc::default(),
        };
        let bus = Builder::address(desktop.address())
            .and_then(|builder| builder.serve_at("/StatusNotifierWatcher", watcher))
            .and_then(|builder| builder.name(WATCHER))
            .and_then(Builder::build)
            .expect("the desktop's bus takes a tray");
        Self { bus, registered }
    }

    /// The next icon that registers.
    pub(crate) fn icon(&self) -> Icon {
        let owner = self.registered.recv_timeout(super::LIMIT);
        Icon {
            bus: self.bus.clone(),
            owner: owner.expect("an icon registers"),
        }
    }

    /// Whether no icon registers for that long.
    pub(crate) fn is_empty_for(&self, time: Duration) -> bool {
        self.registered.recv_timeout(time).is_err()
    }
}

impl Icon {
    pub(crate) fn look(&self) -> Look {
        let all = self.properties();
        let picture: Vec<Picture> = get(&all, "IconPixmap");
        let tooltip: (String, Vec<Picture>, String, String) = get(&all, "ToolTip");
        Look {
            picture: picture
                .into_iter()
                .next()
                .map(|one| one.2)
                .unwrap_or_default(),
            tooltip: tooltip.3,
            status: get(&all, "Status"),
        }
    }

    /// The title, which hosts show above the tooltip.
    pub(crate) fn title(&self) -> String {
        get(&self.properties(), "Title")
    }

    pub(crate) fn rows(&self) -> Vec<Row> {
        let properties: Vec<&str> = Vec::new();
        let reply = self
            .bus
            .call_method(
                Some(self.owner.as_str()),
                "/MenuBar",
                Some(MENU),
                "GetLayout",
                &(0_i32, -1_i32, properties),
            )
            .expect("the menu answers");
        let (_, layout): (u32, Layout) = reply.body().deserialize().expect("it is a menu");
        row(layout).rows
    }

    /// The row with this text, also inside of others.
    pub(crate) fn row(&self, text: &str) -> Option<Row> {
        fn find(rows: Vec<Row>, text: &str) -> Option<Row> {
            rows.into_iter().find_map(|row| {
                if row.text == text {
                    Some(row)
                } else {
                    find(row.rows, text)
                }
            })
        }
        find(self.rows(), text)
    }

    /// Presses the row with this text, waiting until it is there and can be pressed.
    pub(crate) fn press(&self, text: &str) {
        let why = format!("a row {text:?} to press among {:?}", self.texts());
        let row = eventually(&why, || self.row(text).filter(|row| row.enabled));
        let nothing = Value::from("");
        let pressed = self.bus.call_method(
            Some(self.owner.as_str()),
            "/MenuBar",
            Some(MENU),
            "Event",
            &(row.id, "clicked", nothing, 0_u32),
        );
        // A program that is told to end may do so before it answers.
        assert!(
            pressed.is_ok() || text.starts_with("Quit"),
            "the row {text:?} takes the press: {pressed:?}"
        );
    }

    /// A click on the icon itself.
    pub(crate) fn click(&self) {
        self.bus
            .call_method(
                Some(self.owner.as_str()),
                "/StatusNotifierItem",
                Some(ITEM),
                "Activate",
                &(0_i32, 0_i32),
            )
            .expect("the icon takes a click");
    }

    /// The texts of the rows, without lines.
    pub(crate) fn texts(&self) -> Vec<String> {
        let rows = self.rows().into_iter().map(|row| row.text);
        rows.filter(|text| !text.is_empty()).collect()
    }

    /// Waits until tooltip and first row both say this; gives the look.
    pub(crate) fn until_says(&self, limit: Duration, said: &str) -> Look {
        self.until(limit, said, |text| text == said)
    }

    /// Waits until tooltip and first row begin so.
    pub(crate) fn until_begins(&self, limit: Duration, said: &str) -> Look {
        self.until(limit, said, |text| text.starts_with(said))
    }

    fn until(&self, limit: Duration, said: &str, is_it: impl Fn(&str) -> bool) -> Look {
        let why = format!("the icon says {said:?}; it says {:?}", self.look().tooltip);
        within(limit, &why, || {
            // The rows change last. An icon asked before them may change between its picture and
            // its tooltip, and show the picture of what was before.
            let first = self.texts().into_iter().next().unwrap_or_default();
            let look = self.look();
            (is_it(&look.tooltip) && is_it(&first)).then_some(look)
        })
    }

    fn properties(&self) -> HashMap<String, OwnedValue> {
        let proxy = PropertiesProxy::builder(&self.bus)
            .destination(self.owner.clone())
            .and_then(|builder| builder.path("/StatusNotifierItem"))
            .and_then(|builder| builder.build())
            .expect("the icon can be asked");
        let interface = zbus::names::InterfaceName::from_static_str_unchecked(ITEM);
        proxy.get_all(interface).expect("the icon answers")
    }
}

fn get<T>(all: &HashMap<String, OwnedValue>, name: &str) -> T
where
    T: TryFrom<OwnedValue>,
    T::Error: std::fmt::Debug,
{
    let value = all
        .get(name)
        .unwrap_or_else(|| panic!("the icon has no {name}"));
    let value = value.try_clone().expect("a value can be copied");
    T::try_from(value).unwrap_or_else(|error| panic!("{name}: {error:?}"))
}

fn row((id, all, rows): Layout) -> Row {
    let text = |name: &str| {
        let value = all
            .get(name)
            .and_then(|value| value.downcast_ref::<&str>().ok());
        value.unwrap_or_default().to_owned()
    };
    let enabled = all
        .get("enabled")
        .and_then(|value| value.downcast_ref::<bool>().ok());
    let state = all.get("toggle-state");
    let state = state.and_then(|value| value.downcast_ref::<i32>().ok());
    Row {
        id,
        // A single underscore marks a shortcut.
        text: text("label")
            .replace("__", "\u{0}")
            .replace('_', "")
            .replace('\u{0}', "_"),
        enabled: enabled.unwrap_or(true),
        ticked: state.map(|state| state == 1),
        rows: rows
            .into_iter()
            .map(|inner| row(Layout::try_from(inner).expect("a row is as the menu is")))
            .collect(),
    }
}
