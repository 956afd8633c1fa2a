//! Operators with an unknown fault. A reader receives the log and the pages of each operator, and finds the
//! cause.
//!
//! - `plan`: the faults, and their order.
//! - `operator` and `names`: the operator, and the name service that it calls.
//! - `cluster`, `account` and `admission`: the API server of a case.
//! - `others`: the other clients of the cluster.
//! - `process` and `capture`: the process of the operator, its log and its pages.

mod account;
mod admission;
mod capture;
mod cluster;
mod names;
mod operator;
mod others;
mod plan;
mod process;

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use kube_operator::shutdown_signal;
use tokio::time::{Instant, timeout};

use self::{cluster::Cluster, names::NameService, operator::OperatorSettings, process::OperatorProcess};

pub use capture::files;
pub use operator::run_operator;
pub use plan::{CASES, ConflictSource, Fault, Hang, LeaseLoss, plan};

/// The namespace of all objects.
const NAMESPACE: &str = "shop";
/// The Website whose reconciles fail in the cases with a fault of one object.
const HOME: &str = "shop/home";
/// The name of the webhook.
pub const WEBHOOK: &str = "images.policy.example.com";
/// The message of the webhook.
pub const WEBHOOK_MESSAGE: &str = "the image web:1 has no digest";
/// The identity of the process that takes the Lease.
pub const OTHER_IDENTITY: &str = "web-operator-57c8d9f4d6-7xw9m_90f1c2a4b86d35e7";

/// `/healthz` fails one minute after the timeout of a reconcile that blocks its thread.
const BLOCKED_TIME: Duration = Duration::from_secs(72);
/// The time limit of a case besides its observation.
const SETUP_LIMIT: Duration = Duration::from_secs(180);

/// The API server of the cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerKind {
    /// An embedded kube-testserver. It responds like a server with the webhook.
    Embedded,
    /// A real kube-apiserver.
    Real,
}

/// Configures the program.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The seed of the faults and their order.
    pub seed: u64,
    /// The folder for the cases.
    pub out: PathBuf,
    /// The file for the solutions.
    pub answers: PathBuf,
    /// The time for which each operator runs.
    pub time: Duration,
    /// The API server of the cases.
    pub server: ServerKind,
    /// The numbers of the cases to run. All cases run if it is empty.
    pub cases: Vec<usize>,
    /// The program that runs the operator with the option `--operator`.
    pub program: PathBuf,
}

/// Runs an operator for each case, and writes the cases and the solutions. Calls `print` for each case.
///
/// # Errors
///
/// Fails if a folder cannot be written, if a server or an operator cannot be started, after a signal, and if
/// a case takes too long.
///
/// # Cancel safety
///
/// If the future is dropped, all processes are killed.
pub async fn run(settings: &Settings, print: impl Fn(&str)) -> Result<()> {
    let faults = plan(settings.seed);
    prepare(settings, &faults)?;
    // A real server needs much memory and CPU time.
    let parallel = if settings.server == ServerKind::Real { 1 } else { CASES };
    let is_selected = |case| settings.cases.is_empty() || settings.cases.contains(&case);
    let cases = (1..=CASES).zip(faults).filter(|&(case, _)| is_selected(case));
    let runs = stream::iter(cases)
        .map(|(case, fault)| run_case(settings, case, fault))
        .buffer_unordered(parallel)
        .try_for_each(async |case| {
            print(&format!("case-{case} is complete"));
            Ok(())
        });
    tokio::select! {
        result = runs => result,
        () = shutdown_signal() => bail!("interrupted by a signal"),
    }
}

/// Creates the folder for the cases, and writes the solutions.
fn prepare(settings: &Settings, faults: &[Fault]) -> Result<()> {
    let Settings { out, answers, seed, .. } = settings;
    if out.exists() {
        let is_empty =
            fs::read_dir(out).with_context(|| format!("cannot read {}", out.display()))?.next().is_none();
        ensure!(is_empty, "{} is not empty; use a new folder", out.display());
    }
    fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    let parent = answers.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let parent = fs::canonicalize(parent).with_context(|| format!("cannot find {}", parent.display()))?;
    let is_inside = parent.starts_with(fs::canonicalize(out)?);
    ensure!(!is_inside, "{} is in the folder of the cases; use another folder", answers.display());
    let mut text = format!("seed {seed}\n");
    for (index, fault) in faults.iter().enumerate() {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "case-{}: {}", index + 1, fault.answer());
    }
    fs::write(answers, text).with_context(|| format!("cannot write {}", answers.display()))
}

/// Runs a case, and returns its number.
async fn run_case(settings: &Settings, case: usize, fault: Fault) -> Result<usize> {
    let folder = settings.out.join(format!("case-{case}"));
    fs::create_dir(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let time = match fault {
        Fault::HungReconcile(Hang::Thread) => settings.time.max(BLOCKED_TIME),
        _ => settings.time,
    };
    let limit = time.saturating_add(SETUP_LIMIT);
    let running = async {
        let mut cluster = Cluster::start(settings.server, fault).await?;
        let result = observe(settings, fault, time, &mut cluster, &folder).await;
        let stopped = cluster.stop().await;
        result.and(stopped)
    };
    let result = timeout(limit, running).await.with_context(|| format!("timed out after {limit:?}"));
    result.flatten().with_context(|| format!("case {case} failed"))?;
    Ok(case)
}

/// Runs the operator and the other clients, and captures the log and the pages.
async fn observe(
    settings: &Settings,
    fault: Fault,
    time: Duration,
    cluster: &mut Cluster,
    folder: &Path,
) -> Result<()> {
    let names = NameService::bind(matches!(fault, Fault::HungReconcile(_))).await?;
    let options = OperatorSettings {
        names: names.address,
        blocks: fault == Fault::HungReconcile(Hang::Thread),
        force: fault != Fault::ConflictStorm(ConflictSource::FieldManager),
        cache_sync_timeout: settings.time / 2,
    };
    let log = cluster.log();
    let mut operator = OperatorProcess::new(&settings.program, &options, cluster.kubeconfig(), log.clone())?;
    let started = operator.started();
    let captured = tokio::select! {
        captured = capture::capture(folder, &log, Instant::now() + time, started) => captured,
        failed = operator.keep_running() => match failed? {},
        failed = names.serve() => match failed? {},
        failed = others::act(cluster, fault) => match failed.context("a client of the cluster failed")? {},
    };
    operator.kill().await?;
    captured
}
