//! What an icon tells its desktop, counted: every signal means that something is drawn anew.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use zbus::MatchRule;
use zbus::blocking::connection::Builder;
use zbus::blocking::{MessageIterator, fdo::DBusProxy};
use zbus::message::Type;

use super::desktop::Desktop;

/// Counts for as long as the desktop's bus lives.
pub(crate) struct Signals(Arc<(Mutex<HashMap<String, usize>>, Condvar)>);

impl Signals {
    /// Counts from now on.
    pub(crate) fn on(desktop: &Desktop) -> Self {
        let bus = Builder::address(desktop.address())
            .and_then(Builder::build)
            .expect("the desktop's bus can be listened to");
        let names = DBusProxy::new(&bus).expect("a bus can be asked");
        let heard = MessageIterator::from(&bus);
        for interface in ["org.kde.StatusNotifierItem", "com.canonical.dbusmenu"] {
            let rule = MatchRule::builder()
                .msg_type(Type::Signal)
                .interface(interface)
                .expect("it is an interface's name")
                .build();
            names.add_match_rule(rule).expect("a bus takes a rule");
        }
        let counts = Arc::<(Mutex<HashMap<String, usize>>, Condvar)>::default();
        let kept = Arc::clone(&counts);
        std::thread::spawn(move || {
            for message in heard.map_while(Result::ok) {
                let header = message.header();
                if header.message_type() == Type::Signal
                    && let Some(member) = header.member()
                {
                    *kept
                        .0
                        .lock()
                        .unwrap()
                        .entry(member.to_string())
                        .or_default() += 1;
                    kept.1.notify_all();
                }
            }
        });
        Self(counts)
    }

    /// How often this was said so far.
    pub(crate) fn count(&self, member: &str) -> usize {
        let counts = self.0.0.lock().unwrap();
        counts.get(member).copied().unwrap_or_default()
    }

    /// Waits until this was said more often than `before`.
    pub(crate) fn until_more(&self, member: &str, before: usize) {
        let more = |counts: &mut HashMap<String, usize>| {
            counts.get(member).copied().unwrap_or_default() <= before
        };
        let counts = self.0.0.lock().unwrap();
        let waited = self
            .0
            .1
            .wait_timeout_while(counts, Duration::from_secs(30), more);
        assert!(
            !waited.unwrap().1.timed_out(),
            "the icon says {member} again"
        );
    }

    /// All that was said.
    pub(crate) fn all(&self) -> HashMap<String, usize> {
        self.0.0.lock().unwrap().clone()
    }
}
