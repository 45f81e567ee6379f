//! The two files that contain one icon in many sizes: `.ico` of Windows and `.icns` of macOS. Both
//! contain PNG files unchanged, so that only their headers are written here.

/// A Windows icon of these PNG files, each with its size in pixels; sizes over 256 are left out.
pub(super) fn ico(drawn: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let fit: Vec<_> = drawn.iter().filter(|(size, _)| *size <= 256).collect();
    let count = u16::try_from(fit.len()).unwrap_or(u16::MAX);
    let mut bytes = vec![0, 0, 1, 0];
    bytes.extend(count.to_le_bytes());
    let mut at = length(6 + 16 * fit.len());
    for (size, png) in &fit {
        // One byte; 0 means 256.
        let side = u8::try_from(*size).unwrap_or(0);
        bytes.extend([side, side, 0, 0, 1, 0, 32, 0]);
        bytes.extend(length(png.len()).to_le_bytes());
        bytes.extend(at.to_le_bytes());
        at += length(png.len());
    }
    for (_, png) in fit {
        bytes.extend(png);
    }
    bytes
}

/// A macOS icon of these PNG files; sizes without a name in the format are left out.
pub(super) fn icns(drawn: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut body = Vec::new();
    for (size, png) in drawn {
        let name: &[u8; 4] = match size {
            32 => b"ic11",
            64 => b"ic12",
            128 => b"ic07",
            256 => b"ic08",
            512 => b"ic09",
            _ => continue,
        };
        body.extend(name);
        body.extend(length(png.len() + 8).to_be_bytes());
        body.extend(png);
    }
    let mut bytes = b"icns".to_vec();
    bytes.extend(length(body.len() + 8).to_be_bytes());
    bytes.extend(body);
    bytes
}

fn length(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_windows_icon_has_the_offset_of_each_size() {
        let bytes = ico(&[(16, vec![7; 3]), (256, vec![9; 5]), (512, vec![1; 9])]);
        assert_eq!(bytes[4..6], [2, 0], "512 is left out");
        assert_eq!(bytes[6], 16, "the first is 16 wide");
        assert_eq!(bytes[22], 0, "256 is written as 0");
        assert_eq!(
            bytes[18..22],
            38u32.to_le_bytes(),
            "the first follows the headers"
        );
        assert_eq!(
            bytes[34..38],
            41u32.to_le_bytes(),
            "the second follows the first"
        );
        assert_eq!(bytes.len(), 46, "headers and images only");
    }

    #[test]
    fn a_mac_icon_has_its_total_length() {
        let bytes = icns(&[(16, vec![7; 3]), (128, vec![9; 5])]);
        assert_eq!(bytes[..4], *b"icns");
        assert_eq!(bytes[4..8], 21u32.to_be_bytes(), "16 is left out");
        assert_eq!(bytes[8..12], *b"ic07");
        assert_eq!(
            bytes[12..16],
            13u32.to_be_bytes(),
            "a length includes its header"
        );
    }
}
