//! The project's own commands. `cargo xtask help` lists them.
//!
//! Each command sets up what it needs on a fresh machine and says what is missing where it
//! cannot. Nothing here is part of the product, and nothing here decides what the product does.

mod call;
mod checkout;
mod fault;
mod icons;
mod ledger;
mod lint;
mod measure;
mod outcomes;
mod package;
mod panel;
mod parts;
mod run;
mod say;
mod soak;
mod suite;
mod tray;
mod words;

use std::process::ExitCode;

use checkout::Checkout;
use fault::Fault;
use words::Order;

fn main() -> ExitCode {
    let ended = words::read(std::env::args().skip(1)).and_then(carry_out);
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            say::fault(&fault);
            ExitCode::FAILURE
        }
    }
}

fn carry_out(order: Order) -> Result<(), Fault> {
    let checkout = Checkout::find()?;
    match order {
        Order::Help => {
            say::line(words::HELP);
            Ok(())
        }
        Order::Test => suite::test(&checkout),
        Order::Lint => lint::lint(&checkout),
        Order::Load => suite::load(&checkout),
        Order::Setup => parts::ready(&checkout).map(|_| ()),
        Order::Ledger(form) => ledger::show(&checkout, form),
        Order::Icons => icons::make(&checkout),
        Order::Package(then) => package::package(&checkout, then),
        Order::MeasureTray(numbers) => tray::measure(&checkout, numbers),
        Order::Panel => panel::test(&checkout),
        Order::Shots(wanted) => panel::shots(&checkout, wanted.as_deref()),
        Order::Soak(minutes) => soak::soak(&checkout, minutes),
        Order::Model(wish) => run::model(&checkout, &wish),
        Order::Pressure(args) => measure::pressure(&checkout, &args),
        Order::Readings(args) => measure::readings(&checkout, &args),
        Order::Run(wish) => run::gateway(&checkout, &wish),
    }
}
