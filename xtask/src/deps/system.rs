//! System packages: installed by apt as root or through a sudo that does not ask; elsewhere the
//! message says what to install. A C compiler is not among them: Rust needs one to build this
//! program.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::error::Error;
use crate::{output, process};

/// npm is a script on Windows, where only its full name starts.
pub(super) const NPM_PROGRAM: &str = if cfg!(windows) { "npm.cmd" } else { "npm" };

/// How long to wait while another package manager holds apt's locks, in seconds.
const LOCK_WAIT_S: u64 = 600;

/// How often `apt-get update` is tried in that time, in seconds: it does not wait itself.
const LOCK_RETRY_S: u64 = 2;

/// The oldest Python for which the model server is published.
const PYTHON_CHECK: &str = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))";

/// The browser's names: Debian's first; Chrome is as good.
const BROWSERS: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];

pub(super) const WEBKIT: Tool = tool(
    "WebKitGTK 4.1 with headers",
    &["pkg-config", "--exists", "webkit2gtk-4.1"],
    &["libwebkit2gtk-4.1-dev", "pkg-config"],
);
pub(super) const NPM: Tool = tool("npm", &[NPM_PROGRAM, "--version"], &["npm"]);
pub(super) const PYTHON: Tool = tool(
    "Python 3.10 or newer with venv and pip",
    &["python3", "-c", PYTHON_CHECK],
    &["python3", "python3-venv"],
);
pub(super) const CHROMIUM: Tool = tool(
    "Chromium or Chrome",
    &[
        "sh",
        "-c",
        "command -v chromium || command -v chromium-browser || command -v google-chrome \
         || command -v google-chrome-stable",
    ],
    &["chromium"],
);
pub(super) const CURL: Tool = tool("curl", &["curl", "--version"], &["curl", "ca-certificates"]);
pub(super) const INHIBIT: Tool = tool(
    "systemd-inhibit",
    &["systemd-inhibit", "--version"],
    &["systemd"],
);
pub(super) const RSVG: Tool = tool(
    "rsvg-convert",
    &["rsvg-convert", "--version"],
    &["librsvg2-bin"],
);
pub(super) const SHLIBDEPS: Tool = tool(
    "dpkg-shlibdeps",
    &["dpkg-shlibdeps", "--version"],
    &["dpkg-dev"],
);
pub(super) const DEBOOTSTRAP: Tool = tool(
    "debootstrap",
    &["debootstrap", "--version"],
    &["debootstrap"],
);
pub(super) const CHINESE_FONT: Tool = tool(
    "a font with Chinese characters",
    &["sh", "-c", "fc-list :lang=zh | grep -q ."],
    &["fontconfig", "fonts-dejavu-core", "fonts-noto-cjk"],
);

/// Displays, a message bus, drivers of page and clipboard, network namespaces.
pub(super) const DESKTOP: [Tool; 7] = [
    tool("Xvfb", &["sh", "-c", "command -v Xvfb"], &["xvfb"]),
    tool("Weston", &["sh", "-c", "command -v weston"], &["weston"]),
    tool(
        "dbus-daemon",
        &["dbus-daemon", "--version"],
        &["dbus-daemon"],
    ),
    tool(
        "WebKitWebDriver",
        &["sh", "-c", "command -v WebKitWebDriver"],
        &["webkit2gtk-driver"],
    ),
    tool("xclip", &["sh", "-c", "command -v xclip"], &["xclip"]),
    tool(
        "ip",
        &["sh", "-c", "PATH=$PATH:/sbin:/usr/sbin command -v ip"],
        &["iproute2"],
    ),
    tool(
        "a font",
        &["sh", "-c", "fc-list | grep -q ."],
        &["fontconfig", "fonts-dejavu-core"],
    ),
];

/// A program or library of the system.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Tool {
    pub(super) name: &'static str,
    /// A command that succeeds only if it is installed.
    check: &'static [&'static str],
    /// Debian's packages that contain it.
    packages: &'static [&'static str],
}

const fn tool(
    name: &'static str,
    check: &'static [&'static str],
    packages: &'static [&'static str],
) -> Tool {
    Tool {
        name,
        check,
        packages,
    }
}

impl Tool {
    pub(super) fn is_installed(&self) -> bool {
        process::succeeds(self.check[0], &self.check[1..])
    }
}

