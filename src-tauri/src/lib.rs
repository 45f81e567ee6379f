//! OneSlot's tray: the gateway in a program with an icon, a menu and a panel.
//!
//! It decides nothing about requests. The gateway runs on its own thread ([`serving`]); what it
//! shows becomes a face by a pure function ([`mod@face`]), which is drawn ([`tray`]); what a
//! person asks for goes back as a wish ([`act`], [`commands`]). The panel is a window that exists
//! only while it is open ([`panel`]).

pub mod args;
pub mod platform;
pub mod falls;
pub mod single;

// The gateway, seen from here.
pub mod serving;
pub mod unlogged;
pub mod shell;
pub mod incidents;

// The face.
pub mod words;
pub mod face;
pub mod tray;
pub mod hosts;
pub mod notify;
pub mod clipboard;
pub mod login;
pub mod opens;
pub mod act;

// The panel.
pub mod panel;
pub mod watches;
pub mod commands;

#[cfg(test)]
mod bindings;

pub mod app;
