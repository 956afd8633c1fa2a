//! The first advice of `kubectl informer cost` at least halves the memory of an operator on client-go. The
//! command `kube-bench follow-advice` does the same with more Pods.

use anyhow::Result;
use clap::Parser as _;
use kube_bench::Command;

/// The memory of the Pods is larger than the memory of a process without objects.
const PODS: &str = "1500";

#[test]
fn first_advice_halves_the_memory_of_an_operator() -> Result<()> {
    if std::process::Command::new("go").arg("version").output().is_err() {
        eprintln!("skipped: go is not on PATH");
        return Ok(());
    }
    let cost_program = env!("CARGO_BIN_EXE_kubectl_plugin");
    let command = ["kube-bench", "follow-advice", "--objects", PODS, "--cost-program", cost_program];
    let mut output = Vec::new();
    let result = kube_bench::run(Command::try_parse_from(command)?, &mut output);
    eprintln!("{}", String::from_utf8_lossy(&output));
    result
}
