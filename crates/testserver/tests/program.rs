//! The server as a program: what it says, where it fails, and how it ends.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_kube-testserver");

/// A program that runs; it is ended if the test gives up.
struct Running(Child);

impl Running {
    /// Starts it, and gives the line by which it says that it is ready.
    fn start(flags: &[&str]) -> (Self, String) {
        let child = Command::new(PROGRAM).args(flags).stdout(Stdio::piped()).spawn().expect("the program");
        let mut running = Self(child);
        let mut line = String::new();
        let out = running.0.stdout.as_mut().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("a line");
        (running, line)
    }

    fn signal(mut self, signal: &str) -> ExitStatus {
        let sent = Command::new("kill").args([signal, &self.0.id().to_string()]).status().expect("kill");
        assert!(sent.success());
        self.0.wait().expect("an end")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What it says on standard error where it can't start, and its exit code.
fn failure(flags: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(PROGRAM).args(flags).output().expect("the program");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    (output.status.code(), String::from_utf8(output.stderr).expect("UTF-8"))
}

#[test]
fn a_wrong_flag_is_named_with_its_value() {
    for (flags, said) in [
        (
            &["--bookmark-period=nan"][..],
            "invalid value 'nan' for '--bookmark-period <SECONDS>': the duration must not be negative or too large",
        ),
        (
            &["--bookmark-period=-1"],
            "invalid value '-1' for '--bookmark-period <SECONDS>': the duration must not be negative or too large",
        ),
        (
            &["--expire-after", "1e300"],
            "invalid value '1e300' for '--expire-after <SECONDS>': the duration must not be negative or too large",
        ),
        (
            &["--expire-after", "soon"],
            "invalid value 'soon' for '--expire-after <SECONDS>': expected a number of seconds",
        ),
        (&["--port", "99999"], "invalid value '99999' for '--port <PORT>'"),
        (&["--workload=often"], "invalid value 'often' for '--workload <MILLISECONDS>'"),
        (&["--users"], "--tls"),
    ] {
        let (code, text) = failure(flags);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(said), "{text}");
    }
}

#[test]
fn what_cannot_be_opened_is_named_with_the_reason() {
    let directory = tempfile::tempdir().expect("a directory");
    for file in [directory.path().join("no/such"), directory.path().to_owned()] {
        let file = file.to_str().expect("UTF-8");
        let (code, text) = failure(&["--kubeconfig", file]);
        assert_eq!(code, Some(1));
        assert!(text.starts_with(&format!("error: failed to write the kubeconfig {file}: ")), "{text}");
    }
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let addr = taken.local_addr().expect("an address");
    let (code, text) = failure(&["--tls", "--port", &addr.port().to_string()]);
    assert_eq!(code, Some(1));
    assert!(text.starts_with(&format!("error: failed to listen on {addr}: ")), "{text}");
}

fn kubeconfig(file: &Path) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(file).expect("a kubeconfig")).expect("JSON")
}

#[test]
fn with_everything_on_it_starts_and_ends_when_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("kubeconfig");
    let name = file.to_str().expect("UTF-8");
    let all = ["--tls", "--users", "--garbage-collector", "--workload", "0", "--kubeconfig", name];
    let times = ["--bookmark-period", "0", "--expire-after", "1e19"];
    let (running, ready) = Running::start(&[&all[..], &times[..]].concat());
    assert_eq!(ready, format!("ready {name}\n"));
    let mode = std::fs::metadata(&file).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "there are tokens in it");
    let config = kubeconfig(&file);
    assert_eq!(config["contexts"][1]["name"], "nobody");
    let server = config["clusters"][0]["cluster"]["server"].as_str().expect("a URL");
    assert!(server.starts_with("https://127.0.0.1:"));
    assert_eq!(running.signal("-TERM").code(), Some(0));
    // Without the users, over the same file.
    let (running, _) = Running::start(&["--kubeconfig", name]);
    assert_eq!(kubeconfig(&file)["contexts"].as_array().map(Vec::len), Some(1));
    assert_eq!(running.signal("-INT").code(), Some(0));
    let (running, ready) = Running::start(&[]);
    assert!(ready.starts_with("ready http://127.0.0.1:"), "{ready}");
    assert_eq!(running.signal("-INT").code(), Some(0));
}
