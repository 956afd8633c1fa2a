//! The program `kube-testserver`: output, errors and exit codes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_kube-testserver");

/// A running program. On drop, the program is killed.
struct RunningProgram(Child);

impl RunningProgram {
    /// Starts the program. Returns the line that reports readiness.
    fn start(flags: &[&str]) -> (Self, String) {
        let mut child =
            Command::new(PROGRAM).args(flags).stdout(Stdio::piped()).spawn().expect("the program");
        let line = first_line(child.stdout.as_mut().expect("a pipe"));
        (Self(child), line)
    }

    /// Starts the program, and waits until it is ready. Returns the first line of standard error.
    fn start_logged(flags: &[&str]) -> (Self, String) {
        let mut command = Command::new(PROGRAM);
        let command = command.args(flags).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program");
        let line = first_line(child.stderr.as_mut().expect("a pipe"));
        first_line(child.stdout.as_mut().expect("a pipe"));
        (Self(child), line)
    }

    fn signal(mut self, signal: &str) -> ExitStatus {
        let sent = Command::new("kill").args([signal, &self.0.id().to_string()]).status().expect("kill");
        assert!(sent.success());
        self.0.wait().expect("an exit status")
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        // The program may have exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn first_line(pipe: impl Read) -> String {
    let mut line = String::new();
    BufReader::new(pipe).read_line(&mut line).expect("a line");
    line
}

/// Runs a program that fails to start. Returns its exit code and standard error.
fn failure(flags: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(PROGRAM).args(flags).output().expect("the program");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    (output.status.code(), String::from_utf8(output.stderr).expect("UTF-8"))
}

#[test]
fn invalid_flag_error_contains_flag_and_value() {
    for (flags, error) in [
        (
            &["--bookmark-period=nan"][..],
            "invalid value 'nan' for '--bookmark-period <SECONDS>': the duration must be greater than 0 and less than 2^64 seconds",
        ),
        (
            &["--bookmark-period=-1"],
            "invalid value '-1' for '--bookmark-period <SECONDS>': the duration must be greater than 0 and less than 2^64 seconds",
        ),
        (
            &["--expire-after", "1e300"],
            "invalid value '1e300' for '--expire-after <SECONDS>': the duration must be greater than 0 and less than 2^64 seconds",
        ),
        (
            &["--expire-after", "soon"],
            "invalid value 'soon' for '--expire-after <SECONDS>': expected a number of seconds",
        ),
        (&["--http", "--port", "99999"], "invalid value '99999' for '--port <PORT>'"),
        (&["--http", "--controllers", "job"], "invalid value 'job' for '--controllers [<NAMES>]'"),
        (&["--http", "--users"], "--users"),
        (&["--http", "--tls"], "--tls"),
        (&[], "--kubeconfig"),
        (&["--address", "localhost"], "invalid value 'localhost' for '--address <ADDRESS>'"),
    ] {
        let (code, text) = failure(flags);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(error) && text.lines().count() == 1, "{text}");
    }
}

#[test]
fn startup_error_contains_path_or_address_and_cause() {
    let directory = tempfile::tempdir().expect("a directory");
    for file in [directory.path().join("no/such"), directory.path().to_owned()] {
        let file = file.to_str().expect("UTF-8");
        let (code, text) = failure(&["--kubeconfig", file]);
        assert_eq!(code, Some(1));
        assert!(text.starts_with(&format!("error: failed to write the kubeconfig {file}: ")), "{text}");
        assert!(text.ends_with("; choose another file with --kubeconfig\n"), "{text}");
    }
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let addr = taken.local_addr().expect("an address");
    let (code, text) = failure(&["--http", "--port", &addr.port().to_string()]);
    assert_eq!(code, Some(1));
    assert!(text.starts_with(&format!("error: failed to listen on {addr}: ")), "{text}");
    assert!(
        text.ends_with("; choose another --address, another --port, or a free port with --port 0\n"),
        "{text}"
    );
}

fn kubeconfig(file: &Path) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(file).expect("a kubeconfig")).expect("JSON")
}

