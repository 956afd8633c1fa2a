//! The program in a pseudo terminal, and its screen.

use std::{
    fs::{File, OpenOptions},
    io::{Read as _, Write as _},
    num::NonZero,
    process::Stdio,
    time::Duration,
};

use rustix::{
    process::{Pid, WaitId, WaitIdOptions, waitid},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Termios, Winsize, tcgetattr, tcsetwinsize},
};
use tokio::{
    process::{Child, Command},
    sync::mpsc,
    time::timeout,
};

/// The maximum time of a step. A slow machine must not fail a test.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// The maximum number of chunks that the test has not read. Until the exit of the program, this is enough.
const MAX_CHUNKS: usize = 4096;

/// The program in a terminal.
pub(crate) struct Terminal {
    child: Child,
    master: File,
    /// The terminal closes when its last user closes it, so the test can read the settings after the exit.
    user: File,
    chunks: mpsc::Receiver<Vec<u8>>,
    parser: vt100::Parser,
    settings: Termios,
}

/// The terminal after the program has exited.
pub(crate) struct Exited {
    pub(crate) code: Option<i32>,
    /// The text on the normal screen.
    pub(crate) text: String,
    /// Whether the normal screen, the cursor and the settings of the terminal are as before the start.
    pub(crate) is_restored: bool,
}

impl Terminal {
    /// Starts the program in a terminal with this size, in cells.
    pub(crate) fn spawn(mut command: Command, width: u16, height: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let path = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let user = OpenOptions::new().read(true).write(true).open(path).unwrap();
        set_size(&user, width, height);
        let settings = tcgetattr(&user).unwrap();
        let io = || Stdio::from(user.try_clone().unwrap());
        command.stdin(io()).stdout(io()).stderr(io()).kill_on_drop(true);
        let child = command.spawn().unwrap();
        // The command holds the terminal open.
        drop(command);
        let master = File::from(master);
        let chunks = read(master.try_clone().unwrap());
        let size = |cells| NonZero::new(cells).unwrap();
        let parser = vt100::Parser::new(size(height), size(width), 0);
        Self { child, master, user, chunks, parser, settings }
    }

    /// Returns the text of the screen.
    pub(crate) fn text(&self) -> String {
        self.parser.screen().contents()
    }

    /// Waits until the screen fulfils a condition. Returns its text.
    pub(crate) async fn wait_for(&mut self, what: &str, is_reached: impl Fn(&str) -> bool) -> String {
        let wait = async {
            while !is_reached(&self.parser.screen().contents()) {
                match self.chunks.recv().await {
                    Some(chunk) => self.parser.process(&chunk),
                    None => break,
                }
            }
        };
        let result = timeout(MAX_WAIT, wait).await;
        let text = self.text();
        assert!(result.is_ok() && is_reached(&text), "no {what}:\n{text}");
        text
    }

    /// Changes the size of the terminal. The kernel sends the signal only to the foreground processes of a
    /// session.
    pub(crate) async fn resize(&mut self, width: u16, height: u16) {
        set_size(&self.user, width, height);
        let size = |cells| NonZero::new(cells).unwrap();
        self.parser.screen_mut().set_size(size(height), size(width));
        self.signal("WINCH").await;
    }

    /// Presses keys.
    pub(crate) fn press(&mut self, keys: &[u8]) {
        self.master.write_all(keys).unwrap();
    }

    pub(crate) async fn signal(&self, name: &str) {
        let id = self.child.id().expect("the program runs").to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().await.unwrap().success());
    }

    /// Waits until the program has stopped, as after Ctrl-Z in a shell. Returns whether the terminal is
    /// restored.
    pub(crate) async fn stop(&mut self) -> bool {
        let id = self.child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?)).expect("the program runs");
        let stopped =
            tokio::task::spawn_blocking(move || waitid(WaitId::Pid(id), WaitIdOptions::STOPPED).unwrap());
        timeout(MAX_WAIT, stopped).await.expect("the program stops").unwrap();
        while self.parser.screen().alternate_screen() {
            let chunk = timeout(MAX_WAIT, self.chunks.recv()).await.expect("the normal screen").unwrap();
            self.parser.process(&chunk);
        }
        is_restored(&self.settings, &tcgetattr(&self.user).unwrap(), self.parser.screen())
    }

    /// Closes the terminal, as when its window is closed. Returns the exit code of the program.
    pub(crate) async fn hang_up(mut self) -> Option<i32> {
        // The thread stops at the next output, because the receiver is dropped.
        drop((self.master, self.user, self.chunks));
        timeout(MAX_WAIT, self.child.wait()).await.expect("the program exits").unwrap().code()
    }

    /// Waits until the program exits.
    pub(crate) async fn end(mut self) -> Exited {
        let status = timeout(MAX_WAIT, self.child.wait()).await.expect("the program exits").unwrap();
        let settings = tcgetattr(&self.user).unwrap();
        drop(self.user);
        while let Some(chunk) = self.chunks.recv().await {
            self.parser.process(&chunk);
        }
        let screen = self.parser.screen();
        let is_restored = is_restored(&self.settings, &settings, screen);
        Exited { code: status.code(), text: screen.contents(), is_restored }
    }
}

fn is_restored(before: &Termios, now: &Termios, screen: &vt100::Screen) -> bool {
    let modes = |settings: &Termios| (settings.local_modes, settings.input_modes, settings.output_modes);
    modes(before) == modes(now) && !screen.alternate_screen() && !screen.hide_cursor()
}

fn set_size(terminal: &File, width: u16, height: u16) {
    let size = Winsize { ws_row: height, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).unwrap();
}

/// Reads the output of the program in a thread, which stops when all users have closed the terminal.
fn read(mut master: File) -> mpsc::Receiver<Vec<u8>> {
    let (sender, chunks) = mpsc::channel(MAX_CHUNKS);
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = master.read(&mut buffer) {
            if sender.blocking_send(buffer[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    chunks
}
