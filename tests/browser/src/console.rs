//! `Console`: the screen of a program in a pseudo terminal, as a page.

use std::{
    fs::{File, OpenOptions},
    io::Read,
    num::NonZero,
    process::Stdio,
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result};
use maud::{DOCTYPE, html};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use tokio::{
    process::{Child, Command},
    sync::mpsc,
    time::timeout,
};
use vt100::{Color, Parser};

/// The time limit for an expected state of the screen, and for the exit of the program.
const LIMIT: Duration = Duration::from_secs(60);

/// The maximum number of chunks that are not read yet. The program then waits.
const MAX_CHUNKS: usize = 1024;

const STYLE: &str = "
body { margin: 0; background: #14181f; color: #d7dce4; }
pre { margin: 0; padding: 14px 18px; font: 12px/17px 'DejaVu Sans Mono', monospace; display: inline-block; }
";

/// Runs a program in a pseudo terminal. The program is killed if the value is dropped.
pub struct Console {
    program: Child,
    chunks: mpsc::Receiver<Vec<u8>>,
    parser: Parser,
}

impl Console {
    /// Starts a program in a terminal with this size, in cells.
    ///
    /// # Errors
    ///
    /// Fails if no terminal is available, or if the program does not start.
    pub fn start(mut command: Command, width: u16, height: u16) -> Result<Self> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let path = ptsname(&master, Vec::new())?.into_string()?;
        let terminal = OpenOptions::new().read(true).write(true).open(path)?;
        tcsetwinsize(&terminal, Winsize { ws_row: height, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 })?;
        command.stdin(terminal.try_clone()?).stdout(terminal.try_clone()?).stderr(Stdio::null());
        command.kill_on_drop(true);
        let program = command.spawn().context("cannot start the program")?;
        let size = |cells| NonZero::new(cells).context("the terminal has no cells");
        let parser = Parser::new(size(height)?, size(width)?, 0);
        Ok(Self { program, chunks: read(master.into()), parser })
    }

    /// Waits until the text of the screen fulfils a condition.
    ///
    /// # Errors
    ///
    /// Fails if the condition is not fulfilled after a minute, or before the program exits.
    pub async fn wait_for(&mut self, condition: impl Fn(&str) -> bool) -> Result<()> {
        let wait = async {
            while !condition(&self.parser.screen().contents()) {
                self.parser.process(&self.chunks.recv().await.context("the program has exited")?);
            }
            anyhow::Ok(())
        };
        let result = timeout(LIMIT, wait).await.context("the screen is not as expected");
        result.and_then(|result| result).with_context(|| self.parser.screen().contents())
    }

    /// Reads the rest of the output, until the program exits.
    ///
    /// # Errors
    ///
    /// Fails if the program does not exit in a minute.
    pub async fn read_to_end(&mut self) -> Result<()> {
        let read = async {
            while let Some(chunk) = self.chunks.recv().await {
                self.parser.process(&chunk);
            }
        };
        timeout(LIMIT, read).await.context("the program does not exit")
    }

    /// Presses Ctrl-C, and waits until the program exits.
    ///
    /// # Errors
    ///
    /// Fails if the program does not exit in a minute.
    pub async fn stop(mut self) -> Result<()> {
        if let Some(id) = self.program.id() {
            kill(Pid::from_raw(id.try_into()?), Signal::SIGINT)?;
        }
        timeout(LIMIT, self.program.wait()).await.context("the program does not exit")??;
        Ok(())
    }

    /// Returns a page with a command line, and the first lines of the screen below.
    pub fn html(&self, command_line: &str, max_lines: usize) -> String {
        let screen = self.parser.screen();
        let (height, width) = (screen.size().0.get(), screen.size().1.get());
        let lines = screen.contents().trim_end().lines().count().min(max_lines);
        let page = html! {
            (DOCTYPE)
            html {
                head { meta charset="utf-8"; style { (STYLE) } }
                body {
                    pre {
                        span style="color: #7f8a9a" { "$ " } (command_line) "\n"
                        @for row in (0..height).take(lines) {
                            @for (style, text) in spans(screen, row, width) { span style=(style) { (text) } }
                            "\n"
                        }
                    }
                }
            }
        };
        page.into_string()
    }
}

/// Returns the texts of a row with their styles.
fn spans(screen: &vt100::Screen, row: u16, width: u16) -> Vec<(String, String)> {
    let mut spans: Vec<(String, String)> = Vec::new();
    for cell in (0..width).filter_map(|column| screen.cell(row, column)) {
        if cell.is_wide_continuation() {
            continue;
        }
        let style = style(cell);
        let text = if cell.has_contents() { cell.contents() } else { " " };
        match spans.last_mut().filter(|(last, _)| *last == style) {
            Some((_, span)) => span.push_str(text),
            None => spans.push((style, text.to_owned())),
        }
    }
    spans
}

/// Returns the style of a cell in CSS. The programs of this project use only these colours.
fn style(cell: &vt100::Cell) -> String {
    let color = match cell.fgcolor() {
        Color::Idx(1) => "color: #ff7b72; ",
        Color::Idx(2) => "color: #56d364; ",
        Color::Idx(3) => "color: #e3b341; ",
        _ if cell.dim() => "color: #7f8a9a; ",
        _ => "",
    };
    let weight = if cell.bold() { "font-weight: bold" } else { "" };
    format!("{color}{weight}")
}

/// Reads the output in a thread, which ends when the program has closed the terminal.
fn read(mut master: File) -> mpsc::Receiver<Vec<u8>> {
    let (sender, chunks) = mpsc::channel(MAX_CHUNKS);
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = master.read(&mut buffer) {
            if sender.blocking_send(buffer[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    chunks
}
