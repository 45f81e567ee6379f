//! `cargo xtask icons`: the tray's and the program's icons, made from `icons/source/*.svg`.
//!
//! The sources are drawn in one colour that is the host's. From each come a set for light panels,
//! one for dark ones, one on a plate of its own that reads on both (a Linux panel does not say what
//! it is), and macOS templates. What is made is committed, so that a build needs no drawing
//! program.

mod container;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::call;
use crate::checkout::{self, Checkout};
use crate::fault::Fault;
use crate::parts;
use crate::say;

/// The program's own icon among the sources.
const PROGRAM: &str = "app";

/// Pixels of a tray icon: what panels and taskbars ask for, at one and two times.
const TRAY: [u32; 6] = [16, 20, 22, 24, 32, 44];
/// Pixels of a macOS template: 18 points, at one and two times.
const TEMPLATE: [u32; 2] = [18, 36];
/// Pixels of the program's icon.
const APP: [u32; 8] = [16, 24, 32, 48, 64, 128, 256, 512];

/// A set of tray icons.
struct Set {
    name: &'static str,
    sizes: &'static [u32],
    ink: &'static str,
    plate: Option<&'static str>,
}

const SETS: [Set; 4] = [
    Set {
        name: "light",
        sizes: &TRAY,
        ink: "#1a1c1f",
        plate: None,
    },
    Set {
        name: "dark",
        sizes: &TRAY,
        ink: "#f4f4f1",
        plate: None,
    },
    Set {
        name: "plated",
        sizes: &TRAY,
        ink: "#f4f4f1",
        plate: Some("#1a1c1f"),
    },
    Set {
        name: "template",
        sizes: &TEMPLATE,
        ink: "#000000",
        plate: None,
    },
];

/// Makes all icons anew.
///
/// # Errors
/// [`Fault::Missing`] without `rsvg-convert`, or what reading, drawing and writing end with.
pub(crate) fn make(checkout: &Checkout) -> Result<(), Fault> {
    parts::drawing()?;
    say::step("Icons");
    let home = checkout.file("icons");
    let scratch = checkout.cached("icon.svg");
    let mut count = 0;
    for source in sources(&home.join("source"))? {
        let name = source.file_stem().unwrap_or_default().to_string_lossy();
        let drawing = checkout::read(&source)?;
        if name == PROGRAM {
            continue;
        }
        for set in &SETS {
            let folder = home.join("tray").join(set.name);
            checkout::write(&scratch, &coloured(&drawing, set))?;
            for size in set.sizes {
                draw(&scratch, *size, &folder, &format!("{name}-{size}.png"))?;
                count += 1;
            }
        }
    }
    program(&home)?;
    say::line(&format!(
        "{count} tray icons and the program's own in {}",
        home.display()
    ));
    Ok(())
}

/// The program's icon in every size, and the two containers that installers want.
fn program(home: &Path) -> Result<(), Fault> {
    let source = home.join("source").join(format!("{PROGRAM}.svg"));
    let folder = home.join(PROGRAM);
    let mut drawn = Vec::new();
    for size in APP {
        let path = draw(&source, size, &folder, &format!("{size}.png"))?;
        let bytes = fs::read(&path).map_err(|source| Fault::Read { path, source })?;
        drawn.push((size, bytes));
    }
    write(&folder.join("icon.ico"), &container::ico(&drawn))?;
    write(&folder.join("icon.icns"), &container::icns(&drawn))
}

fn sources(folder: &Path) -> Result<Vec<PathBuf>, Fault> {
    let entries = fs::read_dir(folder).map_err(|source| Fault::Read {
        path: folder.to_path_buf(),
        source,
    })?;
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "svg"));
    files.sort();
    Ok(files)
}

/// The drawing in a set's colours. A plate lies below it and around it: an outline would close the
/// gaps that tell the shapes apart.
fn coloured(drawing: &str, set: &Set) -> String {
    let drawing = drawing.replace("currentColor", set.ink);
    let Some((plate, (head, body))) = set.plate.zip(drawing.split_once('>')) else {
        return drawing;
    };
    let head = head.replace("0 0 16 16", "-2 -2 20 20");
    format!(
        "{head}><rect x=\"-2\" y=\"-2\" width=\"20\" height=\"20\" rx=\"5\" \
         fill=\"{plate}\" stroke=\"none\"/>{body}"
    )
}

fn draw(source: &Path, size: u32, folder: &Path, name: &str) -> Result<PathBuf, Fault> {
    fs::create_dir_all(folder).map_err(|source| Fault::Write {
        path: folder.to_path_buf(),
        source,
    })?;
    let target = folder.join(name);
    let pixels = size.to_string();
    let mut command = Command::new("rsvg-convert");
    command
        .args(["--width", &pixels, "--height", &pixels, "--output"])
        .arg(&target)
        .arg(source);
    call::ask(&mut command)?;
    Ok(target)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Fault> {
    fs::write(path, bytes).map_err(|source| Fault::Write {
        path: path.to_path_buf(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWING: &str =
        "<svg viewBox=\"0 0 16 16\" stroke=\"currentColor\">\n<circle />\n</svg>\n";

    #[test]
    fn a_drawing_takes_the_colour_of_its_set() {
        for set in &SETS {
            let drawn = coloured(DRAWING, set);
            assert!(drawn.contains(set.ink), "{}: its ink", set.name);
            assert!(
                !drawn.contains("currentColor"),
                "{}: no host colours a PNG",
                set.name
            );
        }
    }

    #[test]
    fn a_plate_lies_below_the_drawing_and_around_it() {
        let set = SETS
            .iter()
            .find(|set| set.plate.is_some())
            .expect("there is one");
        let drawn = coloured(DRAWING, set);
        assert!(drawn.contains("-2 -2 20 20"), "it has an edge: {drawn}");
        let plate = drawn.find("<rect").expect("there is a plate");
        let shape = drawn.find("<circle").expect("the drawing is there");
        assert!(plate < shape, "what is drawn later lies above");
    }
}
