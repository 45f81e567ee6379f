//! Running other programs.

use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::error::Error;
use crate::output;

/// How long a program's output is read after the program has ended. A process that it left behind
/// can keep the pipe open forever.
const READ_AFTER_END: Duration = Duration::from_secs(2);

/// Runs a program without input; it prints where this program prints.
///
/// # Errors
/// [`Error::Start`], or [`Error::Failed`] unless it ends with success.
pub(crate) fn run(command: &mut Command) -> Result<(), Error> {
    output::line(&format!("$ {}", shown(command)));
    let status = command.stdin(Stdio::null()).status();
    let status = status.map_err(|source| cannot_start(command, source))?;
    check(command, status)
}

/// Runs a program without input and returns its standard output.
///
/// # Errors
/// As [`run`].
pub(crate) fn stdout(command: &mut Command) -> Result<String, Error> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = output.output();
    let output = output.map_err(|source| cannot_start(command, source))?;
    check(command, output.status)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether a program exists and ends with success. Prints nothing.
pub(crate) fn succeeds(program: impl AsRef<std::ffi::OsStr>, args: &[&str]) -> bool {
    Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs a program without input, passes its output on line by line, and returns what `read` finds
/// in those lines, together with the program's success.
///
/// # Errors
/// [`Error::Start`].
pub(crate) fn run_and_read<T: Send + 'static>(
    mut command: Command,
    read: fn(&str) -> Option<T>,
) -> Result<(Vec<T>, Result<(), Error>), Error> {
    let shown = shown(&command);
    output::line(&format!("$ {shown}"));
    let started = start_with_one_pipe(&mut command);
    let (mut child, reader) = started.map_err(|source| cannot_start(&command, source))?;
    // The command holds writing ends of the pipe, which would never close.
    drop(command);
    let (sender, found) = mpsc::channel();
    thread::spawn(move || {
        let lines = BufReader::new(reader).split(b'\n');
        for mut line in lines.map_while(Result::ok) {
            let item = read(&String::from_utf8_lossy(&line));
            line.push(b'\n');
            output::bytes(&line);
            item.map(|item| sender.send(item));
        }
    });
    let status = child.wait().map_err(|source| Error::Start {
        program: shown.clone(),
        source,
    })?;
    let items = std::iter::from_fn(|| found.recv_timeout(READ_AFTER_END).ok()).collect();
    let ended = if status.success() {
        Ok(())
    } else {
        Err(Error::Failed { shown, status })
    };
    Ok((items, ended))
}

/// Replaces this program by another, so that signals reach it and its exit status is ours.
///
/// # Errors
/// [`Error::Start`]; where programs cannot be replaced, as [`run`].
pub(crate) fn replace_by(mut command: Command) -> Result<(), Error> {
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt as _;
        output::line(&format!("$ {}", shown(&command)));
        let source = command.exec();
        Err(cannot_start(&command, source))
    }
    #[cfg(not(unix))]
    run(&mut command)
}

/// The program and its arguments, as a user would type them.
pub(crate) fn shown(command: &Command) -> String {
    let program = command.get_program().to_string_lossy();
    let name = program.rsplit(['/', '\\']).next().unwrap_or(&program);
    let args = command.get_args().map(|arg| arg.to_string_lossy());
    let words: Vec<_> = std::iter::once(name.into()).chain(args).collect();
    words.join(" ")
}

fn start_with_one_pipe(command: &mut Command) -> io::Result<(Child, io::PipeReader)> {
    let (reader, writer) = io::pipe()?;
    command.stdin(Stdio::null());
    command.stdout(writer.try_clone()?).stderr(writer);
    Ok((command.spawn()?, reader))
}

/// Turns an exit status into an error unless it is success.
///
/// # Errors
/// [`Error::Failed`].
pub(crate) fn check(command: &Command, status: ExitStatus) -> Result<(), Error> {
    if status.success() {
        return Ok(());
    }
    let shown = shown(command);
    Err(Error::Failed { shown, status })
}

fn cannot_start(command: &Command, source: io::Error) -> Error {
    Error::Start {
        program: command.get_program().to_string_lossy().into_owned(),
        source,
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn both_streams_are_read_and_a_failure_is_kept() {
        let script = shell("echo 1; echo 2 >&2; echo other; exit 3");
        let (items, ended) = run_and_read(script, |line| line.parse::<u8>().ok()).expect("starts");
        assert_eq!(items, [1, 2]);
        assert!(matches!(ended, Err(Error::Failed { .. })));
    }

    #[test]
    fn a_process_left_behind_does_not_block() {
        let script = shell("echo 1; sleep 30 & exit 0");
        let (items, ended) = run_and_read(script, |line| line.parse::<u8>().ok()).expect("starts");
        assert_eq!(items, [1]);
        assert!(ended.is_ok());
    }
}
