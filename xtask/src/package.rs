//! `cargo xtask package`: a Debian package with both programs.
//!
//! It is made by `dpkg-deb` alone: its content can be read here from top to bottom, and no bundler
//! has to be downloaded. Bundles for other systems are configured in `src-tauri/tauri.conf.json`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::checkout::{self, Checkout};
use crate::error::Error;
use crate::{deps, output, panel, process};

/// Both programs, and the most bytes that each may have.
const PROGRAMS: [(&str, u64); 2] = [("oneslot", 24_000_000), ("oneslotd", 12_000_000)];

/// The version of the whole workspace.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Pixels of the icons that desktops look for.
const ICONS: [u32; 8] = [16, 24, 32, 48, 64, 128, 256, 512];

/// What the panel and its links need beside the libraries that the programs are linked with.
const RECOMMENDS: &str = "dbus-user-session | dbus-x11, xdg-utils";

/// Builds the package and checks its content; with `verify`, also tries it in a minimal Debian.
///
/// # Errors
/// What cannot be installed, a build that fails, or a package that lacks something.
pub(crate) fn package(checkout: &Checkout, verify: bool) -> Result<(), Error> {
    let mut needs = vec![&deps::TRAY, &deps::PANEL, &deps::PACKAGE];
    if verify {
        needs.push(&deps::DEBOOTSTRAP);
    }
    deps::install(checkout, &needs)?;
    panel::build(checkout)?;
    let release = build(checkout)?;
    output::step("Package");
    let deb = assemble(checkout, &release)?;
    check_content(&deb)?;
    output::line(&format!("made {}", deb.display()));
    if verify {
        output::step("Install, try, remove");
        let mut script = Command::new("sh");
        script.arg(checkout.file("packaging/verify.sh")).arg(deb);
        process::run(script.arg(checkout.cached("bare-debian")))?;
    }
    Ok(())
}

/// Builds both release programs and checks their sizes; returns their folder.
///
/// # Errors
/// A build that fails, or a program that is too large.
pub(crate) fn build(checkout: &Checkout) -> Result<PathBuf, Error> {
    output::step("Release build");
    // One after the other: cargo would unite the features of what both use.
    build_gateway(checkout)?;
    let mut tray = checkout.cargo();
    tray.args(["build", "--release", "--locked"]).args([
        "--package",
        "oneslot-tray",
        "--bin",
        "oneslot",
    ]);
    process::run(tray.args(["--features", "oneslot-tray/shipped"]))?;
    let folder = checkout::built("release")?;
    for (name, limit) in PROGRAMS {
        let path = folder.join(checkout::program(name));
        let size = fs::metadata(&path).map_err(Error::read(&path))?.len();
        output::line(&format!("{name}: {size} bytes, at most {limit}"));
        if size > limit {
            let reason = format!("{size} bytes are more than {limit}");
            return Err(Error::Content { path, reason });
        }
    }
    Ok(folder)
}

/// Builds the release gateway.
///
/// # Errors
/// A build that fails.
pub(crate) fn build_gateway(checkout: &Checkout) -> Result<(), Error> {
    let mut command = checkout.cargo();
    command.args(["build", "--release", "--locked"]);
    process::run(command.args(["--package", "oneslot", "--bin", "oneslotd"]))
}

fn assemble(checkout: &Checkout, release: &Path) -> Result<PathBuf, Error> {
    let root = checkout.cached("package");
    checkout::empty(&root)?;
    for (name, _) in PROGRAMS {
        copy(&release.join(name), &root.join("usr/bin").join(name), 0o755)?;
    }
    let share =
        |from: &str, to: &str| copy(&checkout.file(from), &root.join("usr").join(to), 0o644);
    share(
        "packaging/oneslot.desktop",
        "share/applications/oneslot.desktop",
    )?;
    share(
        "packaging/oneslotd.service",
        "lib/systemd/user/oneslotd.service",
    )?;
    for size in ICONS {
        let to = format!("share/icons/hicolor/{size}x{size}/apps/oneslot.png");
        share(&format!("icons/app/{size}.png"), &to)?;
    }
    share(
        "icons/source/app.svg",
        "share/icons/hicolor/scalable/apps/oneslot.svg",
    )?;
    for name in ["LICENSE-MIT", "LICENSE-APACHE", "CHANGELOG.md", "README.md"] {
        share(name, &format!("share/doc/oneslot/{name}"))?;
    }
    checkout::write(&root.join("usr/share/doc/oneslot/copyright"), COPYRIGHT)?;
    let control = control(&dependencies(checkout, &root)?, &root)?;
    checkout::write(&root.join("DEBIAN/control"), control)?;
    let deb = checkout.cached(&format!("oneslot_{VERSION}.deb"));
    let mut pack = Command::new("dpkg-deb");
    pack.args(["--root-owner-group", "-Zxz", "--build"]);
    process::run(pack.arg(&root).arg(&deb))?;
    Ok(deb)
}

