//! Runs kube-controller-manager and helm, unmodified, on the embedded and the real server. After each
//! step, the objects of both servers must become equal.

mod cluster;
mod helm;
mod kubelet;
mod normal;
mod objects;
mod step;
mod workloads;

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::time::timeout;

use crate::cluster::Cluster;
use crate::step::Step;

/// The deadline of a step. Steps take at most some seconds.
const DEADLINE: Duration = Duration::from_secs(90);

/// The deadline for the last writes of controllers after a step.
const AGREEMENT: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_and_helm_have_equal_results_on_both_servers() -> Result<()> {
    let Some(helm) = helm::program().await? else { return Ok(()) };
    let Some(embedded) = Cluster::embedded().await? else { return Ok(()) };
    let real = Cluster::real().await?;
    let scenario = async {
        let mut differences = Vec::new();
        for (namespace, steps) in [("workloads", workloads::steps()), ("helm", helm::steps(&helm))] {
            for step in steps {
                let run = run(namespace, &step, &embedded, real.as_ref()).await;
                differences.extend(run.with_context(|| format!("{namespace}: {}", step.name))?);
            }
        }
        ensure!(differences.is_empty(), "the results differ after these steps: {differences:?}");
        Ok(())
    };
    // The kubelet and the observer of a cluster never end without an error.
    let background = async {
        match &real {
            Some(real) => tokio::try_join!(embedded.run(), real.run()).map(|_| ()),
            None => embedded.run().await.map(|_| ()),
        }
    };
    let result = tokio::select! {
        result = scenario => result,
        result = background => result.context("the kubelet or the observer"),
    };
    for cluster in std::iter::once(embedded).chain(real) {
        cluster.stop().await?;
    }
    result
}

/// Runs a step on both servers, and returns the difference of its results.
async fn run(
    namespace: &str,
    step: &Step,
    embedded: &Cluster,
    real: Option<&Cluster>,
) -> Result<Option<&'static str>> {
    let Some(real) = real else { return embedded.step(namespace, step).await.map(|_| None) };
    let (ours, theirs) = tokio::join!(embedded.step(namespace, step), real.step(namespace, step));
    // The real server first: a step that fails there is no step.
    let (theirs, ours) = (theirs?, ours?);
    let outputs = normal::difference(&ours, &theirs);
    let difference = outputs + &objects_differ(namespace, embedded, real).await?;
    if difference.is_empty() {
        println!("ok {namespace}: {}", step.name);
        return Ok(None);
    }
    println!("DIFFERS {namespace}: {}\n{difference}", step.name);
    Ok(Some(step.name))
}

/// Waits until the objects of both servers are equal, because controllers may still write after a step
/// is done. Returns the remaining difference.
async fn objects_differ(namespace: &str, embedded: &Cluster, real: &Cluster) -> Result<String> {
    let (mut left, mut right) = (embedded.objects(), real.objects());
    let mut last = String::new();
    let equal = async {
        loop {
            let ours = normal::lines(&left.borrow_and_update(), namespace);
            let theirs = normal::lines(&right.borrow_and_update(), namespace);
            last = normal::difference(&ours, &theirs);
            if last.is_empty() {
                return anyhow::Ok(());
            }
            tokio::select! {
                changed = left.changed() => changed?,
                changed = right.changed() => changed?,
            }
        }
    };
    match timeout(AGREEMENT, equal).await {
        Ok(done) => done.map(|()| String::new()),
        Err(_) => Ok(last),
    }
}
