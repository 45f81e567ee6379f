//! Programs that the system's own package manager brings: on Debian and its kin by apt, as root
//! or through a sudo that does not ask; elsewhere the person is told what to install. A C compiler
//! is not among them: Rust links with it, so this program would not be there without one.

use std::process::Command;

use crate::call;
use crate::fault::Fault;

/// The oldest Python for which the model server is published.
const PYTHON_CHECK: &str = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))";

/// For the model server.
pub(super) const PYTHON: [Tool; 1] = [PYTHON3];

/// For all tests against real programs.
pub(super) const LIVE: [Tool; 3] = [PYTHON3, NPM, CURL];

/// For the tests of what only Linux has.
pub(super) const LINUX: [Tool; 2] = [DBUS, INHIBIT];

/// For the panel's packages.
pub(super) const PANEL: [Tool; 1] = [NPM];

/// For icons.
pub(super) const DRAWING: [Tool; 1] = [Tool {
    name: "rsvg-convert",
    proof: ("rsvg-convert", &["--version"]),
    packages: &["librsvg2-bin"],
}];

/// For pictures: letters of both languages.
pub(super) const LETTERS: [Tool; 1] = [Tool {
    name: "a font with Chinese letters",
    proof: ("sh", &["-c", "fc-list :lang=zh | grep -q ."]),
    packages: &["fontconfig", "fonts-dejavu-core", "fonts-noto-cjk"],
}];

/// For building the tray, and for its tests on a desktop of their own.
pub(super) const DESKTOP: [Tool; 8] = [
    Tool {
        name: "WebKitGTK 4.1 with its headers",
        proof: ("pkg-config", &["--exists", "webkit2gtk-4.1"]),
        packages: &["libwebkit2gtk-4.1-dev", "pkg-config"],
    },
    Tool {
        name: "Xvfb",
        proof: ("sh", &["-c", "command -v Xvfb"]),
        packages: &["xvfb"],
    },
    Tool {
        name: "Weston",
        proof: ("sh", &["-c", "command -v weston"]),
        packages: &["weston"],
    },
    DBUS,
    Tool {
        name: "WebKitWebDriver",
        proof: ("sh", &["-c", "command -v WebKitWebDriver"]),
        packages: &["webkit2gtk-driver"],
    },
    Tool {
        name: "xclip",
        proof: ("sh", &["-c", "command -v xclip"]),
        packages: &["xclip"],
    },
    Tool {
        name: "ip, for a network of a test's own",
        proof: ("sh", &["-c", "PATH=$PATH:/sbin:/usr/sbin command -v ip"]),
        packages: &["iproute2"],
    },
    Tool {
        name: "letters for a page",
        proof: ("sh", &["-c", "fc-list | grep -q ."]),
        packages: &["fontconfig", "fonts-dejavu-core"],
    },
];

/// For putting a package together.
pub(super) const PACKAGING: [Tool; 1] = [Tool {
    name: "dpkg-shlibdeps",
    proof: ("dpkg-shlibdeps", &["--version"]),
    packages: &["dpkg-dev"],
}];

/// For a bare Debian to install the package in.
pub(super) const BARE: [Tool; 1] = [Tool {
    name: "debootstrap",
    proof: ("debootstrap", &["--version"]),
    packages: &["debootstrap"],
}];

const PYTHON3: Tool = Tool {
    name: "Python 3.10 or newer with venv and pip",
    proof: ("python3", &["-c", PYTHON_CHECK]),
    packages: &["python3", "python3-venv"],
};

const NPM: Tool = Tool {
    name: "npm",
    proof: (NPM_PROGRAM, &["--version"]),
    packages: &["npm"],
};

/// A message bus, for a fake of the daemon that keeps a machine awake.
const DBUS: Tool = Tool {
    name: "dbus-daemon",
    proof: ("dbus-daemon", &["--version"]),
    packages: &["dbus-daemon"],
};

