//! What the project needs from outside: system packages, Node, npm packages, Python, a model.
//!
//! [`install`] lists what is missing and why before it installs it. System packages come by apt;
//! everything else comes from package registries, at versions that the repository pins, into the
//! cache folder. What is present is left alone.

mod node;
mod python;
mod stamp;
mod system;

use std::path::PathBuf;

use crate::checkout::{self, Checkout};
use crate::error::Error;
use crate::{output, process};

pub(crate) use node::node;
pub(crate) use python::{model, python};
pub(crate) use stamp::{Stamp, entries, hash};
use system::Tool;
pub(crate) use system::browser;

/// The version of cargo-deny that is installed if none is on the PATH.
const CARGO_DENY: &str = "0.20.2";

/// What one purpose needs.
pub(crate) struct Need {
    /// Completes "to …".
    purpose: &'static str,
    tools: &'static [Tool],
    parts: &'static [Part],
}

/// Builds the tray, on Linux; other systems have what it needs.
pub(crate) const TRAY: Need = Need {
    purpose: "build the tray",
    tools: if cfg!(target_os = "linux") {
        &[system::WEBKIT]
    } else {
        &[]
    },
    parts: &[],
};

/// Builds the panel, which the tray contains.
pub(crate) const PANEL: Need = Need {
    purpose: "build the panel",
    tools: &[],
    parts: &[Part::Node, Part::PanelPackages],
};

/// Runs the model server.
pub(crate) const MODEL: Need = Need {
    purpose: "run the small model",
    tools: &[],
    parts: &[Part::Python, Part::Model],
};

/// Checks licences and sources of the dependencies.
pub(crate) const DENY: Need = Need {
    purpose: "check dependencies",
    tools: &[],
    parts: &[Part::CargoDeny],
};

/// Runs the panel's tests, or takes its pictures.
pub(crate) const BROWSER: Need = Need {
    purpose: "show the panel in a browser",
    tools: &[system::CHROMIUM],
    parts: &[],
};

/// Runs the tray's tests on a private desktop.
pub(crate) const TRAY_TESTS: Need = Need {
    purpose: "test the tray",
    tools: if cfg!(target_os = "linux") {
        &system::DESKTOP
    } else {
        &[]
    },
    parts: &[],
};

/// Runs the tests with a real model and real clients.
pub(crate) const REAL_TESTS: Need = Need {
    purpose: "test with real clients",
    tools: if cfg!(target_os = "linux") {
        &[system::CURL, system::INHIBIT]
    } else {
        &[system::CURL]
    },
    parts: &[Part::Clients],
};

/// Draws icons.
pub(crate) const ICONS: Need = Need {
    purpose: "draw icons",
    tools: &[system::RSVG],
    parts: &[],
};

/// Takes pictures with text in both languages.
pub(crate) const FONTS: Need = Need {
    purpose: "show both languages",
    tools: &[system::CHINESE_FONT],
    parts: &[],
};

/// Makes a Debian package.
pub(crate) const PACKAGE: Need = Need {
    purpose: "make a Debian package",
    tools: &[system::SHLIBDEPS],
    parts: &[],
};

/// Installs a Debian package in a minimal Debian.
pub(crate) const DEBOOTSTRAP: Need = Need {
    purpose: "verify the Debian package",
    tools: &[system::DEBOOTSTRAP],
    parts: &[],
};

/// Something that goes into the cache folder, or beside the panel's sources. In the order in which
/// they are installed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Node,
    PanelPackages,
    Clients,
    Python,
    Model,
    CargoDeny,
}

impl Part {
    /// Name and size; sizes were measured on Linux x86-64.
    fn name(self) -> &'static str {
        match self {
            Self::Node => "Node 22 (185 MB)",
            Self::PanelPackages => "the panel's npm packages (125 MB)",
            Self::Clients => "clients in JavaScript, with Node 20 (205 MB)",
            Self::Python => "llama.cpp and clients in Python (210 MB)",
            Self::Model => "SmolLM2-135M-Instruct (95 MB)",
            Self::CargoDeny => "cargo-deny (25 MB, built in minutes)",
        }
    }

    fn is_ready(self, checkout: &Checkout) -> Result<bool, Error> {
        match self {
            Self::Node => Ok(node::node(checkout).is_ok()),
            Self::PanelPackages => node::is_ready(checkout, &node::PANEL),
            Self::Clients => node::is_ready(checkout, &node::CLIENTS),
            Self::Python => python::is_ready(checkout),
            Self::Model => python::model_is_ready(checkout),
            Self::CargoDeny => Ok(deny(checkout).is_ok()),
        }
    }

    /// The program that installs it.
    fn installer(self) -> Option<Tool> {
        match self {
            Self::Node | Self::PanelPackages | Self::Clients => Some(system::NPM),
            Self::Python | Self::Model => Some(system::PYTHON),
            Self::CargoDeny => None,
        }
    }

    fn install(self, checkout: &Checkout) -> Result<(), Error> {
        match self {
            Self::Node => {
                node::install(checkout, &node::NODE)?;
                node::node(checkout).map(|_| ())
            }
            Self::PanelPackages => node::install(checkout, &node::PANEL),
            Self::Clients => node::install(checkout, &node::CLIENTS),
            Self::Python => python::install(checkout),
            Self::Model => python::install_model(checkout),
            Self::CargoDeny => install_deny(checkout),
        }
    }
}

