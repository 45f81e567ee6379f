//! `cargo xtask icons`: the tray's and the program's icons, made from `icons/source/*.svg`.
//!
//! The sources use one colour, `currentColor`. From each come icons for light panels, for dark
//! panels, on a dark plate that is readable on both (a Linux panel does not say which it is), and
//! macOS templates. The icons are committed, so that a build needs no drawing program.

mod container;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::checkout::{self, Checkout};
use crate::error::Error;
use crate::{deps, output, process};

/// The program's own icon among the sources.
const PROGRAM: &str = "app";

/// Pixels of a tray icon: the sizes of panels and taskbars, at one and two times.
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

/// Draws all icons.
///
/// # Errors
/// [`Error::Missing`] without `rsvg-convert`, or a failure to read, draw or write.
pub(crate) fn make(checkout: &Checkout) -> Result<(), Error> {
    deps::install(checkout, &[&deps::ICONS])?;
    output::step("Icons");
    let home = checkout.file("icons");
    let scratch = checkout.cached("icon.svg");
    let mut count = 0;
    for source in deps::entries(&home.join("source"))? {
        let name = source.file_stem().unwrap_or_default().to_string_lossy();
        if name == PROGRAM || source.extension().is_none_or(|ending| ending != "svg") {
            continue;
        }
        let drawing = checkout::read(&source)?;
        for set in &SETS {
            let folder = home.join("tray").join(set.name);
            checkout::write(&scratch, coloured(&drawing, set))?;
            for size in set.sizes {
                draw(&scratch, *size, &folder, &format!("{name}-{size}.png"))?;
                count += 1;
            }
        }
    }
    program(&home)?;
    output::line(&format!(
        "{count} tray icons and the program's own in {}",
        home.display()
    ));
    Ok(())
}

/// The program's icon in every size, and the two containers that installers need.
fn program(home: &Path) -> Result<(), Error> {
    let source = home.join("source").join(format!("{PROGRAM}.svg"));
    let folder = home.join(PROGRAM);
    let mut drawn = Vec::new();
    for size in APP {
        let path = draw(&source, size, &folder, &format!("{size}.png"))?;
        drawn.push((size, fs::read(&path).map_err(Error::read(&path))?));
    }
    checkout::write(&folder.join("icon.ico"), container::ico(&drawn))?;
    checkout::write(&folder.join("icon.icns"), container::icns(&drawn))
}

/// The drawing in a set's colours. The plate is below the drawing and larger: an outline would
/// close the gaps that tell the shapes apart.
fn coloured(drawing: &str, set: &Set) -> String {
    let drawing = drawing.replace("currentColor", set.ink);
    let Some((plate, (start, rest))) = set.plate.zip(drawing.split_once('>')) else {
        return drawing;
    };
    let start = start.replace("0 0 16 16", "-2 -2 20 20");
    format!(
        "{start}><rect x=\"-2\" y=\"-2\" width=\"20\" height=\"20\" rx=\"5\" \
         fill=\"{plate}\" stroke=\"none\"/>{rest}"
    )
}

fn draw(source: &Path, size: u32, folder: &Path, name: &str) -> Result<PathBuf, Error> {
    fs::create_dir_all(folder).map_err(Error::write(folder))?;
    let target = folder.join(name);
    let pixels = size.to_string();
    let mut command = Command::new("rsvg-convert");
    command.args(["--width", &pixels, "--height", &pixels, "--output"]);
    process::stdout(command.arg(&target).arg(source))?;
    Ok(target)
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
            assert!(drawn.contains(set.ink), "{}", set.name);
            assert!(
                !drawn.contains("currentColor"),
                "{}: a PNG has no currentColor",
                set.name
            );
        }
    }

    #[test]
    fn a_plate_is_below_the_drawing_and_larger() {
        let set = SETS
            .iter()
            .find(|set| set.plate.is_some())
            .expect("there is one");
        let drawn = coloured(DRAWING, set);
        assert!(drawn.contains("-2 -2 20 20"), "it has an edge: {drawn}");
        let plate = drawn.find("<rect").expect("there is a plate");
        let shape = drawn.find("<circle").expect("the drawing is there");
        assert!(plate < shape, "later shapes are above");
    }
}
