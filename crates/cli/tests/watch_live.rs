//! `watch --live` in a pseudo terminal.
#![cfg(unix)]

mod common;
#[path = "common/pty.rs"]
mod pty;

use common::{Cluster, run};
use kube_testserver::Outage;
use pty::Terminal;
use tokio::process::Command;

fn live(cluster: &Cluster, arguments: &[&str], width: u16, height: u16) -> Terminal {
    let mut command = cluster.command(&["watch", "--live"]);
    command.args(arguments);
    Terminal::spawn(command, width, height)
}

fn line_of<'a>(text: &'a str, object: &str) -> &'a str {
    text.lines().find(|line| line.contains(object)).unwrap_or_default()
}

#[tokio::test]
async fn table_is_updated_in_place_until_interrupt() {
    let cluster = Cluster::start().await;
    cluster.apply_map("a", "old", "helm");
    cluster.create_map("b", "1");
    let mut terminal = live(&cluster, &["cm"], 100, 12);
    terminal.wait_for("objects of the list", |text| text.contains("synced   2 objects")).await;
    cluster.apply_map("a", "new", "argocd");
    let text = terminal.wait_for("update", |text| text.contains("UPDATED")).await;
    assert!(line_of(&text, "default/a").contains("1        argocd: data.key: old → new"), "{text}");
    cluster.apply_map("a", "newer", "argocd");
    let text = terminal.wait_for("second update", |text| text.contains("newer")).await;
    assert!(line_of(&text, "default/a").contains("2        argocd: data.key: new → newer"), "{text}");
    assert_eq!(text.matches("default/a").count(), 1, "{text}");
    cluster.delete_map("b");
    let text = terminal.wait_for("deletion", |text| text.contains("DELETED")).await;
    assert!(text.contains("1 object   0 added, 2 updated, 1 deleted"), "{text}");
    terminal.signal("INT").await;
    let exited = terminal.end().await;
    assert_eq!(exited.code, Some(130));
    assert!(exited.is_restored, "{}", exited.text);
    assert_eq!(exited.text, "watched 1 object: 0 added, 2 updated, 1 deleted");
}

#[tokio::test]
async fn each_exit_restores_the_terminal() {
    let cluster = Cluster::start().await;
    cluster.create_map("a", "1");
    for (keys, signal, arguments, expected) in [
        (&b"q"[..], None, &["cm"][..], 130),
        (b"\x03", None, &["cm"], 130),
        (b"", Some("TERM"), &["cm"], 130),
        (b"", Some("HUP"), &["cm"], 130),
        (b"", None, &["cm", "--until", "data.key=2", "--timeout", "2s"], 4),
    ] {
        let mut terminal = live(&cluster, arguments, 80, 10);
        terminal.wait_for("table", |text| text.contains("default/a")).await;
        terminal.press(keys);
        if let Some(signal) = signal {
            terminal.signal(signal).await;
        }
        let exited = terminal.end().await;
        assert_eq!(exited.code, Some(expected), "{keys:?} {signal:?}");
        assert!(exited.is_restored, "{keys:?} {signal:?}: {}", exited.text);
    }
}

#[tokio::test]
async fn suspended_program_restores_the_terminal_and_continues() {
    let cluster = Cluster::start().await;
    cluster.create_map("a", "1");
    let mut terminal = live(&cluster, &["cm"], 80, 10);
    terminal.wait_for("table", |text| text.contains("default/a")).await;
    for (name, is_key) in [("b", true), ("c", false)] {
        if is_key {
            terminal.press(b"\x1a");
        } else {
            terminal.signal("TSTP").await;
        }
        assert!(terminal.stop().await, "{}", terminal.text());
        cluster.create_map(name, "1");
        terminal.signal("CONT").await;
        let object = format!("default/{name}");
        terminal.wait_for("new object", |text| text.contains(&object) && text.contains("default/a")).await;
    }
    terminal.press(b"q");
    assert!(terminal.end().await.is_restored);
}

#[tokio::test]
async fn screen_follows_the_size_and_the_keys() {
    let cluster = Cluster::start().await;
    for number in 0..30 {
        cluster.create_map(&format!("map-{number:02}"), "1");
    }
    let mut terminal = live(&cluster, &["cm"], 80, 15);
    terminal.wait_for("hidden rows", |text| text.contains("hidden: 0 rows above, 20 below")).await;
    terminal.press(b"\x1b[B\x1b[B");
    let text = terminal.wait_for("scrolled rows", |text| text.contains("2 rows above, 18 below")).await;
    assert!(!text.contains("map-01") && text.contains("map-02"), "{text}");
    terminal.resize(40, 25).await;
    let text = terminal.wait_for("larger screen", |text| text.contains("2 rows above, 8 below")).await;
    assert_eq!(text.lines().count(), 25, "{text}");
    terminal.resize(40, 4).await;
    terminal.wait_for("low screen", |text| text.starts_with("synced")).await;
    terminal.press(b"q");
    assert!(terminal.end().await.is_restored);
}

