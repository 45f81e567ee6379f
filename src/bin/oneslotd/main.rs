//! `oneslotd`: the headless gateway and the command line that talks to a running one.
//!
//! It decides nothing about requests. Exit codes: 0 done, 1 not done (or nothing runs), 2 wrong
//! usage, faulty settings or a port held by a stranger, 3 the state directory is held by another
//! OneSlot.

mod args;
mod output;
mod paths;
mod serve;
mod control;
mod duration;
mod status;
mod settings;
mod keys;
mod doctor;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use args::{Cli, Command};

fn main() -> ExitCode {
    let Cli { paths, command } = Cli::parse();
    let Some(command) = command else {
        output::say(&Cli::command().render_help().to_string());
        return ExitCode::SUCCESS;
    };
    let done = match command {
        Command::Serve(serve) => serve::run(&paths, &serve),
        Command::Status(look) => status::run(&paths, look),
        Command::Pause(pause) => control::pause(&paths, &pause),
        Command::Resume => control::resume(&paths),
        Command::Cancel { id } => control::cancel(&paths, &id),
        Command::Unload => control::unload(&paths),
        Command::Check => control::check(&paths),
        Command::Doctor => doctor::run(&paths),
        Command::Config(ask) => settings::run(&paths, &ask),
        Command::Key { command } => keys::run(&paths, &command),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::complain(&failure.text);
            ExitCode::from(failure.code)
        }
    }
}

/// Why a command failed: the text for people, and the exit code for scripts.
#[derive(Debug)]
struct Failure {
    text: String,
    code: u8,
}

/// Not done, or nothing to do it with.
const NOT_DONE: u8 = 1;
/// Wrong usage, faulty settings, or a port held by a stranger.
const MISUSED: u8 = 2;
/// The state directory is held by another OneSlot.
const HELD: u8 = 3;

impl Failure {
    fn not_done(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            code: NOT_DONE,
        }
    }

    fn misused(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            code: MISUSED,
        }
    }

    /// An error and everything that led to it, in one line.
    fn of(error: &dyn std::error::Error) -> Self {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        Self::not_done(text)
    }
}
