//! `cargo xtask package`: a Debian package with both programs.
//!
//! It is put together by `dpkg-deb` alone, so that what is in it can be read here from top to
//! bottom and no bundler has to be fetched. The other systems' bundles are configured in
//! `src-tauri/tauri.conf.json` and made on those systems.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::call;
use crate::checkout::{self, Checkout};
use crate::fault::Fault;
use crate::{panel, parts, say};

/// Both programs, as Cargo names them.
const PROGRAMS: [&str; 2] = ["oneslot", "oneslotd"];

/// No program may be larger, in bytes.
const LARGEST: [(&str, u64); 2] = [("oneslot", 12_000_000), ("oneslotd", 6_000_000)];

/// Pixels of the icons that desktops look for.
const ICONS: [u32; 8] = [16, 24, 32, 48, 64, 128, 256, 512];

/// What the page and its pictures need beside what the programs are linked with.
const RECOMMENDS: &str = "dbus-user-session | dbus-x11, xdg-utils";

/// What becomes of the package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// It is left in the cache folder.
    Keep,
    /// It is installed in a bare Debian, tried, and removed.
    Verify,
}

/// Builds the package and looks at what is in it.
///
/// # Errors
/// A part that is missing, a build that fails, or a package that lacks something.
pub(crate) fn package(checkout: &Checkout, then: Then) -> Result<(), Fault> {
    parts::packaging()?;
    parts::desktop()?;
    panel::build(checkout)?;
    let built = build(checkout)?;
    say::step("Package");
    let deb = put_together(checkout, &built)?;
    holds_everything(&deb)?;
    say::line(&format!("made {}", deb.display()));
    match then {
        Then::Keep => Ok(()),
        Then::Verify => verify(checkout, &deb),
    }
}

/// Builds both programs as they are shipped; gives their folder.
///
/// One after the other: built together, each would get the other's features of what both use.
///
/// # Errors
/// A build that fails, or a program that is too large.
pub(crate) fn build(checkout: &Checkout) -> Result<PathBuf, Fault> {
    say::step("Build, as it is shipped");
    let mut command = checkout.cargo();
    command.args(["build", "--release", "--locked"]).args([
        "--package",
        "oneslot",
        "--bin",
        "oneslotd",
    ]);
    call::run(&mut command)?;
    let mut command = checkout.cargo();
    command
        .args(["build", "--release", "--locked"])
        .args(["--package", "oneslot-tray", "--bin", "oneslot"])
        .args(["--features", "oneslot-tray/shipped"])
        .args(["--message-format", "json-render-diagnostics"]);
    let messages = call::ask(&mut command)?;
    let (_, rest) = messages
        .rsplit_once("\"executable\":\"")
        .ok_or_else(|| named_none(&command))?;
    let (path, _) = rest.split_once('"').ok_or_else(|| named_none(&command))?;
    let folder = Path::new(path).parent();
    let folder = folder.ok_or_else(|| named_none(&command))?.to_path_buf();
    small_enough(&folder)?;
    Ok(folder)
}

/// Looks at the programs' sizes.
fn small_enough(folder: &Path) -> Result<(), Fault> {
    for (program, most) in LARGEST {
        let path = folder.join(program);
        let size = fs::metadata(&path).map(|found| found.len());
        let size = size.map_err(|source| Fault::Read {
            path: path.clone(),
            source,
        })?;
        say::line(&format!("{program}: {size} bytes, at most {most}"));
        if size > most {
            return Err(Fault::Content {
                path,
                reason: format!("{size} bytes are more than {most}"),
            });
        }
    }
    Ok(())
}

fn named_none(command: &Command) -> Fault {
    Fault::Answer {
        shown: call::shown(command),
        reason: "it names no program".to_owned(),
    }
}

fn put_together(checkout: &Checkout, built: &Path) -> Result<PathBuf, Fault> {
    let root = checkout.cached("package");
    parts::renew(&root)?;
    for program in PROGRAMS {
        put(
            &built.join(program),
            &root.join("usr/bin").join(program),
            0o755,
        )?;
    }
    let plain = |from: &str, to: &str| put(&checkout.file(from), &root.join(to), 0o644);
    plain(
        "packaging/oneslot.desktop",
        "usr/share/applications/oneslot.desktop",
    )?;
    plain(
        "packaging/oneslotd.service",
        "usr/lib/systemd/user/oneslotd.service",
    )?;
    for size in ICONS {
        let to = format!("usr/share/icons/hicolor/{size}x{size}/apps/oneslot.png");
        plain(&format!("icons/app/{size}.png"), &to)?;
    }
    plain(
        "icons/source/app.svg",
        "usr/share/icons/hicolor/scalable/apps/oneslot.svg",
    )?;
    for name in ["LICENSE-MIT", "LICENSE-APACHE", "CHANGELOG.md", "README.md"] {
        plain(name, &format!("usr/share/doc/oneslot/{name}"))?;
    }
    write(&root.join("usr/share/doc/oneslot/copyright"), COPYRIGHT)?;
    let version = version(checkout)?;
    let control = control(&version, &architecture()?, &needs(checkout, &root)?, &root)?;
    write(&root.join("DEBIAN/control"), &control)?;
    let deb = checkout.cached(&format!("oneslot_{version}.deb"));
    let mut pack = Command::new("dpkg-deb");
    pack.args(["--root-owner-group", "-Zxz", "--build"])
        .arg(&root)
        .arg(&deb);
    call::run(&mut pack)?;
    Ok(deb)
}