/// Installs these tools; says first which packages, and how large they are.
///
/// # Errors
/// [`Error::Missing`] if this user or system cannot, [`Error::Failed`] if apt fails.
pub(super) fn install(tools: &[Tool]) -> Result<(), Error> {
    if tools.is_empty() {
        return Ok(());
    }
    let mut packages: Vec<_> = tools.iter().flat_map(|tool| tool.packages).collect();
    packages.sort();
    packages.dedup();
    let Some(sudo) = apt_as_root() else {
        return Err(missing(tools, &packages));
    };
    output::line(&format!(
        "apt-get installs their packages, and waits up to {} minutes while another package \
         manager is running.",
        LOCK_WAIT_S / 60
    ));
    update(sudo)?;
    let mut simulate = apt(sudo);
    simulate.args([
        "install",
        "--print-uris",
        "--yes",
        "--no-install-recommends",
    ]);
    output::line(&summary(&process::stdout(simulate.args(&packages))?));
    let mut install = apt(sudo);
    install
        .args(["install", "-qq", "-o", "Dpkg::Use-Pty=0"])
        .args(["--yes", "--no-install-recommends"]);
    process::run(install.args(&packages))?;
    let absent: Vec<_> = tools
        .iter()
        .copied()
        .filter(|t| !t.is_installed())
        .collect();
    if absent.is_empty() {
        Ok(())
    } else {
        Err(missing(&absent, &packages))
    }
}

/// The name of the browser on the PATH.
///
/// # Errors
/// [`Error::Missing`] if there is none.
pub(crate) fn browser() -> Result<&'static str, Error> {
    let mut names = BROWSERS.into_iter();
    let found = names.find(|name| process::succeeds(name, &["--version"]));
    found.ok_or_else(|| missing(&[CHROMIUM], &[&CHROMIUM.packages[0]]))
}

fn missing(tools: &[Tool], packages: &[&&str]) -> Error {
    let names: Vec<_> = tools.iter().map(|tool| tool.name).collect();
    let packages: Vec<_> = packages.iter().map(|package| **package).collect();
    Error::Missing {
        what: names.join(", "),
        remedy: format!(
            "on Debian or Ubuntu run `sudo apt-get install {}`; on other systems install the same \
             programs and put them on the PATH",
            packages.join(" ")
        ),
    }
}

/// Whether apt must go through sudo; `None` if this user cannot run it at all.
fn apt_as_root() -> Option<bool> {
    if !process::succeeds("apt-get", &["--version"]) {
        return None;
    }
    let user = process::stdout(Command::new("id").arg("-u"));
    if user.is_ok_and(|id| id.trim() == "0") {
        return Some(false);
    }
    process::succeeds("sudo", &["-n", "true"]).then_some(true)
}

fn apt(sudo: bool) -> Command {
    let mut command = Command::new(if sudo { "sudo" } else { "env" });
    if sudo {
        command.args(["-n", "env"]);
    }
    command
        // Its messages are read below.
        .args(["LC_ALL=C", "DEBIAN_FRONTEND=noninteractive", "apt-get"])
        .args(["-o", &format!("DPkg::Lock::Timeout={LOCK_WAIT_S}")]);
    command
}

/// Updates apt's lists. The lock's timeout does not cover this command, so it is retried.
fn update(sudo: bool) -> Result<(), Error> {
    let mut command = apt(sudo);
    command.args(["update", "-qq"]).stdin(Stdio::null());
    let shown = process::shown(&command);
    output::line(&format!("$ {shown}"));
    for attempt in 0.. {
        let output = command.output().map_err(|source| Error::Start {
            program: shown.clone(),
            source,
        })?;
        let errors = String::from_utf8_lossy(&output.stderr);
        let locked = errors.contains("Could not get lock");
        if output.status.success() || !locked || attempt >= LOCK_WAIT_S / LOCK_RETRY_S {
            output::bytes(&output.stderr);
            return process::check(&command, output.status);
        }
        if attempt == 0 {
            output::line(errors.lines().next().unwrap_or_default());
            output::line("waiting for it");
        }
        thread::sleep(Duration::from_secs(LOCK_RETRY_S));
    }
    Ok(())
}

/// What apt says about number and size of the packages.
fn summary(simulated: &str) -> String {
    let lines = simulated.lines().filter(|line| {
        line.contains("newly installed") || line.starts_with("Need to") || line.contains("space")
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_and_size_of_packages_are_shown() {
        let printed = "\
Reading package lists...
The following NEW packages will be installed:
  debootstrap
0 upgraded, 1 newly installed, 0 to remove and 2 not upgraded.
Need to get 45.1 kB of archives.
After this operation, 305 kB of additional disk space will be used.
'http://deb.debian.org/debian/pool/main/d/debootstrap.deb' debootstrap.deb 45106 MD5Sum:3d
";
        let shown = summary(printed);
        assert_eq!(shown.lines().count(), 3, "{shown}");
        assert!(
            shown.contains("45.1 kB") && shown.contains("305 kB"),
            "{shown}"
        );
    }

    #[test]
    fn a_tool_is_installed_only_if_its_check_succeeds() {
        assert!(tool("cargo", &["cargo", "--version"], &[]).is_installed());
        assert!(!tool("none", &["oneslot-no-such-program"], &[]).is_installed());
    }

    #[test]
    fn a_missing_tool_names_its_packages() {
        let error = missing(&[WEBKIT, NPM], &[&"libwebkit2gtk-4.1-dev", &"npm"]).to_string();
        assert!(error.contains("WebKitGTK 4.1 with headers, npm"), "{error}");
        assert!(
            error.contains("install libwebkit2gtk-4.1-dev npm`"),
            "{error}"
        );
    }
}
