//! The TypeScript of everything that crosses the panel's host interface, made from the types themselves.
//!
//! It is committed as `ui/src/host/generated/types.ts`, so that the panel is built without Rust;
//! a test fails when the two differ. `ONESLOT_WRITE_BINDINGS=1 cargo test -p oneslot-tray
//! bindings` rewrites it.

use oneslot::telemetry::{self, snapshot};
use ts_rs::{Config, TS};

use crate::commands::{
    Changed, Found, Gateway, Kind, Member, Opens, Origin, PauseWish, Platform, Proof, SettingsPage,
    Shell, TrayState, Unit, Value,
};
use crate::gateway_link::{Fault, Reason};
use crate::i18n::{Language, LanguageWish};
use crate::preferences::{NotifySwitches, NotifyWish, ShellWish};
use crate::subscriptions::Update;

const HEAD: &str = "// Made from the Rust types by a test of oneslot-tray; not to be edited.\n";

macro_rules! declared {
    ($config:expr, $($type:ty),+ $(,)?) => {
        [$(<$type as TS>::decl($config)),+]
    };
}

/// The whole file.
fn types() -> String {
    let config = Config::new().with_large_int("number");
    let all = declared!(
        &config,
        // What the gateway shows.
        snapshot::Snapshot,
        snapshot::Face,
        snapshot::Upstream,
        snapshot::Process,
        snapshot::Queue,
        snapshot::Item,
        snapshot::Phase,
        snapshot::Health,
        snapshot::HealthState,
        snapshot::Pressure,
        snapshot::Level,
        snapshot::Ram,
        snapshot::Vram,
        snapshot::Plan,
        snapshot::Window,
        snapshot::Pause,
        snapshot::RefusedOrigin,
        snapshot::RefusedKind,
        snapshot::Child,
        snapshot::Death,
        snapshot::Swap,
        snapshot::ItemPlan,
        telemetry::message::Message,
        telemetry::Latency,
        telemetry::Spread,
        telemetry::Quantiles,
        telemetry::Record,
        telemetry::Outcome,
        // What the tray adds.
        Update,
        PauseWish,
        SettingsPage,
        Member,
        Kind,
        Unit,
        Value,
        Origin,
        Changed,
        Found,
        Proof,
        Shell,
        Platform,
        Gateway,
        TrayState,
        Language,
        LanguageWish,
        NotifySwitches,
        NotifyWish,
        ShellWish,
        Opens,
        Fault,
        Reason,
    );
    let declared = all.map(|one| format!("\nexport {one}\n"));
    format!("{HEAD}{}", declared.concat())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn the_panels_types_are_those_of_the_program() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../ui/src/host/generated/types.ts"
        );
        if std::env::var_os("ONESLOT_WRITE_BINDINGS").is_some() {
            std::fs::create_dir_all(std::path::Path::new(path).parent().unwrap()).unwrap();
            std::fs::write(path, types()).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            committed == types(),
            "the types changed: rewrite {path} with ONESLOT_WRITE_BINDINGS=1"
        );
    }
}
