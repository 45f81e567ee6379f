//! `cargo xtask run` and `cargo xtask model`: the gateway, a real llama.cpp, or both.

use std::env;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::checkout::{self, Checkout};
use crate::cli::{ModelOptions, RunOptions};
use crate::error::Error;
use crate::{deps, output, panel, process};

/// What the model server's script prints before its address, once it answers.
const READY: &str = "ready ";

/// Serves the small model in the foreground until it is stopped.
///
/// # Errors
/// What cannot be installed, or a server that failed.
pub(crate) fn model(checkout: &Checkout, options: &ModelOptions) -> Result<(), Error> {
    deps::install(checkout, &[&deps::MODEL])?;
    process::replace_by(model_server(checkout, options))
}

/// Builds and serves, with the small model behind it if that was asked for.
///
/// # Errors
/// What cannot be installed, a build that fails, or a gateway that failed.
pub(crate) fn run(checkout: &Checkout, options: &RunOptions) -> Result<(), Error> {
    let tray = !options.headless && has_display();
    if !options.headless && !tray {
        output::line("There is no display: serving without the tray, as with --headless.");
    }
    let folder = checkout::built("debug")?;
    if !folder.join(checkout::program("oneslotd")).exists() {
        output::line(&format!(
            "The first build takes minutes, and {} in {}.",
            if tray { "2.5 GB" } else { "0.7 GB" },
            folder.display()
        ));
    }
    if options.model.is_some() {
        deps::install(checkout, &[&deps::MODEL])?;
    }
    if tray {
        deps::install(checkout, &[&deps::TRAY, &deps::PANEL])
            .and_then(|()| panel::build(checkout))
            .map_err(|source| Error::Tray {
                source: Box::new(source),
            })?;
    }
    build(checkout, tray)?;
    say_what_works(&folder, tray);
    serve(checkout, options, &folder, tray)
}

fn has_display() -> bool {
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    cfg!(not(target_os = "linux")) || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")
}

fn build(checkout: &Checkout, tray: bool) -> Result<(), Error> {
    output::step("Building");
    let mut command = checkout.cargo();
    command.args(["build", "--locked", "--package", "oneslot"]);
    if tray {
        command.args(["--package", "oneslot-tray"]);
    }
    process::run(command.arg("--bins"))
}

/// The commands that work once the programs are built, as typed in the current folder.
fn say_what_works(folder: &Path, tray: bool) {
    let oneslotd = typed(&folder.join(checkout::program("oneslotd")));
    output::line("\nBuilt. In another terminal:");
    output::line(&format!("  {oneslotd} status    shows what is running"));
    output::line(&format!("  {oneslotd} doctor    checks the set-up"));
    if tray {
        let oneslot = typed(&folder.join(checkout::program("oneslot")));
        output::line(&format!("  {oneslot}    is the tray"));
    }
    output::line("");
}

fn typed(program: &Path) -> String {
    let here = env::current_dir().unwrap_or_default();
    let short = program.strip_prefix(here).unwrap_or(program);
    short.display().to_string()
}

fn serve(
    checkout: &Checkout,
    options: &RunOptions,
    folder: &Path,
    tray: bool,
) -> Result<(), Error> {
    let (name, first) = if tray {
        ("oneslot", "--show-panel")
    } else {
        ("oneslotd", "serve")
    };
    let mut command = Command::new(folder.join(checkout::program(name)));
    command.arg(first);
    if options.model.is_none() {
        return process::replace_by({
            command.args(&options.args);
            command
        });
    }
    let (mut server, address) = start_model(checkout)?;
    output::line(&format!("SmolLM2-135M is served at {address}"));
    command.args(["--upstream", &address]).args(&options.args);
    let ended = process::replace_by(command);
    // Only reached where a program cannot be replaced by another.
    let _ = server.kill().and_then(|()| server.wait());
    ended
}

fn model_server(checkout: &Checkout, options: &ModelOptions) -> Command {
    let mut command = Command::new(deps::python(checkout));
    command
        .arg(checkout.file("tests/live/model_server.py"))
        .arg("--model")
        .arg(deps::model(checkout))
        .args(["--port", &options.port.to_string()])
        .args(["--ctx", &options.ctx.to_string()]);
    command
}

/// Starts the model server as a child process and waits until it prints its address.
fn start_model(checkout: &Checkout) -> Result<(Child, String), Error> {
    let log: PathBuf = checkout.cached("model-server.log");
    let errors = File::create(&log).map_err(Error::write(&log))?;
    let mut command = model_server(checkout, &ModelOptions { port: 0, ctx: 2048 });
    command
        .arg("--with-parent")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors);
    let shown = process::shown(&command);
    let mut child = command.spawn().map_err(|source| Error::Start {
        program: shown.clone(),
        source,
    })?;
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        let _ = BufReader::new(output).read_line(&mut line);
    }
    let address = line.trim().strip_prefix(READY).map(str::to_owned);
    let address = address.ok_or_else(|| Error::Output {
        shown,
        reason: format!("no address; see {}", log.display()),
    })?;
    Ok((child, address))
}
