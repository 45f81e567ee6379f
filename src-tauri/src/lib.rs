//! OneSlot's tray: the gateway in a program with an icon, a menu and a panel.
//!
//! It decides nothing about requests. The gateway runs on its own thread ([`gateway_link`]); its
//! state becomes a face by a pure function ([`mod@tray_face`]), which is drawn ([`tray`]); what a
//! person asks for goes back as a command ([`menu_actions`], [`commands`]). The panel is a window
//! that exists only while it is open ([`panel`]).

pub mod args;
pub mod platform;
pub mod single_instance;
pub mod toolkit_crash;

// The gateway, seen from here.
pub mod gateway_link;
pub mod preferences;
pub mod startup_notices;

// The face.
pub mod i18n;
pub mod tray_face;
pub mod tray;
pub mod tray_host;
pub mod notifications;
pub mod clipboard;
pub mod autostart;
pub mod open_path;
pub mod menu_actions;

// The panel.
pub mod panel;
pub mod subscriptions;
pub mod commands;

#[cfg(test)]
mod bindings;

pub mod app;
