//! Signals while the output of the program is blocked: nothing reads the pipe.
#![cfg(unix)]

mod common;

use std::{process::Stdio, time::Duration};

use common::Cluster;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader},
    process::{Child, Command},
    time::timeout,
};

/// The maximum time of a step. A slow machine must not fail a test.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// The line of a change with such a value does not fit in a pipe.
const VALUE_BYTES: usize = 300_000;

/// Starts `watch`, and waits until the program writes a line that blocks it.
async fn blocked(cluster: &Cluster) -> Child {
    cluster.create_map("a", "1");
    let mut command = cluster.command(&["watch", "configmaps", "-o", "jsonl"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut program = command.spawn().unwrap();
    let mut notes = BufReader::new(program.stderr.as_mut().unwrap());
    let mut note = String::new();
    timeout(MAX_WAIT, notes.read_line(&mut note)).await.expect("a line on standard error").unwrap();
    assert_eq!(note, "watching 1 object of configmaps\n");
    cluster.apply_map("a", &"x".repeat(VALUE_BYTES), "helm");
    // After the first byte of the line, the program is in a write that cannot complete.
    let first = timeout(MAX_WAIT, program.stdout.as_mut().unwrap().read_u8()).await;
    assert_eq!(first.expect("the program prints").unwrap(), b'{');
    program
}

async fn signal(program: &Child, signal: &str) {
    let id = program.id().expect("the program runs").to_string();
    assert!(Command::new("kill").args([signal, &id]).status().await.unwrap().success());
}

/// Waits until the program exits, without reading standard output. Checks the exit code and the message.
async fn check_exit(program: &mut Child) {
    let status = timeout(MAX_WAIT, program.wait()).await.expect("the program exits").unwrap();
    assert_eq!(status.code(), Some(130));
    let mut text = String::new();
    program.stderr.take().unwrap().read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "error: the program did not stop in time; is its output blocked?\n");
}

#[tokio::test]
async fn program_with_blocked_output_exits_after_sigterm() {
    let cluster = Cluster::start().await;
    let mut program = blocked(&cluster).await;
    signal(&program, "-TERM").await;
    check_exit(&mut program).await;
}

#[tokio::test]
async fn program_with_blocked_output_exits_after_second_interrupt() {
    let cluster = Cluster::start().await;
    let mut program = blocked(&cluster).await;
    signal(&program, "-INT").await;
    signal(&program, "-INT").await;
    check_exit(&mut program).await;
}
