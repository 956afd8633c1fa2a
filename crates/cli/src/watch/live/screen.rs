//! `Screen`: the terminal during the live table, and its restoration.

use std::{
    io::{self, Write as _, stdout},
    panic,
    sync::{
        Once,
        atomic::{AtomicBool, Ordering},
    },
};

use crossterm::{
    QueueableCommand as _,
    cursor::{Hide, MoveTo, Show},
    terminal::{
        BeginSynchronizedUpdate, Clear, ClearType, DisableLineWrap, EnableLineWrap, EndSynchronizedUpdate,
        EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
    },
};

use super::line::Line;
use crate::{error::CliError, terminal::Terminal};

/// Whether the terminal must be restored. A process has only one terminal.
static IS_ACTIVE: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

/// The size of a terminal that does not report its size, in cells.
const DEFAULT_SIZE: (u16, u16) = (80, 24);

/// Describes why the terminal cannot be used.
#[derive(Debug, thiserror::Error)]
enum ScreenError {
    /// The terminal has no raw mode.
    #[error("failed to prepare the terminal for --live; use the command without --live")]
    Raw(#[source] io::Error),
    /// A panic has restored the terminal.
    #[error("a task failed, and the live table was closed")]
    Closed,
}

/// The alternate screen of the terminal. If the value is dropped, or if a thread panics, the terminal is
/// restored.
#[derive(Debug)]
pub(super) struct Screen {
    terminal: Terminal,
}

impl Screen {
    /// Switches the terminal to the alternate screen without a cursor, and stops the echo of keys.
    ///
    /// # Errors
    ///
    /// Fails if standard output is not a terminal.
    pub(super) fn enter(terminal: Terminal) -> Result<Self, CliError> {
        HOOK.call_once(restore_before_panics);
        let screen = Self { terminal };
        prepare()?;
        Ok(screen)
    }

    /// Restores the terminal, and stops the process, like a program without a handler of SIGTSTP. After
    /// SIGCONT, switches the terminal to the alternate screen again.
    ///
    /// # Errors
    ///
    /// Fails if the terminal cannot be written.
    pub(super) fn suspend(&self) -> Result<(), CliError> {
        // A system without these signals has no Ctrl-Z.
        #[cfg(unix)]
        {
            restore();
            // The process has a handler of SIGTSTP, so only SIGSTOP stops it. A failure has no effect.
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
            prepare()?;
        }
        Ok(())
    }

    /// Returns the width and the height, in cells.
    pub(super) fn size() -> (usize, usize) {
        let (width, height) = size().ok().filter(|size| size.0 > 0 && size.1 > 0).unwrap_or(DEFAULT_SIZE);
        (width.into(), height.into())
    }

    /// Replaces the contents of the screen. `lines` contains a line for each row of the screen.
    ///
    /// # Errors
    ///
    /// Fails if the terminal cannot be written, or was restored by a panic.
    pub(super) fn draw(&self, lines: &[Line]) -> Result<(), CliError> {
        if !IS_ACTIVE.load(Ordering::SeqCst) {
            return Err(CliError::Command(Box::new(ScreenError::Closed)));
        }
        let mut bytes = Vec::new();
        queue_lines(&mut bytes, lines, self.terminal).map_err(CliError::Output)?;
        write(&bytes)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Switches the terminal to the alternate screen.
fn prepare() -> Result<(), CliError> {
    let failed = |error| CliError::Command(Box::new(ScreenError::Raw(error)));
    enable_raw_mode().map_err(failed)?;
    IS_ACTIVE.store(true, Ordering::SeqCst);
    let mut bytes = Vec::new();
    queue_enter(&mut bytes).map_err(failed)?;
    write(&bytes)
}

fn restore_before_panics() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        restore();
        report(info);
    }));
}

/// Restores the terminal, once.
pub(crate) fn restore() {
    if !IS_ACTIVE.swap(false, Ordering::SeqCst) {
        return;
    }
    // A closed terminal needs no restoration. A blocked terminal accepts only this setting.
    let _ = disable_raw_mode();
    let mut bytes = Vec::new();
    let _ = queue_leave(&mut bytes).map(|()| write(&bytes));
}

fn queue_enter(out: &mut Vec<u8>) -> io::Result<()> {
    out.queue(EnterAlternateScreen)?.queue(Hide)?.queue(DisableLineWrap)?;
    out.queue(Clear(ClearType::All)).map(drop)
}

fn queue_leave(out: &mut Vec<u8>) -> io::Result<()> {
    out.queue(EndSynchronizedUpdate)?.queue(EnableLineWrap)?.queue(LeaveAlternateScreen)?;
    out.queue(Show).map(drop)
}

fn queue_lines(out: &mut Vec<u8>, lines: &[Line], terminal: Terminal) -> io::Result<()> {
    out.queue(BeginSynchronizedUpdate)?;
    for (row, line) in (0..u16::MAX).zip(lines) {
        // A later removal of the rest of the line would also remove the character in the last column.
        out.queue(MoveTo(0, row))?.queue(Clear(ClearType::CurrentLine))?;
        out.write_all(line.painted(terminal).as_bytes())?;
    }
    out.queue(EndSynchronizedUpdate).map(drop)
}

fn write(bytes: &[u8]) -> Result<(), CliError> {
    let mut out = stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| CliError::Output(closed(error)))
}

/// Returns the error of a closed pipe if the terminal was closed. The error of the terminal is EIO.
fn closed(error: io::Error) -> io::Error {
    const EIO: i32 = 5;
    if cfg!(unix) && error.raw_os_error() == Some(EIO) { io::ErrorKind::BrokenPipe.into() } else { error }
}

#[cfg(test)]
mod tests {
    use std::num::NonZero;

    use super::*;
    use crate::flags::ColorChoice;

    /// Returns the screen after these bytes.
    fn screen(bytes: &[u8]) -> vt100::Parser {
        let mut parser = vt100::Parser::new(NonZero::new(4).unwrap(), NonZero::new(10).unwrap(), 0);
        parser.process(bytes);
        parser
    }

    fn queued(lines: &[&str]) -> Vec<u8> {
        let lines: Vec<_> = lines.iter().map(|line| Line::of(None, line, 10)).collect();
        let mut bytes = Vec::new();
        queue_lines(&mut bytes, &lines, Terminal::new(ColorChoice::Never)).unwrap();
        bytes
    }

    #[test]
    fn left_screen_is_restored() {
        let mut bytes = b"before".to_vec();
        queue_enter(&mut bytes).unwrap();
        assert!(screen(&bytes).screen().alternate_screen() && screen(&bytes).screen().hide_cursor());
        bytes.extend(queued(&["table"]));
        queue_leave(&mut bytes).unwrap();
        let parser = screen(&bytes);
        assert!(!parser.screen().alternate_screen() && !parser.screen().hide_cursor());
        assert_eq!(parser.screen().contents(), "before");
    }

    #[test]
    fn frame_of_maximum_height_has_all_lines() {
        let bytes = queued(&vec!["x"; usize::from(u16::MAX)]);
        assert!(String::from_utf8(bytes).unwrap().contains("\u{1b}[65535;1H"));
    }

    #[test]
    fn next_frame_replaces_all_characters() {
        let mut bytes = queued(&["0123456789", "long line", "three", "four"]);
        assert_eq!(screen(&bytes).screen().contents(), "0123456789\nlong line\nthree\nfour");
        bytes.extend(queued(&["0123456789", "x", "", ""]));
        assert_eq!(screen(&bytes).screen().contents(), "0123456789\nx");
    }
}
