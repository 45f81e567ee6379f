//! The shapes as pictures: one per state, readable on light and dark panels.

use std::io;

use oneslot::telemetry::snapshot::Face;
use tauri::Wry;
use tauri::image::Image;
use tauri::tray::TrayIcon;

/// The picture's file for one shape. A Linux panel does not say whether it is light or dark, and
/// Windows' taskbar is not queried: both get the set on a plate. macOS colours its own.
macro_rules! picture {
    ($name:literal) => {{
        #[cfg(target_os = "macos")]
        {
            include_bytes!(concat!("../../../icons/tray/template/", $name, "-36.png"))
        }
        #[cfg(not(target_os = "macos"))]
        {
            include_bytes!(concat!("../../../icons/tray/plated/", $name, "-44.png"))
        }
    }};
}

/// The picture for a state.
pub(super) fn image(face: Face) -> tauri::Result<Image<'static>> {
    let bytes: &[u8] = match face {
        Face::Starting => picture!("starting"),
        Face::Ready => picture!("ready"),
        Face::Busy => picture!("busy"),
        Face::Waiting => picture!("waiting"),
        Face::Degraded => picture!("degraded"),
        Face::Loading => picture!("loading"),
        Face::Cooling => picture!("cooling"),
        Face::Down => picture!("down"),
        Face::Paused => picture!("paused"),
        Face::NoServer => picture!("no_server"),
        Face::NotServing => picture!("not_serving"),
    };
    decoded(bytes).map_err(|error| tauri::Error::Io(error.into()))
}

/// The pixels of one of our own files: eight bits each for red, green, blue and opacity.
fn decoded(bytes: &[u8]) -> Result<Image<'static>, png::DecodingError> {
    let mut reader = png::Decoder::new(io::Cursor::new(bytes)).read_info()?;
    let mut pixels = vec![0; reader.output_buffer_size().unwrap_or(0)];
    let info = reader.next_frame(&mut pixels)?;
    Ok(Image::new_owned(pixels, info.width, info.height))
}

/// Puts the picture for a state on the icon, without a moment in which macOS sees it uncoloured.
pub(super) fn put(icon: &TrayIcon<Wry>, face: Face) -> tauri::Result<()> {
    icon.set_icon_with_as_template(Some(image(face)?), true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_picture_can_be_read_and_is_square() {
        for face in [
            Face::Starting,
            Face::Ready,
            Face::Busy,
            Face::Waiting,
            Face::Degraded,
            Face::Loading,
            Face::Cooling,
            Face::Down,
            Face::Paused,
            Face::NoServer,
            Face::NotServing,
        ] {
            let square = image(face).is_ok_and(|image| {
                let pixels = image.width() * image.width();
                image.width() == image.height() && image.rgba().len() == pixels as usize * 4
            });
            assert!(square, "{face:?}");
        }
    }
}
