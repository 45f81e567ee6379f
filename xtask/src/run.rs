//! `cargo xtask model` and `cargo xtask run`: a real llama.cpp, the gateway, or both.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::call;
use crate::checkout::Checkout;
use crate::fault::Fault;
use crate::say;
use crate::words::{ModelWish, RunWish, Upstream};
use crate::{panel, parts};

/// What the script prints before the address, once the server answers.
const READY: &str = "ready ";

/// Serves the small model in the foreground until it is stopped.
///
/// # Errors
/// A part that is missing, or a server that ended by itself.
pub(crate) fn model(checkout: &Checkout, wish: &ModelWish) -> Result<(), Fault> {
    let (python, model) = parts::model_server(checkout)?;
    let command = server(checkout, &python, &model, wish);
    become_program(command)
}

/// Builds the gateway and serves, with the small model behind it when that was asked for.
///
/// # Errors
/// A part that is missing, a build that fails, or a gateway that ended with a fault.
pub(crate) fn gateway(checkout: &Checkout, wish: &RunWish) -> Result<(), Fault> {
    parts::toolchain(checkout)?;
    let face = Face::here();
    let program = build(checkout, face, Profile::Quick)?;
    let mut command = Command::new(program);
    command.arg(match face {
        Face::Tray => "--show-panel",
        Face::Headless => "serve",
    });
    match wish.upstream {
        Upstream::Configured => {
            command.args(&wish.args);
            become_program(command)
        }
        Upstream::SmolLm2 => {
            let (python, model) = parts::model_server(checkout)?;
            let (mut server, address) = start(checkout, &python, &model)?;
            say::line(&format!("SmolLM2-135M is served at {address}"));
            command.args(["--upstream", &address]).args(&wish.args);
            let ended = become_program(command);
            // Only where a program cannot be replaced by another do we come back here.
            let _ = server.kill().and_then(|()| server.wait());
            ended
        }
    }
}

/// Which program serves.
#[derive(Clone, Copy)]
pub(crate) enum Face {
    /// The tray, with its panel.
    Tray,
    /// `oneslotd`.
    Headless,
}

/// How it is built.
#[derive(Clone, Copy)]
pub(crate) enum Profile {
    /// To be tried: builds fast.
    Quick,
    /// As it is shipped: to be measured.
    Shipped,
}

impl Face {
    /// The tray where there is a display to show it on.
    fn here() -> Self {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        if cfg!(not(target_os = "linux")) || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY") {
            Self::Tray
        } else {
            Self::Headless
        }
    }
}

/// Builds the gateway and says where it is.
///
/// # Errors
/// A build that fails.
pub(crate) fn build(checkout: &Checkout, face: Face, profile: Profile) -> Result<PathBuf, Fault> {
    let (package, program) = match face {
        Face::Tray => {
            parts::desktop()?;
            panel::build(checkout)?;
            ("oneslot-tray", "oneslot")
        }
        Face::Headless => ("oneslot", "oneslotd"),
    };
    say::step("Build");
    let mut command = checkout.cargo();
    command
        .args(["build", "--locked", "--package", package, "--bin", program])
        .args(["--message-format", "json-render-diagnostics"]);
    match profile {
        Profile::Quick => {}
        Profile::Shipped => {
            command.arg("--release");
        }
    }
    let messages = call::ask(&mut command)?;
    executable_in(&messages).ok_or_else(|| Fault::Answer {
        shown: call::shown(&command),
        reason: "it names no program".to_owned(),
    })
}

/// The path in cargo's message about the finished program: `"executable":"/…/oneslotd"`.
fn executable_in(messages: &str) -> Option<PathBuf> {
    let (_, rest) = messages.rsplit_once("\"executable\":\"")?;
    let (path, _) = rest.split_once('"')?;
    Some(PathBuf::from(path.replace("\\\\", "\\")))
}

fn server(checkout: &Checkout, python: &Path, model: &Path, wish: &ModelWish) -> Command {
    let mut command = Command::new(python);
    command
        .arg(checkout.file("tests/live/model_server.py"))
        .arg("--model")
        .arg(model)
        .args([
            "--port",
            &wish.port.to_string(),
            "--ctx",
            &wish.ctx.to_string(),
        ]);
    command
}

/// Starts the server beside us and waits until it says where it answers.
fn start(checkout: &Checkout, python: &Path, model: &Path) -> Result<(Child, String), Fault> {
    let log = checkout.cached("model-server.log");
    let errors = File::create(&log).map_err(|source| Fault::Write {
        path: log.clone(),
        source,
    })?;
    let wish = ModelWish { port: 0, ctx: 2048 };
    let mut command = server(checkout, python, model, &wish);
    command
        .arg("--with-parent")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors);
    let shown = call::shown(&command);
    let mut child = command.spawn().map_err(|source| Fault::Start {
        program: shown.clone(),
        source,
    })?;
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        let _ = BufReader::new(output).read_line(&mut line);
    }
    match line.trim().strip_prefix(READY) {
        Some(address) => Ok((child, address.to_owned())),
        None => Err(Fault::Answer {
            shown,
            reason: format!("it did not say where it serves; see {}", log.display()),
        }),
    }
}

/// Puts the program in our place, so that signals reach it and its end is ours.
#[cfg(unix)]
fn become_program(mut command: Command) -> Result<(), Fault> {
    use std::os::unix::process::CommandExt;

    say::line(&format!("$ {}", call::shown(&command)));
    let source = command.exec();
    Err(Fault::Start {
        program: call::shown(&command),
        source,
    })
}

/// Runs the program to its end.
#[cfg(not(unix))]
fn become_program(mut command: Command) -> Result<(), Fault> {
    call::run(&mut command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_program_is_found_in_what_cargo_prints() {
        let messages = r#"{"reason":"compiler-artifact","executable":null,"fresh":true}
{"reason":"compiler-artifact","executable":"C:\\t\\oneslotd.exe","fresh":true}
{"reason":"build-finished","success":true}"#;
        assert_eq!(
            executable_in(messages),
            Some(PathBuf::from(r"C:\t\oneslotd.exe")),
            "a library has no program, and JSON doubles the bars"
        );
    }
}