fn copy(from: &Path, to: &Path, mode: u32) -> Result<(), Error> {
    let content = fs::read(from).map_err(Error::read(from))?;
    checkout::write(to, content)?;
    set_mode(to, mode).map_err(Error::write(to))
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

/// The packages with the libraries that the programs are linked with, as Debian's tool finds them.
fn dependencies(checkout: &Checkout, root: &Path) -> Result<String, Error> {
    let scratch = checkout.cached("package-dependencies");
    checkout::empty(&scratch)?;
    // The tool works only in a source package.
    checkout::write(
        &scratch.join("debian/control"),
        "Source: oneslot\n\nPackage: oneslot\nArchitecture: any\n",
    )?;
    let mut command = Command::new("dpkg-shlibdeps");
    command.current_dir(&scratch).arg("-O");
    for (name, _) in PROGRAMS {
        let program = root.join("usr/bin").join(name);
        command.arg(format!("-e{}", program.display()));
    }
    let printed = process::stdout(&mut command)?;
    let found = printed.trim().strip_prefix("shlibs:Depends=");
    found.map(str::to_owned).ok_or_else(|| Error::Output {
        shown: process::shown(&command),
        reason: "it names no packages".to_owned(),
    })
}

fn control(dependencies: &str, root: &Path) -> Result<String, Error> {
    let size = process::stdout(Command::new("du").args(["-sk"]).arg(root))?;
    let size = size.split_whitespace().next().unwrap_or("0");
    let architecture = process::stdout(Command::new("dpkg").arg("--print-architecture"))?;
    let architecture = architecture.trim();
    Ok(format!(
        "Package: oneslot\n\
         Version: {VERSION}\n\
         Architecture: {architecture}\n\
         Maintainer: The OneSlot developers <oneslot@localhost>\n\
         Installed-Size: {size}\n\
         Depends: {dependencies}\n\
         Recommends: {RECOMMENDS}\n\
         Section: utils\n\
         Priority: optional\n\
         Description: gateway in front of a local model server, with a tray\n \
         Several desktop programs share one local model: OneSlot runs one request at\n \
         a time, keeps a short queue, fits chats into the context window and reports\n \
         every failure in one way. The tray shows the model's health and pauses it.\n"
    ))
}

/// Checks that the package has its files and dependencies.
fn check_content(deb: &Path) -> Result<(), Error> {
    let files = process::stdout(Command::new("dpkg-deb").arg("--contents").arg(deb))?;
    let fields = process::stdout(Command::new("dpkg-deb").arg("--field").arg(deb))?;
    let expected = [
        (&files, "./usr/bin/oneslot\n"),
        (&files, "./usr/bin/oneslotd\n"),
        (&files, "./usr/share/applications/oneslot.desktop\n"),
        (
            &files,
            "./usr/share/icons/hicolor/128x128/apps/oneslot.png\n",
        ),
        (&files, "./usr/share/doc/oneslot/copyright\n"),
        (&files, "./usr/share/doc/oneslot/LICENSE-MIT\n"),
        (&files, "./usr/lib/systemd/user/oneslotd.service\n"),
        (&fields, "libwebkit2gtk-4.1-0"),
        (&fields, "libgtk-3-0"),
        (&fields, "libc6"),
    ];
    match expected.iter().find(|(text, part)| !text.contains(part)) {
        None => Ok(()),
        Some((_, part)) => Err(Error::Content {
            path: deb.to_path_buf(),
            reason: format!("it lacks {}", part.trim()),
        }),
    }
}

const COPYRIGHT: &str = "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: oneslot

Files: *
Copyright: The OneSlot developers
License: MIT or Apache-2.0
 Both texts are beside this file, as LICENSE-MIT and LICENSE-APACHE.
";
