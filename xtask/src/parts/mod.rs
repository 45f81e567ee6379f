//! What the project needs from outside: compilers, clients, a model server and a model.
//!
//! Everything is brought by ordinary package clients, at versions that the repository names, into
//! the cache folder; system packages come by apt where that is allowed. A part that is there is
//! not brought again.

mod clients;
mod model;
mod panel;
mod python;
mod stamp;
mod system;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::call;
use crate::checkout::Checkout;
use crate::fault::Fault;
use crate::say;

/// The oldest Rust that builds this workspace, as `rust-version` in Cargo.toml.
const RUST: (u32, u32) = (1, 95);

/// The checker of licences and sources; the hosted workflow runs it with advisories too.
const CARGO_DENY: &str = "0.20.2";

/// What the tests against real programs need, all of it in place.
pub(crate) struct Live {
    /// Runs the model server and the clients in Python.
    pub(crate) python: PathBuf,
    /// The small chat model, a GGUF file.
    pub(crate) model: PathBuf,
    node: PathBuf,
    node22: PathBuf,
    clients: PathBuf,
    browser: &'static str,
}

impl Live {
    /// The variables by which tests find the parts.
    pub(crate) fn environment(&self) -> [(&'static str, &Path); 6] {
        [
            ("ONESLOT_TEST_PYTHON", &self.python),
            ("ONESLOT_TEST_MODEL", &self.model),
            ("ONESLOT_TEST_NODE", &self.node),
            ("ONESLOT_TEST_NODE22", &self.node22),
            ("ONESLOT_TEST_CLIENTS", &self.clients),
            ("ONESLOT_TEST_BROWSER", Path::new(self.browser)),
        ]
    }
}

/// Brings everything that `cargo xtask test` needs beyond Rust and its linker.
///
/// # Errors
/// The first part that cannot be had, with what to do about it.
pub(crate) fn ready(checkout: &Checkout) -> Result<Live, Fault> {
    say::step("Parts for the live tests");
    system::bring(&system::LIVE)?;
    if cfg!(target_os = "linux") {
        system::bring(&system::LINUX)?;
    }
    let browser = system::browser()?;
    let python = python::bring(checkout)?;
    let model = model::bring(checkout, &python)?;
    let clients = clients::bring(checkout)?;
    say::line(&format!("ready in {}", checkout.cached("").display()));
    Ok(Live {
        python,
        model,
        node: clients.node,
        node22: clients.node22,
        clients: clients.modules,
        browser,
    })
}

/// Brings only what the model server needs: a Python with llama.cpp in it, and the model.
///
/// # Errors
/// As [`ready`].
pub(crate) fn model_server(checkout: &Checkout) -> Result<(PathBuf, PathBuf), Fault> {
    system::bring(&system::PYTHON)?;
    let python = python::bring(checkout)?;
    let model = model::bring(checkout, &python)?;
    Ok((python, model))
}

/// Brings the panel's packages. Gives its folder, and the Node that runs them.
///
/// # Errors
/// As [`ready`].
pub(crate) fn panel(checkout: &Checkout) -> Result<(PathBuf, PathBuf), Fault> {
    system::bring(&system::PANEL)?;
    panel::bring(checkout)
}

/// Brings a browser for the panel's tests.
///
/// # Errors
/// [`Fault::Missing`].
pub(crate) fn browser() -> Result<&'static str, Fault> {
    system::browser()
}

/// Brings letters for pictures of the panel in both its languages.
///
/// # Errors
/// [`Fault::Missing`].
pub(crate) fn letters() -> Result<(), Fault> {
    system::bring(&system::LETTERS)
}

/// Brings the program that draws icons.
///
/// # Errors
/// [`Fault::Missing`].
pub(crate) fn drawing() -> Result<(), Fault> {
    system::bring(&system::DRAWING)
}

/// Brings what the tray is built with, and a desktop for its tests. Only Linux needs any of it.
///
/// # Errors
/// [`Fault::Missing`].
pub(crate) fn desktop() -> Result<(), Fault> {
    if cfg!(target_os = "linux") {
        system::bring(&system::DESKTOP)
    } else {
        Ok(())
    }
}

/// Brings what puts a Debian package together.
///
/// # Errors
/// [`Fault::Missing`].
pub(crate) fn packaging() -> Result<(), Fault> {
    system::bring(&system::PACKAGING)
}

/// Brings what makes a bare Debian.
///
/// # Errors
/// [`Fault::Missing`].
pub(crate) fn bare_debian() -> Result<(), Fault> {
    system::bring(&system::BARE)
}

/// Makes a folder that is new and empty.
///
/// # Errors
/// [`Fault::Write`].
pub(crate) fn renew(folder: &Path) -> Result<(), Fault> {
    stamp::renew(folder)
}

/// Checks that Rust is new enough and has its formatter and clippy.
///
/// # Errors
/// [`Fault::Missing`]. No toolchain is installed for the person: which Rust a machine has is
/// theirs to say.
pub(crate) fn toolchain(checkout: &Checkout) -> Result<(), Fault> {
    let answer = call::ask(checkout.cargo().arg("--version"))?;
    let version = answer.split_whitespace().nth(1).unwrap_or_default();
    let mut numbers = version.split('.').map_while(|number| number.parse().ok());
    if (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) < RUST {
        return Err(Fault::Missing {
            what: format!("Rust {}.{} or newer; this is {version}", RUST.0, RUST.1),
            remedy: "install it, for example with `rustup toolchain install stable`".to_owned(),
        });
    }
    Ok(())
}

/// Formatter and linter, which only the checks need.
///
/// # Errors
/// [`Fault::Missing`] with the command that brings it.
pub(crate) fn linters(checkout: &Checkout) -> Result<(), Fault> {
    for (tool, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        if call::ask(checkout.cargo().args([tool, "--version"])).is_err() {
            return Err(Fault::Missing {
                what: format!("`cargo {tool}`"),
                remedy: format!("run `rustup component add {component}`"),
            });
        }
    }
    Ok(())
}

/// cargo-deny: the one on the PATH, else the one in the cache, built there when it is not.
///
/// # Errors
/// [`Fault::Failed`] when it cannot be built.
pub(crate) fn deny(checkout: &Checkout) -> Result<PathBuf, Fault> {
    if call::answers("cargo-deny", &["--version"]) {
        return Ok(PathBuf::from("cargo-deny"));
    }
    let root = checkout.cached(&format!("cargo-deny-{CARGO_DENY}"));
    let program = root
        .join("bin")
        .join(format!("cargo-deny{}", std::env::consts::EXE_SUFFIX));
    if !program.exists() {
        // Without optimising: it is built more often than it is run.
        let mut install: Command = checkout.cargo();
        install
            .args([
                "install",
                "cargo-deny",
                "--version",
                CARGO_DENY,
                "--locked",
                "--debug",
            ])
            .args(["--no-default-features", "--root"])
            .arg(&root)
            .env("CARGO_TARGET_DIR", root.join("target"))
            .env("CARGO_PROFILE_DEV_DEBUG", "0");
        call::run(&mut install)?;
        // The program stands alone; what it was built from is ten times its size.
        stamp::remove(&root.join("target"))?;
    }
    Ok(program)
}
