//! The windows on a test's screen, closed as a person would: by asking them.

use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{
    AtomEnum, ClientMessageEvent, ConnectionExt as _, EventMask, MapState, Window,
};
use x11rb::rust_connection::RustConnection;

use super::desktop::Desktop;

/// The visible windows with this title.
pub(crate) fn titled(desktop: &Desktop, title: &str) -> Vec<Window> {
    let (screen, root) = connected(desktop);
    below(&screen, root)
        .into_iter()
        .filter(|window| name(&screen, *window).as_deref() == Some(title))
        .filter(|window| is_seen(&screen, *window))
        .collect()
}

/// Where a window stands on the screen, and its size: left, top, width and height.
pub(crate) fn place(desktop: &Desktop, window: Window) -> (i32, i32, i32, i32) {
    let (screen, root) = connected(desktop);
    let size = screen.get_geometry(window).expect("the screen answers");
    let size = size.reply().expect("the window is there");
    let at = screen.translate_coordinates(window, root, 0, 0);
    let at = at.expect("the screen answers").reply();
    let at = at.expect("the window is there");
    (
        at.dst_x.into(),
        at.dst_y.into(),
        size.width.into(),
        size.height.into(),
    )
}

/// Asks the windows with this title to close.
pub(crate) fn close(desktop: &Desktop, title: &str) {
    let (screen, _) = connected(desktop);
    let atom = |name: &[u8]| {
        let reply = screen.intern_atom(false, name).expect("the screen answers");
        reply.reply().expect("an atom can be had").atom
    };
    let (protocols, delete) = (atom(b"WM_PROTOCOLS"), atom(b"WM_DELETE_WINDOW"));
    for window in titled(desktop, title) {
        let message = ClientMessageEvent::new(32, window, protocols, [delete, 0, 0, 0, 0]);
        screen
            .send_event(false, window, EventMask::NO_EVENT, message)
            .expect("the screen takes a message")
            .check()
            .expect("the window takes a message");
    }
}

fn connected(desktop: &Desktop) -> (RustConnection, Window) {
    let (screen, at) = x11rb::connect(Some(desktop.display())).expect("the screen is there");
    let root = screen.setup().roots[at].root;
    (screen, root)
}

fn below(screen: &RustConnection, window: Window) -> Vec<Window> {
    let Ok(Ok(tree)) = screen.query_tree(window).map(|cookie| cookie.reply()) else {
        return Vec::new();
    };
    let inner = tree.children.iter().flat_map(|child| below(screen, *child));
    let inner: Vec<Window> = inner.collect();
    tree.children.into_iter().chain(inner).collect()
}

fn name(screen: &RustConnection, window: Window) -> Option<String> {
    let kinds = (AtomEnum::WM_NAME, AtomEnum::ANY);
    let property = screen.get_property(false, window, kinds.0, kinds.1, 0, 64);
    String::from_utf8(property.ok()?.reply().ok()?.value).ok()
}

fn is_seen(screen: &RustConnection, window: Window) -> bool {
    let attributes = screen
        .get_window_attributes(window)
        .map(|cookie| cookie.reply());
    matches!(attributes, Ok(Ok(one)) if one.map_state == MapState::VIEWABLE)
}