fn put(from: &Path, to: &Path, mode: u32) -> Result<(), Fault> {
    let failed = |source| Fault::Write {
        path: to.to_path_buf(),
        source,
    };
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    fs::copy(from, to).map_err(|source| Fault::Read {
        path: from.to_path_buf(),
        source,
    })?;
    set_mode(to, mode).map_err(failed)
}

fn write(to: &Path, text: &str) -> Result<(), Fault> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(|source| Fault::Write {
            path: folder.to_path_buf(),
            source,
        })?;
    }
    checkout::write(to, text)
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn set_mode(_path: &Path, _mode: u32) -> std::io::Result<()> {
    Ok(())
}

/// The version that the workspace has.
fn version(checkout: &Checkout) -> Result<String, Fault> {
    let path = checkout.file("Cargo.toml");
    let text = checkout::read(&path)?;
    let found = text
        .lines()
        .find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    found.map(str::to_owned).ok_or_else(|| Fault::Content {
        path,
        reason: "the workspace has no version".to_owned(),
    })
}

fn architecture() -> Result<String, Fault> {
    let name = call::ask(Command::new("dpkg").arg("--print-architecture"))?;
    Ok(name.trim().to_owned())
}

/// The packages that hold what the programs are linked with, by Debian's own tool.
fn needs(checkout: &Checkout, root: &Path) -> Result<String, Fault> {
    let scratch = checkout.cached("package-needs");
    parts::renew(&scratch)?;
    // The tool wants to stand in a source package.
    write(
        &scratch.join("debian/control"),
        "Source: oneslot\n\nPackage: oneslot\nArchitecture: any\n",
    )?;
    let mut ask = Command::new("dpkg-shlibdeps");
    ask.current_dir(&scratch).arg("-O");
    for program in PROGRAMS {
        ask.arg(format!(
            "-e{}",
            root.join("usr/bin").join(program).display()
        ));
    }
    let answer = call::ask(&mut ask)?;
    let needs = answer.trim().strip_prefix("shlibs:Depends=");
    needs.map(str::to_owned).ok_or_else(|| Fault::Answer {
        shown: call::shown(&ask),
        reason: "it names no packages".to_owned(),
    })
}

fn control(version: &str, architecture: &str, needs: &str, root: &Path) -> Result<String, Fault> {
    let size = call::ask(Command::new("du").args(["-sk"]).arg(root))?;
    let size = size.split_whitespace().next().unwrap_or("0");
    Ok(format!(
        "Package: oneslot\n\
         Version: {version}\n\
         Architecture: {architecture}\n\
         Maintainer: The OneSlot developers <oneslot@localhost>\n\
         Installed-Size: {size}\n\
         Depends: {needs}\n\
         Recommends: {RECOMMENDS}\n\
         Section: utils\n\
         Priority: optional\n\
         Description: gateway in front of a local model server, with a tray\n \
         Several desktop programs share one local model: OneSlot runs one request at\n \
         a time, keeps a short line, fits chats into the window and says every failure\n \
         in one way. The tray shows the model's health and pauses it.\n"
    ))
}

/// Looks into the package for what must be in it.
fn holds_everything(deb: &Path) -> Result<(), Fault> {
    let list = call::ask(Command::new("dpkg-deb").arg("--contents").arg(deb))?;
    let fields = call::ask(Command::new("dpkg-deb").arg("--field").arg(deb))?;
    let lacks = |what: &str| Fault::Content {
        path: deb.to_path_buf(),
        reason: format!("it lacks {what}"),
    };
    for file in [
        "./usr/bin/oneslot\n",
        "./usr/bin/oneslotd\n",
        "./usr/share/applications/oneslot.desktop\n",
        "./usr/share/icons/hicolor/128x128/apps/oneslot.png\n",
        "./usr/share/doc/oneslot/copyright\n",
        "./usr/share/doc/oneslot/LICENSE-MIT\n",
        "./usr/lib/systemd/user/oneslotd.service\n",
    ] {
        if !list.contains(file) {
            return Err(lacks(file.trim()));
        }
    }
    for need in ["libwebkit2gtk-4.1-0", "libgtk-3-0", "libc6"] {
        if !fields.contains(need) {
            return Err(lacks(&format!("a dependency on {need}")));
        }
    }
    Ok(())
}

/// Installs it in a bare Debian below the cache folder, tries both programs, removes it.
fn verify(checkout: &Checkout, deb: &Path) -> Result<(), Fault> {
    parts::bare_debian()?;
    say::step("Install, try, remove");
    let mut command = Command::new("sh");
    command
        .arg(checkout.file("packaging/verify.sh"))
        .arg(deb)
        .arg(checkout.cached("bare-debian"));
    call::run(&mut command)
}

const COPYRIGHT: &str = "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: oneslot

Files: *
Copyright: The OneSlot developers
License: MIT or Apache-2.0
 Both texts lie beside this file, as LICENSE-MIT and LICENSE-APACHE.
";