/// Installs what is missing for these purposes; says what, why and how much first.
///
/// # Errors
/// [`Error::Missing`] if system packages cannot be installed by this user or on this system, or
/// the failure of an installer.
pub(crate) fn install(checkout: &Checkout, needs: &[&Need]) -> Result<(), Error> {
    let mut tools: Vec<Tool> = Vec::new();
    let mut parts: Vec<Part> = Vec::new();
    let mut plan = Vec::new();
    for need in needs {
        let mut names = Vec::new();
        let mut wanted = need.tools.to_vec();
        for part in need.parts {
            if !parts.contains(part) && !part.is_ready(checkout)? {
                wanted.extend(part.installer());
                parts.push(*part);
                names.push(part.name());
            }
        }
        for tool in wanted {
            if !tools.contains(&tool) && !tool.is_installed() {
                names.insert(0, tool.name);
                tools.push(tool);
            }
        }
        if !names.is_empty() {
            plan.push(format!("  to {}: {}", need.purpose, names.join(", ")));
        }
    }
    if plan.is_empty() {
        return Ok(());
    }
    output::step("Missing on this machine, installed now if possible");
    output::line(&plan.join("\n"));
    if !parts.is_empty() {
        output::line(&format!(
            "Parts go to {} and ui/node_modules.",
            checkout.cached("").display()
        ));
    }
    system::install(&tools)?;
    parts.iter().try_for_each(|part| part.install(checkout))
}

/// The variables by which tests find the real clients, the model and the browser.
///
/// # Errors
/// [`Error::Missing`] if one of them is not installed.
pub(crate) fn test_environment(checkout: &Checkout) -> Result<[(&'static str, PathBuf); 6], Error> {
    Ok([
        ("ONESLOT_TEST_PYTHON", python(checkout)),
        ("ONESLOT_TEST_MODEL", model(checkout)),
        ("ONESLOT_TEST_NODE", node::node20(checkout)?),
        ("ONESLOT_TEST_NODE22", node::node(checkout)?),
        ("ONESLOT_TEST_CLIENTS", node::client_packages(checkout)),
        ("ONESLOT_TEST_BROWSER", PathBuf::from(browser()?)),
    ])
}

/// cargo-deny: the one on the PATH, else the one in the cache.
///
/// # Errors
/// [`Error::Missing`] if there is none.
pub(crate) fn deny(checkout: &Checkout) -> Result<PathBuf, Error> {
    if process::succeeds("cargo-deny", &["--version"]) {
        return Ok(PathBuf::from("cargo-deny"));
    }
    let cached = deny_root(checkout).join("bin");
    let cached = cached.join(checkout::program("cargo-deny"));
    if cached.exists() {
        return Ok(cached);
    }
    Err(Error::Missing {
        what: "cargo-deny".to_owned(),
        remedy: "run `cargo install cargo-deny --locked`".to_owned(),
    })
}

fn deny_root(checkout: &Checkout) -> PathBuf {
    checkout.cached(&format!("cargo-deny-{CARGO_DENY}"))
}

fn install_deny(checkout: &Checkout) -> Result<(), Error> {
    let root = deny_root(checkout);
    // Not optimised: it is built more often than it is run.
    let mut install = checkout.cargo();
    install
        .args(["install", "cargo-deny", "--version", CARGO_DENY])
        .args(["--locked", "--debug", "--no-default-features", "--root"])
        .arg(&root)
        .env("CARGO_TARGET_DIR", root.join("target"))
        .env("CARGO_PROFILE_DEV_DEBUG", "0");
    process::run(&mut install)?;
    // Ten times the size of the program.
    checkout::remove(&root.join("target"))
}
