//! Invalid command lines: the exit code is 2, and no server is necessary.

mod common;

use common::{Cluster, run};
use kube_testserver::{Fault, RequestMatch};
use tokio::process::Command;

#[tokio::test]
async fn invalid_selectors_are_rejected_before_the_connection() {
    let absent = ["--kubeconfig", "/absent/kubeconfig"];
    for command in
        [&["watch", "cm"][..], &["cost", "cm"], &["check", "cm"], &["record", "cm", "-o", "/absent/f"]]
    {
        for (flag, value) in
            [("-l", "a in b"), ("--selector", "a=b c"), ("--field-selector", "a"), ("-n", "Shop"), ("-n", "")]
        {
            let mut program = Command::new(env!("CARGO_BIN_EXE_kubectl-informer"));
            program.args(command).args([flag, value]).args(absent);
            let (code, out, error) = run(program).await;
            assert_eq!(
                (code, out.as_str(), error.lines().count()),
                (2, "", 1),
                "{command:?} {flag}: {error}"
            );
            assert!(error.contains("invalid value"), "{command:?} {flag}: {error}");
        }
    }
}

#[tokio::test]
async fn error_of_overloaded_server_has_its_status_code() {
    let cluster = Cluster::start().await;
    let fault = Fault::Raw { status: 503, content_type: "text/plain".to_owned(), body: "overloaded".into() };
    let _fault = cluster.server.faults().always(RequestMatch::any(), fault);
    for command in ["watch", "cost"] {
        let (code, _, error) = cluster.run(&[command, "cm"]).await;
        assert_eq!((code, error.lines().count()), (1, 1), "{command}: {error}");
        assert!(error.contains("503: overloaded"), "{command}: {error}");
    }
}

#[tokio::test]
async fn unusable_path_of_output_is_reported_before_the_work() {
    for arguments in [
        ["watch", "pods", "--demo", "--checkpoint", "/missing/state"],
        ["cost", "pods", "--demo", "--html", "/missing/report.html"],
        ["cost", "pods", "--demo", "--html", "/"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-informer"));
        command.args(arguments);
        let (code, out, error) = run(command).await;
        assert_eq!((code, &*out), (1, ""), "{error}");
        assert!(error.starts_with(&format!("error: failed to write {}: ", arguments[4])), "{error}");
    }
}

/// An empty variable of a script must not select the user of the kubeconfig.
#[tokio::test]
async fn empty_and_unknown_users_are_rejected() {
    let cluster = Cluster::start().await;
    for flag in ["--as", "--user", "--context", "--cluster"] {
        let (code, out, error) = cluster.run(&["check", "cm", flag, ""]).await;
        assert_eq!((code, &*out, error.lines().count()), (2, "", 1), "{error}");
        assert!(error.contains(flag) && error.contains("none was supplied"), "{error}");
    }
    let (code, _, error) = cluster.run(&["check", "cm", "--as", "bob", "--as-group", ""]).await;
    assert_eq!(code, 2, "{error}");
    let (code, _, error) = cluster.run(&["check", "cm", "--user", "unknown"]).await;
    assert_eq!(code, 2, "{error}");
    assert!(error.starts_with("error: the kubeconfig has no user \"unknown\""), "{error}");
}

#[tokio::test]
async fn missing_files_of_kubeconfig_variable_are_ignored() {
    let cluster = Cluster::start().await;
    let missing = cluster.path("missing");
    for (files, expected) in [(vec![missing.clone(), cluster.path("kubeconfig")], 0), (vec![missing], 1)] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_kubectl-informer"));
        program.args(["watch", "cm", "--once"]).env("KUBECONFIG", std::env::join_paths(files).unwrap());
        let (code, _, error) = run(program).await;
        assert_eq!(code, expected, "{error}");
    }
}
