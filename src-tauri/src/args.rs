//! What can be typed. Where settings and state are is said as `oneslotd` says it.

use std::path::PathBuf;

use clap::{ArgAction, Parser};
use oneslot::config::Flag;

/// OneSlot in the tray: a gateway in front of a local model server, with a face.
#[derive(Debug, Clone, Parser)]
#[command(name = "oneslot", version)]
pub struct Args {
    /// The settings file [default: config.toml in the user's configuration directory]
    #[arg(long, value_name = "FILE", env = "ONESLOT_CONFIG")]
    pub config: Option<PathBuf>,
    /// The state directory; one OneSlot runs with each [default: the user's]
    #[arg(long, value_name = "DIR", env = "ONESLOT_STATE")]
    pub state: Option<PathBuf>,
    /// Start without showing the panel, as at login
    #[arg(long, conflicts_with = "show_panel")]
    pub hidden: bool,
    /// Start with the panel shown
    #[arg(long)]
    pub show_panel: bool,
    /// An address to serve on, such as 127.0.0.1:11411; may be given several times
    #[arg(long, value_name = "ADDRESS", action = ArgAction::Append)]
    pub listen: Vec<String>,
    /// The model server, with or without /v1, or auto
    #[arg(long, value_name = "URL")]
    pub upstream: Option<String>,
    /// Serve a built-in simulated model that says so in every answer
    #[arg(long, conflicts_with = "upstream")]
    pub demo: bool,
}

impl Args {
    /// What was typed, as members of the settings.
    pub fn flags(&self) -> Vec<Flag> {
        let listen = (!self.listen.is_empty()).then(|| Flag {
            name: "--listen",
            member: "listen",
            text: self.listen.join(","),
        });
        let upstream = self.upstream.clone().map(|text| Flag {
            name: "--upstream",
            member: "upstream.base_url",
            text,
        });
        listen.into_iter().chain(upstream).collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }
}
