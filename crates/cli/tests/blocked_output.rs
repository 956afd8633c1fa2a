//! Signals while the output of the program is blocked: nothing reads the pipe.
#![cfg(unix)]

mod common;

use std::{process::Stdio, time::Duration};

use common::Cluster;
use tokio::{
    io::{AsyncReadExt as _, BufReader},
    process::{Child, Command},
    time::timeout,
};

/// The maximum time of a step. A slow machine must not fail a test.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// The lines of these objects need much more space than a pipe has.
const OBJECTS: usize = 500;

/// Starts `watch` with more output than a pipe accepts, and waits until the program writes.
async fn blocked(cluster: &Cluster) -> Child {
    for number in 0..OBJECTS {
        cluster.create_map(&format!("{number}-{}", "x".repeat(240)), "1");
    }
    let mut command = cluster.command(&["watch", "configmaps", "-o", "jsonl", "--initial"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut program = command.spawn().unwrap();
    // The output is the only one that blocks: after its first byte, the program writes all lines.
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
    BufReader::new(program.stderr.take().unwrap()).read_to_string(&mut text).await.unwrap();
    assert!(text.ends_with("error: the program did not stop in time; is its output blocked?\n"), "{text}");
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
