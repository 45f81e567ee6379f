//! `oneslot`: the gateway with a face. Everything is in the library beside it.

#![cfg_attr(all(windows, not(debug_assertions)), windows_subsystem = "windows")]

use std::process::ExitCode;

use clap::Parser as _;
use oneslot_tray::args::Args;
use oneslot_tray::{app, platform};

fn main() -> ExitCode {
    let args = Args::parse();
    if platform::with_variables().is_err() {
        // It runs without them as well, only less safely.
        return app::run(&args);
    }
    app::run(&args)
}
