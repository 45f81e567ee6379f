//! The panel in `ui/`: its packages, its tests, its pictures.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::call;
use crate::checkout::Checkout;
use crate::fault::Fault;
use crate::parts;
use crate::say;

/// The panel's folder with everything that its commands need.
struct Panel {
    home: PathBuf,
    node: PathBuf,
    browser: &'static str,
}

/// Lints the panel and runs its tests: pure ones, and those in a browser with axe.
///
/// # Errors
/// The first part that is missing, or the first check that fails.
pub(crate) fn test(checkout: &Checkout) -> Result<(), Fault> {
    let panel = Panel::ready(checkout)?;
    say::step("The panel");
    panel.run(
        "prettier/bin/prettier.cjs",
        &["--check", "--log-level", "warn", "."],
    )?;
    panel.run("svelte-check/bin/svelte-check", &["--fail-on-warnings"])?;
    panel.run("vitest/vitest.mjs", &["run", "--project", "unit"])?;
    // What is shipped was built for the tray's program; this is the same with a fake host.
    panel.build_with_fake()?;
    panel.run("vitest/vitest.mjs", &["run", "--project", "browser"])
}

/// Takes a picture of every state, into the cache folder.
///
/// # Errors
/// As [`test`].
pub(crate) fn shots(checkout: &Checkout, wanted: Option<&str>) -> Result<(), Fault> {
    parts::letters()?;
    let panel = Panel::ready(checkout)?;
    say::step("Pictures of the panel");
    panel.build_with_fake()?;
    let mut command = panel.node("tests/browser/shots.ts");
    command.arg(checkout.cached("shots")).args(wanted);
    call::run(&mut command)
}

/// Builds the panel that is shipped, into `ui/dist`, where the tray's program takes it from.
///
/// # Errors
/// The first part that is missing, or a build that fails.
pub(crate) fn build(checkout: &Checkout) -> Result<(), Fault> {
    say::step("The panel's page");
    let (home, node) = parts::panel(checkout)?;
    let panel = Panel {
        home,
        node,
        browser: "",
    };
    panel.run("vite/bin/vite.js", &["build", "--logLevel", "warn"])
}

// === impl Panel ===

impl Panel {
    fn ready(checkout: &Checkout) -> Result<Self, Fault> {
        say::step("Parts for the panel");
        let browser = parts::browser()?;
        let (home, node) = parts::panel(checkout)?;
        Ok(Self {
            home,
            node,
            browser,
        })
    }

    fn build_with_fake(&self) -> Result<(), Fault> {
        self.run(
            "vite/bin/vite.js",
            &["build", "--mode", "fake", "--logLevel", "warn"],
        )
    }

    /// Runs a package's own program, without npm in between.
    fn run(&self, program: &str, words: &[&str]) -> Result<(), Fault> {
        let path = Path::new("node_modules").join(program);
        call::run(self.node(&path.to_string_lossy()).args(words))
    }

    fn node(&self, script: &str) -> Command {
        let mut command = Command::new(&self.node);
        command
            .current_dir(&self.home)
            .arg(script)
            .env("ONESLOT_TEST_BROWSER", self.browser)
            .env("NO_COLOR", "1");
        command
    }
}
