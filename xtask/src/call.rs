//! Other programs: run one, ask one a question, or run one and keep what it prints.

use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::fault::Fault;
use crate::say;

/// How often a quiet program is asked whether it has ended.
const LOOK: Duration = Duration::from_millis(200);

/// How many looks a program's output may stay open after the program has ended. A process that it
/// left behind can hold the pipe for ever.
const LOOKS_AFTER_END: u32 = 10;

/// Runs a program without input; what it prints goes where ours goes.
///
/// # Errors
/// [`Fault::Start`], or [`Fault::Failed`] when it ends with anything but success.
pub(crate) fn run(command: &mut Command) -> Result<(), Fault> {
    let shown = shown(command);
    say::line(&format!("$ {shown}"));
    let status = command
        .stdin(Stdio::null())
        .status()
        .map_err(|source| cannot_start(command, source))?;
    succeeded(shown, status)
}

/// Runs a program without input and gives its standard output.
///
/// # Errors
/// As [`run`].
pub(crate) fn ask(command: &mut Command) -> Result<String, Fault> {
    let shown = shown(command);
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|source| cannot_start(command, source))?;
    succeeded(shown, output.status)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether a program is there and answers these words with success. Prints nothing.
pub(crate) fn answers(program: &str, words: &[&str]) -> bool {
    Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs a program, passes its output on as it comes, and keeps a copy with both streams in the
/// order in which they were written.
///
/// # Errors
/// [`Fault::Start`]. How the program ended is the caller's to judge.
pub(crate) fn run_and_keep(mut command: Command) -> Result<(ExitStatus, String), Fault> {
    let shown = shown(&command);
    say::line(&format!("$ {shown}"));
    let started = start_into_one_pipe(&mut command);
    let (mut child, reader) = started.map_err(|source| cannot_start(&command, source))?;
    // The command holds our copies of the pipe's writing end: without this it would never close.
    drop(command);
    let copy = copy_until_end(&mut child, reader);
    let status = child.wait().map_err(|source| Fault::Start {
        program: shown,
        source,
    })?;
    Ok((status, String::from_utf8_lossy(&copy).into_owned()))
}

/// The program and its words, as a person would type them.
pub(crate) fn shown(command: &Command) -> String {
    let program = command.get_program().to_string_lossy();
    let name = program.rsplit(['/', '\\']).next().unwrap_or(&program);
    let words = command.get_args().map(|word| word.to_string_lossy());
    std::iter::once(name.into())
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
}

fn start_into_one_pipe(command: &mut Command) -> io::Result<(Child, io::PipeReader)> {
    let (reader, writer) = io::pipe()?;
    let child = command
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .spawn()?;
    Ok((child, reader))
}

fn copy_until_end(child: &mut Child, mut reader: io::PipeReader) -> Vec<u8> {
    let (sender, chunks) = mpsc::channel::<Vec<u8>>();
    thread::spawn(move || {
        let mut buffer = [0; 8192];
        while let Ok(count @ 1..) = reader.read(&mut buffer) {
            if sender.send(buffer[..count].to_vec()).is_err() {
                break;
            }
        }
    });
    let mut copy = Vec::new();
    let mut looks = 0;
    while looks < LOOKS_AFTER_END {
        match chunks.recv_timeout(LOOK) {
            Ok(chunk) => {
                say::bytes(&chunk);
                copy.extend_from_slice(&chunk);
            }
            Err(RecvTimeoutError::Timeout) => {
                let ended = !matches!(child.try_wait(), Ok(None));
                looks += u32::from(ended);
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    copy
}

fn succeeded(shown: String, status: ExitStatus) -> Result<(), Fault> {
    if status.success() {
        Ok(())
    } else {
        Err(Fault::Failed { shown, status })
    }
}

fn cannot_start(command: &Command, source: io::Error) -> Fault {
    Fault::Start {
        program: command.get_program().to_string_lossy().into_owned(),
        source,
    }
}
