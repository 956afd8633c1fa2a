//! Runs the same kubectl commands on both servers, and compares exit codes and output.
//!
//! The commands are in `tests/e2e/kubectl/topics`. Commands that require controllers on the real server
//! are in `tests/e2e/kubectl/with-controllers`. `KUBE_INFORMER_KUBECTL=read` runs only one topic.

use std::io::Write as _;

use anyhow::{Context as _, Result, ensure};
use kube_informer_e2e::embedded::EmbeddedProgram;
use kube_informer_e2e::real::{Options, RealServer, skip_or_fail};

mod compare;
mod differences;
mod mask;
mod side;
mod topic;

use compare::Verdict;
use side::Side;
use topic::Topic;

/// The variable that selects topics by a part of their name.
const CHOICE: &str = "KUBE_INFORMER_KUBECTL";

/// The topics that need TLS and users. All other topics use an embedded server without TLS.
const OVER_TLS: [&str; 3] = ["access", "custom", "discover"];

#[tokio::test]
async fn kubectl_has_same_results_on_both_servers() -> Result<()> {
    let (topics, with_controllers) = (topic::read("topics")?, topic::read("with-controllers")?);
    let commands = topics.iter().chain(&with_controllers).map(|topic| topic.commands.len()).sum();
    let Some(mut real) = RealServer::start_or_skip("kubectl", commands, Options::default()).await? else {
        return Ok(());
    };
    if !real.is_own() {
        // The controllers of an existing cluster change the objects of the commands.
        return skip_or_fail("kubectl, which requires a separate server", commands);
    }
    let plain = EmbeddedProgram::start(&[]).await?;
    let secure = EmbeddedProgram::start(&["--tls", "--users"]).await?;
    let collecting = EmbeddedProgram::start(&["--controllers=garbage-collector"]).await?;
    let real_side = Side::new(real.kubeconfig())?;
    let (plain, secure) = (Side::new(plain.kubeconfig())?, Side::new(secure.kubeconfig())?);
    let collecting = Side::new(collecting.kubeconfig())?;
    let choice = std::env::var(CHOICE).unwrap_or_default();
    let chosen = |topic: &&Topic| topic.name.contains(&choice);
    let mut failures = 0;
    for topic in topics.iter().filter(chosen) {
        let ours = if OVER_TLS.contains(&topic.name.as_str()) { &secure } else { &plain };
        failures += compared(topic, &real_side, ours).await?;
    }
    // The controllers start late, so that only the earlier commands have changed objects.
    real.start_controllers().await?;
    for topic in with_controllers.iter().filter(chosen) {
        failures += compared(topic, &real_side, &collecting).await?;
    }
    real.stop().await?;
    ensure!(failures == 0, "{failures} commands differ");
    Ok(())
}

/// Runs a topic on both servers in parallel and reports each command. Returns the number of failed
/// commands.
async fn compared(topic: &Topic, real: &Side, ours: &Side) -> Result<usize> {
    let (real, ours) = tokio::join!(real.run(topic), ours.run(topic));
    let (real, ours) = (real.context("kube-apiserver")?, ours.context("kube-testserver")?);
    let verdicts: Vec<Verdict> = topic
        .commands
        .iter()
        .zip(real.iter().zip(&ours))
        .map(|(command, (real, ours))| Verdict::of(command, real, ours))
        .collect();
    // Prints all lines with one call, so that lines of other tests do not occur between them.
    let report: String = topic
        .commands
        .iter()
        .zip(&verdicts)
        .map(|(command, verdict)| verdict.line(&topic.name, command))
        .collect();
    std::io::stderr().write_all(report.as_bytes())?;
    Ok(verdicts.iter().filter(|verdict| verdict.is_failure()).count())
}
