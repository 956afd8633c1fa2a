//! One measurement of one part with one program.

use std::path::{Path, PathBuf};

use anyhow::Result;
use tokio::time::sleep;

use super::contenders::{Contender, Contenders};
use super::reconcile::Figures;
use super::server::ServerReady;
use super::{OverheadPart, OverheadSettings};
use crate::process::{Process, REST_INTERVAL};
use crate::stage::StageTimer;

const MB: f64 = 1e6;

pub(super) async fn run(
    settings: &OverheadSettings,
    contenders: &Contenders,
    contender: &Contender,
    part: OverheadPart,
    logs: &Path,
) -> Result<Figures> {
    let Some(server) = contenders.server(settings, part) else {
        let (process, figures) = start(settings, contenders, contender, part, None, logs).await?;
        process.stop().await?;
        return Ok(figures);
    };
    let mut server = Process::spawn("overhead-server", server, logs)?;
    let ServerReady { kubeconfig } = server.receive().await?;
    let begun = StageTimer::from_start();
    let (mut process, mut figures) =
        start(settings, contenders, contender, part, Some(kubeconfig), logs).await?;
    let wall = begun.wall();
    // Some libraries report a sync before they open the watches.
    process.rest(REST_INTERVAL).await?;
    let (cpu, memory) = (process.cpu()?.as_secs_f64(), process.memory()?.resident as f64);
    let sockets = process.sockets()? as f64;
    process.send(&"tasks").await?;
    let (name, tasks) = (part.name(), process.receive().await?);
    for (figure, value) in [
        ("wall_s", wall),
        ("cpu_s", cpu),
        ("rss_mb", memory / MB),
        ("connections", sockets),
        ("tasks", tasks),
    ] {
        figures.insert(format!("{name}_{figure}"), value);
    }
    if part == OverheadPart::Namespaces {
        figures.insert("namespace_bytes".into(), memory / settings.load.namespaces as f64);
        let before = process.cpu()?;
        sleep(settings.idle).await;
        let idle = (process.cpu()? - before).as_secs_f64() / settings.idle.as_secs_f64();
        figures.insert("namespaces_idle_ms_per_s".into(), idle * 1e3);
    }
    process.stop().await?;
    server.stop().await?;
    Ok(figures)
}

/// Starts a program, and waits for its figures.
async fn start(
    settings: &OverheadSettings,
    contenders: &Contenders,
    contender: &Contender,
    part: OverheadPart,
    kubeconfig: Option<PathBuf>,
    logs: &Path,
) -> Result<(Process, Figures)> {
    let command = contenders.command(contender, part, &settings.load, kubeconfig.as_deref())?;
    let mut process = Process::spawn(&format!("overhead of {}", contender.name), command, logs)?;
    let figures = process.receive().await?;
    Ok((process, figures))
}
