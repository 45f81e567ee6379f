//! A stand-in for what shows notifications on a desktop: it writes down what it is asked to show.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use zbus::blocking::Connection;
use zbus::blocking::connection::Builder;
use zbus::zvariant::OwnedValue;

use super::desktop::Desktop;

/// The desktop's notifications; it goes with the value.
pub(crate) struct Notices {
    _bus: Connection,
    shown: Arc<Mutex<Vec<Notice>>>,
}

/// A notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) app: String,
    pub(crate) title: String,
    pub(crate) text: String,
}

struct Shower(Arc<Mutex<Vec<Notice>>>);

#[zbus::interface(name = "org.freedesktop.Notifications")]
impl Shower {
    #[expect(clippy::too_many_arguments, reason = "the desktops agreed on them")]
    fn notify(
        &self,
        app_name: &str,
        _replaces: u32,
        _icon: &str,
        summary: &str,
        body: &str,
        _actions: Vec<String>,
        _hints: HashMap<String, OwnedValue>,
        _expires: i32,
    ) -> u32 {
        let mut shown = self.0.lock().unwrap();
        shown.push(Notice {
            app: app_name.to_owned(),
            title: summary.to_owned(),
            text: body.to_owned(),
        });
        u32::try_from(shown.len()).unwrap()
    }

    fn get_capabilities(&self) -> Vec<String> {
        vec!["body".to_owned(), "body-markup".to_owned()]
    }

    fn close_notification(&self, _id: u32) {}

    fn get_server_information(&self) -> (String, String, String, String) {
        let text = |text: &str| text.to_owned();
        (text("stand-in"), text("oneslot"), text("1"), text("1.2"))
    }
}

impl Notices {
    /// Takes the name on this desktop's bus.
    pub(crate) fn on(desktop: &Desktop) -> Self {
        let shown = Arc::<Mutex<Vec<Notice>>>::default();
        let shower = Shower(Arc::clone(&shown));
        let bus = Builder::address(desktop.address())
            .and_then(|builder| builder.serve_at("/org/freedesktop/Notifications", shower))
            .and_then(|builder| builder.name("org.freedesktop.Notifications"))
            .and_then(Builder::build)
            .expect("the desktop's bus takes notifications");
        Self { _bus: bus, shown }
    }

    /// What was shown so far.
    pub(crate) fn shown(&self) -> Vec<Notice> {
        self.shown.lock().unwrap().clone()
    }
}
