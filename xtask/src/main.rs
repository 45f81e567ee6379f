//! The project's own commands; `cargo xtask help` lists them.
//!
//! Each command installs what it needs on a fresh machine, or says what is missing where it cannot.
//! Nothing here is part of the product.

mod checkout;
mod cli;
mod deps;
mod error;
mod icons;
mod lint;
mod measure;
mod output;
mod package;
mod panel;
mod process;
mod run;
mod test;

use std::process::ExitCode;

use clap::Parser as _;

use checkout::Checkout;
use cli::{Cli, Command};
use error::Error;

fn main() -> ExitCode {
    match execute(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::error(&error);
            ExitCode::FAILURE
        }
    }
}

fn execute(command: Command) -> Result<(), Error> {
    let checkout = Checkout::find()?;
    match command {
        Command::Run(options) => run::run(&checkout, &options),
        Command::Test => test::test(&checkout),
        Command::Lint => lint::lint(&checkout),
        Command::Panel => panel::test(&checkout),
        Command::Model(options) => run::model(&checkout, &options),
        Command::Soak { minutes } => test::soak(&checkout, minutes),
        Command::Load => test::load(&checkout),
        Command::Pressure { args } => measure::pressure(&checkout, &args),
        Command::Readings { args } => measure::readings(&checkout, &args),
        Command::MeasureTray { open } => measure::tray(&checkout, open),
        Command::Shots { filter } => panel::shots(&checkout, filter.as_deref()),
        Command::Icons => icons::make(&checkout),
        Command::Package { verify } => package::package(&checkout, verify),
    }
}
