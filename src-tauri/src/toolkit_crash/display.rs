//! A display that goes: its connection breaks when the X server or the compositor ends, and GDK then
//! ends the process on the spot. The gateway is stopped in order first. Xlib says so to a handler;
//! of Wayland there is only what GDK says last ([`super::toolkit`] hears it).

use std::ffi::c_int;
use std::sync::{Arc, OnceLock};

use gtk::gdk;
use gtk::prelude::DisplayExtManual as _;
use x11_dl::xlib::{Display, Xlib};

use crate::gateway_link::GatewayLink;

/// What Xlib calls when a connection broke.
type Handler = unsafe extern "C" fn(*mut Display) -> c_int;

/// What there is to do then. Xlib hands its handler nothing of the program's.
static AT_ITS_END: OnceLock<AtItsEnd> = OnceLock::new();

struct AtItsEnd {
    link: Arc<GatewayLink>,
    /// GDK's own, which ends the process.
    before: OnceLock<Handler>,
}

/// Stops the gateway in order when the display goes; call it once the toolkit is connected.
#[expect(unsafe_code, reason = "only Xlib knows when a connection broke")]
pub fn end_in_order(link: &Arc<GatewayLink>) {
    if !gdk::Display::default().is_some_and(|display| display.backend().is_x11()) {
        return;
    }
    let xlib = match Xlib::open() {
        Ok(xlib) => xlib,
        Err(error) => {
            tracing::warn!(%error, "a display that goes will cut what runs");
            return;
        }
    };
    let end = AT_ITS_END.get_or_init(|| AtItsEnd {
        link: Arc::clone(link),
        before: OnceLock::new(),
    });
    // SAFETY: `gone` has the type that Xlib asks for, does not unwind and lives as long as the
    // program. GDK, which is connected, keeps the library that the call goes to loaded.
    let before = unsafe { (xlib.XSetIOErrorHandler)(Some(gone)) };
    if let Some(before) = before {
        // It is put there once.
        let _ = end.before.set(before);
    }
}

/// How a Wayland display ends for this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The compositor is gone.
    Gone,
    /// It is there, and cut this program off for what the toolkit sent: the toolkit fell.
    CutOff,
}

/// What GDK's last words before it ends the process mean; `None` for any others.
///
/// The words are those of GDK 3.24 (`gdkeventsource.c` of its Wayland part). What is compared here
/// is never translated, and 71 is Linux's number for a protocol error.
pub(super) fn end(domain: &str, message: &str) -> Option<End> {
    let begins = |words| domain == "Gdk" && message.starts_with(words);
    let dispatching = domain == "Gdk" && message.ends_with("dispatching to Wayland display.");
    if dispatching && begins("Error 71 (") {
        return Some(End::CutOff);
    }
    let is_gone = dispatching
        || begins("Error reading events from display")
        || begins("Error flushing display")
        || begins("Lost connection to Wayland compositor");
    is_gone.then_some(End::Gone)
}

/// Comes on whichever thread used the display, on several at once where they did; the process is
/// ended by the first that comes back from the gateway's end.
#[expect(
    unsafe_code,
    reason = "GDK's own handler says why and ends the process"
)]
extern "C" fn gone(display: *mut Display) -> c_int {
    let Some(end) = AT_ITS_END.get() else {
        return 0;
    };
    tracing::error!("the display is gone; stopping");
    end.link.stop();
    match end.before.get() {
        // SAFETY: it is what Xlib would have called with this very display.
        Some(before) => unsafe { before(display) },
        // Xlib ends the process then.
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compositor_that_is_gone_is_told_from_one_that_cut_the_program_off() {
        for gone in [
            "Error reading events from display: Broken pipe",
            "Error flushing display: Datenübergabe unterbrochen (broken pipe)",
            "Lost connection to Wayland compositor.",
            "Error 32 (Broken pipe) dispatching to Wayland display.",
        ] {
            assert_eq!(end("Gdk", gone), Some(End::Gone), "{gone}");
            assert_eq!(end("Gtk", gone), None, "{gone}");
        }
        let cut_off = "Error 71 (Protokollfehler) dispatching to Wayland display.";
        assert_eq!(end("Gdk", cut_off), Some(End::CutOff));
        assert_eq!(end("Gdk", "Unable to load sb_v_double_arrow"), None);
    }
}
