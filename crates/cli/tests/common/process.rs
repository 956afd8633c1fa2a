//! The program as a process.

use std::{process::Stdio, time::Duration};

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, Lines},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    time::timeout,
};

/// The maximum time of a step. A slow machine must not fail a test.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Runs a command until it exits.
pub(crate) async fn run(mut command: Command) -> (i32, String, String) {
    let output = timeout(MAX_WAIT, command.output()).await.expect("the program exits").unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// A running program.
pub(crate) struct Program {
    child: Child,
    pub(crate) input: ChildStdin,
    pub(crate) out: Lines<BufReader<ChildStdout>>,
    pub(crate) err: Lines<BufReader<ChildStderr>>,
}

impl Program {
    pub(crate) fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap()).lines();
        let err = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, input, out, err }
    }

    /// Returns the next line of standard output.
    pub(crate) async fn line(&mut self) -> String {
        let line = timeout(MAX_WAIT, self.out.next_line()).await.expect("a line on standard output");
        line.unwrap().expect("the program runs")
    }

    /// Returns the next line of standard output as JSON.
    pub(crate) async fn event(&mut self) -> Value {
        serde_json::from_str(&self.line().await).unwrap()
    }

    /// Returns the next line of standard error that contains `text`.
    pub(crate) async fn note(&mut self, text: &str) -> String {
        loop {
            let line = timeout(MAX_WAIT, self.err.next_line()).await;
            let line = line.unwrap_or_else(|_| panic!("a line with {text:?} on standard error"));
            let line = line.unwrap().unwrap_or_else(|| panic!("the program exited without {text:?}"));
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Presses Ctrl-C.
    pub(crate) async fn interrupt(&self) {
        self.signal("-INT").await;
    }

    /// Sends a signal, for example `-TERM`.
    pub(crate) async fn signal(&self, signal: &str) {
        let id = self.child.id().expect("the program runs").to_string();
        assert!(Command::new("kill").args([signal, &id]).status().await.unwrap().success());
    }

    /// Waits until the program exits. Returns the exit code and the rest of standard output.
    pub(crate) async fn end(mut self) -> (i32, String) {
        let mut rest = String::new();
        let mut out = self.out.into_inner();
        timeout(MAX_WAIT, out.read_to_string(&mut rest)).await.expect("the program exits").unwrap();
        let status = timeout(MAX_WAIT, self.child.wait()).await.expect("the program exits").unwrap();
        (status.code().unwrap_or(-1), rest)
    }
}