const INHIBIT: Tool = Tool {
    name: "systemd-inhibit",
    proof: ("systemd-inhibit", &["--version"]),
    packages: &["systemd"],
};

const CURL: Tool = Tool {
    name: "curl",
    proof: ("curl", &["--version"]),
    packages: &["curl", "ca-certificates"],
};

const CHROMIUM: Tool = Tool {
    name: "Chromium",
    proof: (BROWSERS[0], &["--version"]),
    packages: &["chromium"],
};

/// Names of the browser, Debian's first; Chrome is as good.
const BROWSERS: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];

/// npm is a script on Windows, and only its full name starts there.
pub(super) const NPM_PROGRAM: &str = if cfg!(windows) { "npm.cmd" } else { "npm" };

/// A program, how it is known to be there, and Debian's packages that hold it.
#[derive(Clone, Copy)]
pub(super) struct Tool {
    name: &'static str,
    proof: (&'static str, &'static [&'static str]),
    packages: &'static [&'static str],
}

impl Tool {
    fn is_there(&self) -> bool {
        call::answers(self.proof.0, self.proof.1)
    }
}

/// Makes sure that each of the tools is there.
///
/// # Errors
/// [`Fault::Missing`] with the names of the tools and of the packages.
pub(super) fn bring(tools: &[Tool]) -> Result<(), Fault> {
    let absent = absent(tools);
    if absent.is_empty() {
        return Ok(());
    }
    let packages: Vec<_> = absent
        .iter()
        .flat_map(|tool| tool.packages)
        .copied()
        .collect();
    let Some(apt) = Apt::usable() else {
        return Err(missing(&absent, &packages));
    };
    call::run(&mut apt.get(&["update", "-qq"]))?;
    let install = [
        "install",
        "-qq",
        "-o",
        "Dpkg::Use-Pty=0",
        "--yes",
        "--no-install-recommends",
    ];
    call::run(apt.get(&install).args(&packages))?;
    let absent = self::absent(tools);
    if absent.is_empty() {
        Ok(())
    } else {
        Err(missing(&absent, &packages))
    }
}

/// The browser that is there, or Debian's.
///
/// # Errors
/// As [`bring`].
pub(super) fn browser() -> Result<&'static str, Fault> {
    let there = BROWSERS
        .into_iter()
        .find(|name| call::answers(name, &["--version"]));
    match there {
        Some(name) => Ok(name),
        None => bring(&[CHROMIUM]).map(|()| BROWSERS[0]),
    }
}

fn absent(tools: &[Tool]) -> Vec<Tool> {
    tools
        .iter()
        .filter(|tool| !tool.is_there())
        .copied()
        .collect()
}

fn missing(tools: &[Tool], packages: &[&str]) -> Fault {
    let names: Vec<_> = tools.iter().map(|tool| tool.name).collect();
    Fault::Missing {
        what: names.join(", "),
        remedy: format!(
            "on Debian or Ubuntu run `sudo apt-get install {}`; elsewhere install the same by \
             your system's own means, so that the programs are on the PATH",
            packages.join(" ")
        ),
    }
}

/// The way in which whoever runs this may use apt.
enum Apt {
    Root,
    /// Through a sudo that does not ask.
    Sudo,
}

impl Apt {
    /// The way, if there is one.
    fn usable() -> Option<Self> {
        if !call::answers("apt-get", &["--version"]) {
            return None;
        }
        let root = call::ask(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
        if root {
            return Some(Self::Root);
        }
        call::answers("sudo", &["-n", "true"]).then_some(Self::Sudo)
    }

    fn get(&self, words: &[&str]) -> Command {
        let mut command = match self {
            Self::Root => Command::new("env"),
            Self::Sudo => {
                let mut sudo = Command::new("sudo");
                sudo.args(["-n", "env"]);
                sudo
            }
        };
        command
            .args(["DEBIAN_FRONTEND=noninteractive", "apt-get"])
            .args(words);
        command
    }
}
