//! The examples of each command, and the exit codes: the last part of the help and of the manual page.

use clap::Command;

/// The exit codes, for the help of the program.
const EXIT_CODES: &str = "\
Exit codes:
  0    The command has done its work.
  1    The command failed, for example because the server cannot be reached.
  2    The command line is invalid.
  3    `check` has found a problem.
  4    The --timeout of `watch` expired.
  130  The user pressed Ctrl-C.";

/// The name and the examples of each command.
const EXAMPLES: [(&str, &str); 6] = [
    (
        "cost",
        "\
Examples:
  # Measure the caches that an operator can have
  kubectl informer cost --of-workload deploy/operator -n shop
  # Measure the caches of two resources of the demo server
  kubectl informer cost pods,secrets --demo
  # Count the events of each field manager for a minute
  kubectl informer cost pods --duration 60s",
    ),
    (
        "watch",
        "\
Examples:
  # Print the changes of Pods and Deployments
  kubectl informer watch pods,deploy -n shop
  # Display a table during a rollout
  kubectl informer watch pods -n shop --live
  # Wait until all Pods with a label are ready
  kubectl informer watch pods -l app=web --until condition=Ready --timeout 5m",
    ),
    (
        "check",
        "\
Examples:
  # Check the permissions of an operator for two resources
  kubectl informer check pods secrets --service-account shop/operator",
    ),
    (
        "why",
        "\
Examples:
  # Print the queues and the failed keys of an operator
  kubectl informer why --deploy operator -n shop
  # Explain one key of the controller websites
  kubectl informer why --deploy operator -n shop websites shop/home",
    ),
    (
        "record",
        "\
Examples:
  # Record ten minutes of a namespace
  kubectl informer record pods,deploy -n shop -o shop.recording --duration 10m",
    ),
    (
        "serve",
        "\
Examples:
  # Serve a recording, and connect with kubectl
  kubectl informer serve shop.recording --write-kubeconfig kubeconfig
  kubectl --kubeconfig kubeconfig get pods -A --watch",
    ),
];

/// Adds the exit codes and the examples to the help.
pub(crate) fn with_examples(command: Command) -> Command {
    command.after_help(EXIT_CODES).mut_subcommands(|subcommand| {
        let examples = EXAMPLES.iter().find(|(name, _)| *name == subcommand.get_name());
        match examples {
            Some((_, examples)) => subcommand.after_help(*examples),
            None => subcommand,
        }
    })
}

/// Returns the command lines of all examples that start this program.
#[cfg(test)]
pub(crate) fn example_lines() -> impl Iterator<Item = &'static str> {
    let lines = EXAMPLES.into_iter().flat_map(|(_, examples)| examples.lines());
    lines.map(str::trim).filter(|line| line.starts_with("kubectl informer "))
}
