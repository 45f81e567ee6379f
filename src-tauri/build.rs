//! Narrows what the page may ask for: a command that is not named here cannot be called, and one
//! that is must also be allowed by the window's capability.

/// The panel's commands, as `src/commands/` defines them.
const COMMANDS: [&str; 18] = [
    "watch",
    "unwatch",
    "pause",
    "resume",
    "check",
    "unload",
    "stop",
    "cancel",
    "settings",
    "change",
    "allow",
    "find",
    "prove",
    "another_port",
    "shell",
    "change_shell",
    "open",
    "copy",
];

fn main() {
    println!("cargo::rerun-if-changed=../icons");
    let manifest = tauri_build::AppManifest::new().commands(&COMMANDS);
    let attributes = tauri_build::Attributes::new().app_manifest(manifest);
    if let Err(error) = tauri_build::try_build(attributes) {
        println!("cargo::error={error:#}");
    }
}
