//! What can be typed. No value is judged here that the settings judge.

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand};

/// A gateway in front of a local model server: one slot, a short bounded line, a stable contract.
#[derive(Debug, Parser)]
#[command(name = "oneslotd", version)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) paths: Paths,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Which OneSlot is meant.
#[derive(Debug, Clone, Args)]
pub(crate) struct Paths {
    /// The settings file [default: config.toml in the user's configuration directory]
    #[arg(long, global = true, value_name = "FILE", env = "ONESLOT_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// The state directory; one OneSlot runs with each [default: the user's]
    #[arg(long, global = true, value_name = "DIR", env = "ONESLOT_STATE")]
    pub(crate) state: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve until stopped
    Serve(Serve),
    /// Show what the running OneSlot does
    Status(Look),
    /// Pause inference; the running answer finishes
    Pause(Pause),
    /// Resume inference
    Resume,
    /// Stop a request, waiting or running
    Cancel {
        /// Its id, as `status` shows it
        id: String,
    },
    /// Unload the model, once the slot is free
    Unload,
    /// Look at once whether the model server is back
    Check,
    /// Find the model server, try it, and say what to fix
    Doctor,
    /// Show the settings in use and where each came from
    Config(Ask),
    /// Keys of apps
    Key {
        #[command(subcommand)]
        command: Key,
    },
}

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Serve {
    /// An address to serve on, such as 127.0.0.1:11411; may be given several times
    #[arg(long, value_name = "ADDRESS", action = ArgAction::Append)]
    pub(crate) listen: Vec<String>,
    /// The model server, with or without /v1, or auto
    #[arg(long, value_name = "URL")]
    pub(crate) upstream: Option<String>,
    /// The starting point of all settings: balanced or strict
    #[arg(long, value_name = "PRESET")]
    pub(crate) preset: Option<String>,
    /// Serve a built-in simulated model that says so in every answer
    #[arg(long, conflicts_with = "upstream")]
    pub(crate) demo: bool,
}

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Look {
    /// As JSON; with --watch one object a line
    #[arg(long)]
    pub(crate) json: bool,
    /// Again with each change, until stopped
    #[arg(long)]
    pub(crate) watch: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Pause {
    /// For how long: 90s, 15m, 1h, or tomorrow (08:00) [default: until resumed]
    #[arg(value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// Stop the running answer instead of letting it finish
    #[arg(long)]
    pub(crate) stop: bool,
    /// Unload the model as well, where the server can
    #[arg(long)]
    pub(crate) unload: bool,
}

#[derive(Debug, Clone, Copy, Args)]
#[group(multiple = false)]
pub(crate) struct Ask {
    /// Every setting with default, range and reason, as a file to start from
    #[arg(long)]
    pub(crate) explain: bool,
    /// Say whether the settings are without fault
    #[arg(long)]
    pub(crate) check: bool,
    /// Where the settings file is
    #[arg(long)]
    pub(crate) path: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Key {
    /// Make a key for an app and show it, this once
    Add {
        /// The app's name, as line, record and panel show it
        name: String,
    },
    /// Names of all keys
    List,
    /// Take a key away
    Remove {
        /// Its name
        name: String,
    },
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn addresses_may_be_given_several_times() {
        let cli = parse("oneslotd serve --listen 127.0.0.1:0 --listen [::1]:0 --state /s").unwrap();
        let Some(Command::Serve(serve)) = cli.command else {
            unreachable!("serve was typed")
        };
        assert_eq!(serve.listen, ["127.0.0.1:0", "[::1]:0"]);
        assert_eq!(
            cli.paths.state,
            Some(PathBuf::from("/s")),
            "places go with every command"
        );
    }

    #[test]
    fn places_stand_before_or_behind_the_command() {
        for line in [
            "oneslotd --state /s status --json",
            "oneslotd status --json --state /s",
        ] {
            let cli = parse(line).unwrap();
            assert_eq!(cli.paths.state, Some(PathBuf::from("/s")), "{line}");
            assert!(matches!(
                cli.command,
                Some(Command::Status(Look {
                    json: true,
                    watch: false
                }))
            ));
        }
    }

    #[test]
    fn every_command_of_the_design_is_there() {
        for line in [
            "serve --config f --listen 127.0.0.1:1 --upstream auto --preset strict",
            "serve --demo",
            "status --watch",
            "pause",
            "pause 15m --stop --unload",
            "pause tomorrow",
            "resume",
            "cancel 01ABC",
            "unload",
            "check",
            "doctor",
            "config",
            "config --explain",
            "config --check",
            "config --path",
            "key add zed",
            "key list",
            "key remove zed",
        ] {
            assert!(parse(&format!("oneslotd {line}")).is_ok(), "{line}");
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused_with_code_2() {
        for line in [
            "serve --demo --upstream auto",
            "config --explain --check",
            "cancel",
            "key add",
            "start",
        ] {
            let error = parse(&format!("oneslotd {line}")).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line}");
        }
    }

    #[test]
    fn no_command_is_a_wish_for_help() {
        assert!(parse("oneslotd").unwrap().command.is_none());
    }
}
