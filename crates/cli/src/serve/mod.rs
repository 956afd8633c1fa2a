//! `serve`: a server on loopback with the objects and the events of a recording.

mod timeline;

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use clap::Args;
use kube_operator::recorded_bodies;
use kube_testserver::{Server, write_kubeconfig};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    time::sleep,
};

use crate::{
    error::CliError,
    exit::ExitStatus,
    interrupt::interrupted,
    output::{counted, note, print_text},
    runtime::block_on,
};
use timeline::{Action, Timeline};

/// The options of `serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeFlags {
    /// The recording, which `record` has written.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write a kubeconfig for the server to this file. The command replaces only an earlier kubeconfig of a
    /// test server.
    #[arg(long, value_name = "FILE")]
    write_kubeconfig: Option<PathBuf>,
    /// Listen on this port of 127.0.0.1. The default is a free port.
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    port: u16,
    /// Send the events faster or slower than recorded: 2 halves the delays.
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR", value_parser = speed, conflicts_with = "hold")]
    speed: f64,
    /// Send the next event when a line arrives on standard input, instead of at its recorded time.
    #[arg(long)]
    hold: bool,
    /// Exit after the last event. Otherwise, the server runs until Ctrl-C.
    #[arg(long)]
    exit: bool,
}

fn speed(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor: &f64| factor.is_finite() && *factor > 0.0);
    factor.ok_or_else(|| "use a positive number".to_owned())
}

/// Serves a recording until the user presses Ctrl-C.
///
/// # Errors
///
/// Fails if the file cannot be read, contains no list, or if the port is in use.
pub(crate) fn serve(flags: &ServeFlags) -> Result<ExitStatus, CliError> {
    let recorded = recorded_bodies(&flags.file).map_err(|error| CliError::Command(Box::new(error)))?;
    let timeline = Timeline::new(&recorded.bodies);
    let is_complete = recorded.is_complete;
    drop(recorded);
    if timeline.actions.is_empty() {
        return Err(CliError::Usage(format!("{} contains no list of objects", flags.file.display())));
    }
    if !is_complete {
        note(&format!("the end of {} is missing; serving the events that it contains", flags.file.display()));
    }
    block_on(async {
        tokio::select! {
            result = run(flags, timeline) => result,
            () = interrupted() => Ok(ExitStatus::Interrupted),
        }
    })
}

async fn run(flags: &ServeFlags, timeline: Timeline) -> Result<ExitStatus, CliError> {
    // The recording can lack the owners of its objects, and the garbage collector would delete them.
    let server = Server::builder().garbage_collector(false).build();
    for crd in &timeline.crds {
        server.create(crd).map_err(|status| CliError::Command(Box::new(status)))?;
    }
    let mut actions = timeline.actions.into_iter().peekable();
    let (mut objects, mut skipped) = (0, 0);
    while let Some(action) = actions.next_if(|action| action.is_initial) {
        objects += 1;
        skipped += usize::from(!apply(&server, &action));
    }
    // kubectl sends the token of a kubeconfig only over HTTPS.
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, flags.port));
    let listening = server.listen_tls(address).await.map_err(|error| {
        CliError::Command(format!("failed to listen on {address}; use another --port: {error}").into())
    })?;
    if let Some(path) = &flags.write_kubeconfig {
        write_kubeconfig(path, &listening.kubeconfig()).map_err(|source| CliError::File {
            operation: "write",
            file: path.clone(),
            source,
        })?;
    }
    let events = actions.len();
    print_text(&format!(
        "serving {} and {} at {}\n",
        counted(objects - skipped, "object"),
        counted(events, "event"),
        listening.url()
    ))?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut previous: Option<Duration> = None;
    for action in actions {
        if flags.hold {
            // At the end of standard input, the remaining events have no delay.
            let _ = lines.next_line().await;
        } else {
            let delay = action.at.saturating_sub(previous.unwrap_or(action.at));
            sleep(scaled(delay, flags.speed)).await;
        }
        previous = Some(action.at);
        skipped += usize::from(!apply(&server, &action));
    }
    let problem = if skipped > 0 {
        format!("; skipped {skipped} objects or events that this server does not support")
    } else {
        String::new()
    };
    print_text(&format!("all events were sent{problem}\n"))?;
    if !flags.exit {
        std::future::pending::<()>().await;
    }
    listening.shutdown().await;
    Ok(ExitStatus::Success)
}

/// The maximum delay before an event. A very low `--speed` must not overflow the clock.
const MAX_DELAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns the delay at this speed.
fn scaled(delay: Duration, speed: f64) -> Duration {
    let seconds = delay.as_secs_f64() / speed;
    Duration::try_from_secs_f64(seconds).map_or(MAX_DELAY, |delay| delay.min(MAX_DELAY))
}

/// Changes an object of the server. Returns false if the server does not know the kind.
fn apply(server: &Server, action: &Action) -> bool {
    if action.is_removal {
        server.remove_recorded(&action.object).is_ok()
    } else {
        server.store_recorded(&action.object).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_at_any_speed_is_limited() {
        let second = Duration::from_secs(1);
        assert_eq!(scaled(second, 2.0), Duration::from_millis(500));
        assert_eq!(scaled(second, 1e-300), MAX_DELAY);
        assert_eq!(scaled(Duration::MAX, f64::MIN_POSITIVE), MAX_DELAY);
        assert_eq!(scaled(second, f64::MAX), Duration::ZERO);
    }
}