#[test]
fn program_starts_with_all_flags_and_stops_on_signals() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("kubeconfig");
    let name = file.to_str().expect("UTF-8");
    let all = ["--tls", "--users", "--controllers", "--kubeconfig", name];
    let times = ["--bookmark-period", "1", "--expire-after", "1e19"];
    let (running, ready) = RunningProgram::start(&[&all[..], &times[..]].concat());
    assert_eq!(ready, format!("ready {name}\n"));
    let mode = std::fs::metadata(&file).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "the file contains tokens");
    let config = kubeconfig(&file);
    assert_eq!(config["contexts"][1]["name"], "nobody");
    let server = config["clusters"][0]["cluster"]["server"].as_str().expect("a URL");
    assert!(server.starts_with("https://127.0.0.1:"));
    assert_eq!(running.signal("-TERM").code(), Some(0));
    // A server without users replaces the file.
    let (running, _) = RunningProgram::start(&["--kubeconfig", name]);
    assert_eq!(kubeconfig(&file)["contexts"].as_array().map(Vec::len), Some(1));
    assert_eq!(running.signal("-INT").code(), Some(0));
    for (flags, url) in
        [(&["--http"][..], "http://127.0.0.1:"), (&["--http", "--address", "0.0.0.0"], "http://0.0.0.0:")]
    {
        let (running, ready) = RunningProgram::start(flags);
        assert!(ready.starts_with(&format!("ready {url}")), "{ready}");
        assert_eq!(running.signal("-INT").code(), Some(0));
    }
}

#[test]
fn loaded_pod_runs_with_kubelet() {
    let directory = tempfile::tempdir().expect("a directory");
    let (first, second) = (directory.path().join("namespace.yaml"), directory.path().join("pod.json"));
    std::fs::write(&first, "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}").expect("a file");
    let pod = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"containers": [{"name": "main", "image": "nginx:1"}]}}"#;
    std::fs::write(&second, pod).expect("a file");
    let (first, second) = (first.to_str().expect("UTF-8"), second.to_str().expect("UTF-8"));
    let flags = ["--http", "--controllers=kubelet", "--load", first, "--load", second];
    let (running, ready) = RunningProgram::start(&flags);
    let addr = ready.trim_end().rsplit('/').next().expect("an address");
    let mut stream = TcpStream::connect(addr).expect("a connection");
    let request = format!("GET /api/v1/namespaces/shop/pods?watch=1 HTTP/1.1\r\nhost: {addr}\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("a request");
    let lines = BufReader::new(stream).lines().map(|line| line.expect("a line"));
    let mut states = lines.filter(|line| line.contains("\"name\":\"web\""));
    assert!(states.any(|line| line.contains("\"phase\":\"Running\"")));
    assert_eq!(running.signal("-TERM").code(), Some(0));

    let folder = directory.path().join("absent");
    let (code, text) = failure(&["--http", "--load", folder.to_str().expect("UTF-8")]);
    assert_eq!(code, Some(1));
    assert!(text.starts_with(&format!("error: failed to load objects: cannot read {}: ", folder.display())));
    std::fs::write(second, r#"{"apiVersion": "v1", "kind": "Pad", "metadata": {"name": "web"}}"#)
        .expect("a file");
    let (_, text) = failure(&["--http", "--load", second]);
    assert!(text.contains("pod.json: document 1: ") && text.contains("; choose another file"), "{text}");
}

#[test]
fn lenient_program_logs_unsupported_feature() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("service.yaml");
    let service = "{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1.shop.example.com}, \
                   spec: {group: shop.example.com, version: v1, groupPriorityMinimum: 1, versionPriority: 1, \
                   insecureSkipTLSVerify: true, service: {name: shop, namespace: shop}}}";
    std::fs::write(&file, service).expect("a file");
    let flags = ["--http", "--load", file.to_str().expect("UTF-8")];
    let (code, text) = failure(&flags);
    assert_eq!(code, Some(1));
    assert!(text.contains("kube-testserver does not implement API aggregation"), "{text}");

    let (running, text) = RunningProgram::start_logged(&[&flags[..], &["--lenient"]].concat());
    assert!(text.contains("WARN") && text.contains("API aggregation"), "{text}");
    assert_eq!(running.signal("-TERM").code(), Some(0));
}