#[tokio::test]
async fn outage_is_displayed_until_it_ends() {
    let cluster = Cluster::start().await;
    cluster.create_map("a", "1");
    let mut terminal = live(&cluster, &["cm"], 100, 10);
    terminal.wait_for("table", |text| text.contains("synced   1 object ")).await;
    let outage = cluster.server.outage(Outage::Refused);
    terminal.wait_for("outage", |text| text.contains("reconnecting for")).await;
    cluster.delete_map("a");
    drop(outage);
    let text = terminal.wait_for("end of the outage", |text| text.contains("DELETED")).await;
    assert!(text.contains("0 objects   0 added, 0 updated, 1 deleted"), "{text}");
    terminal.wait_for("state", |text| text.contains("synced")).await;
    terminal.press(b"q");
    terminal.end().await;
}

#[tokio::test]
async fn hostile_values_do_not_control_the_terminal() {
    let cluster = Cluster::start().await;
    cluster.apply_map("a", "1", "helm");
    let mut terminal = live(&cluster, &["cm"], 100, 10);
    terminal.wait_for("table", |text| text.contains("default/a")).await;
    cluster.apply_map("a", "\u{1b}[?1049l\u{1b}[2J\u{7}\u{9b}0m\r\nEVIL", "helm");
    let text = terminal.wait_for("update", |text| text.contains("EVIL")).await;
    assert!(text.starts_with("kubectl informer watch: configmaps in namespace default"), "{text}");
    assert!(line_of(&text, "default/a").ends_with("0mEVIL"), "{text}");
    terminal.press(b"q");
    assert!(terminal.end().await.is_restored);
}

#[tokio::test]
async fn changes_since_a_file_are_in_the_table() {
    let cluster = Cluster::start().await;
    cluster.apply_map("changed", "old", "helm");
    cluster.create_map("deleted", "1");
    cluster.create_map("same", "1");
    let file = cluster.path("state");
    let file = file.to_str().unwrap();
    assert_eq!(cluster.run(&["watch", "cm", "--once", "--checkpoint", file]).await.0, 0);
    cluster.apply_map("changed", "new", "helm");
    cluster.delete_map("deleted");
    let mut terminal = live(&cluster, &["cm", "--since", file, "--checkpoint", file], 100, 12);
    let text = terminal.wait_for("list", |text| text.contains("synced   2 objects")).await;
    assert!(line_of(&text, "default/changed").contains("before the start; helm: data.key: old → new"));
    assert!(line_of(&text, "default/deleted").contains("DELETED"));
    assert!(line_of(&text, "default/same").starts_with('-'));
    terminal.press(b"q");
    let exited = terminal.end().await;
    assert!(exited.text.contains("saved 2 objects to"), "{}", exited.text);
}

#[tokio::test]
async fn demo_has_a_live_table() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-informer"));
    command.args(["watch", "pods,leases", "-A", "--live", "--demo"]);
    let mut terminal = Terminal::spawn(command, 120, 20);
    let text = terminal.wait_for("updates", |text| text.matches("UPDATED").count() > 2).await;
    assert!(text.starts_with("kubectl informer watch: pods, leases.coordination.k8s.io, the demo server"));
    terminal.signal("INT").await;
    let exited = terminal.end().await;
    assert_eq!((exited.code, exited.is_restored), (Some(130), true));
}

#[tokio::test]
async fn output_without_terminal_is_rejected() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-informer"));
    command.args(["watch", "pods", "--live", "--kubeconfig", "/absent"]);
    let (code, out, error) = run(command).await;
    assert_eq!((code, out.as_str(), error.lines().count()), (2, "", 1), "{error}");
    assert!(error.contains("--live needs a terminal"), "{error}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-informer"));
    command.args(["watch", "pods", "--live", "-o", "jsonl"]);
    assert_eq!(run(command).await.0, 2);
}

#[tokio::test]
async fn program_exits_if_terminal_is_closed() {
    let cluster = Cluster::start().await;
    cluster.create_map("a", "1");
    let mut terminal = live(&cluster, &["cm"], 80, 10);
    terminal.wait_for("table", |text| text.contains("default/a")).await;
    assert_eq!(terminal.hang_up().await, Some(0));
}
