//! Replicas of the example `operator` on a real kube-apiserver. After each failure of the leader, the
//! second replica takes over in time, and two replicas never write concurrently. A client creates,
//! changes, deletes and modifies sites all the time. The audit log of the server contains the writer of
//! each object.

mod audit;
mod replica;
mod sites;

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use kube_client::{Api, Client};
use kube_informer_e2e::example::example;
use kube_informer_e2e::real::{RealServer, Source, skip_or_fail};
use tokio::time::{Instant, sleep, timeout};

use crate::audit::{Audit, LEASE, reigns};
use crate::replica::{Replica, Replicas, SOON};
use crate::sites::Sites;

/// The only deadline of this test: the maximum delay of a takeover after the lease expired.
const MARGIN: Duration = Duration::from_secs(3);
/// The number of times that the leader is killed.
const KILLS: usize = 3;
/// The interval between checks.
const LOOK: Duration = Duration::from_millis(50);

/// Two replicas with their observers.
struct Pair {
    replicas: Replicas,
    leader: Replica,
    follower: Replica,
    sites: Sites,
    audit: Audit,
    leases: Api<Lease>,
    /// The duration of the lease.
    lease: Duration,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_take_over_in_time_and_never_work_concurrently() -> Result<()> {
    let audit = Audit::new()?;
    let checks = KILLS + 2;
    // It takes no flags for an audit log.
    if let Some(Source::Cluster(_)) = Source::find()? {
        return skip_or_fail("operator_replicas, which requires a separate server", checks);
    }
    let Some(server) = RealServer::start_or_skip("operator_replicas", checks, audit.options()).await? else {
        return Ok(());
    };
    let dir = tempfile::tempdir()?;
    let replicas = Replicas::new(example("operator").await?, server.kubeconfig(), dir.path());
    let mut pair = Pair::start(replicas, server.client().await?, audit).await?;
    let mut leaders = vec![pair.leader.name.clone()];
    for _ in 0..KILLS {
        pair.leader_is_killed().await?;
        leaders.push(pair.leader.name.clone());
    }
    pair.leader_is_stopped().await?;
    leaders.push(pair.leader.name.clone());
    pair.leader_is_paused().await?;
    leaders.push(pair.leader.name.clone());
    pair.end(&leaders).await?;
    server.stop().await
}

impl Pair {
    async fn start(mut replicas: Replicas, client: Client, mut audit: Audit) -> Result<Self> {
        let leader = replicas.start().await?;
        let sites = Sites::start(client.clone()).await?;
        timeout(SOON, has_worked(&mut audit, &leader.name))
            .await
            .context("the first replica does not work")??;
        let leases: Api<Lease> = Api::default_namespaced(client);
        let spec = leases.get(LEASE).await?.spec.unwrap_or_default();
        let seconds = spec.lease_duration_seconds.context("a lease without a duration")?;
        let lease = Duration::from_secs(seconds.try_into()?);
        let follower = replicas.start().await?;
        Ok(Self { replicas, leader, follower, sites, audit, leases, lease })
    }

    async fn leader_is_killed(&mut self) -> Result<()> {
        self.work_goes_on().await?;
        let since = Instant::now();
        self.leader.signal("KILL").await?;
        self.the_other_takes_over(since, "kill").await?;
        self.another_follows().await.map(drop)
    }

    async fn leader_is_stopped(&mut self) -> Result<()> {
        self.work_goes_on().await?;
        let since = Instant::now();
        self.leader.signal("TERM").await?;
        self.the_other_takes_over(since, "SIGTERM").await?;
        let (status, printed) = self.another_follows().await?.ends().await?;
        ensure!(status.success() && printed == ["stopped"], "{status}, {printed:?}");
        Ok(())
    }

    /// Pauses the leader for longer than its lease, and resumes it.
    async fn leader_is_paused(&mut self) -> Result<()> {
        self.work_goes_on().await?;
        let since = Instant::now();
        self.leader.signal("STOP").await?;
        self.the_other_takes_over(since, "SIGSTOP").await?;
        let mut before = self.another_follows().await?;
        before.signal("CONT").await?;
        let (status, printed) = before.ends().await?;
        let log = before.log();
        ensure!(!status.success() && printed.is_empty(), "{status}, {printed:?}; {log}");
        ensure!(log.contains("error: lost the lease default/website-operator: "), "{log}");
        Ok(())
    }

    /// Waits until the expected leader holds the lease and has written again.
    async fn work_goes_on(&mut self) -> Result<()> {
        let holder = self.leases.get(LEASE).await?.spec.unwrap_or_default().holder_identity;
        ensure!(holder.as_deref() == Some(&self.leader.name), "the leader is {holder:?}");
        self.audit.read()?;
        let before = self.audit.writes.len();
        let more = async {
            loop {
                self.audit.read()?;
                let mut new = self.audit.writes[before..].iter();
                if new.any(|write| write.by == self.leader.name && write.holder.is_none()) {
                    return anyhow::Ok(());
                }
                sleep(LOOK).await;
            }
        };
        timeout(SOON, more).await.context("the leader does nothing")?
    }

    /// Waits until the follower has written, which is the leader from then on.
    async fn the_other_takes_over(&mut self, since: Instant, after: &str) -> Result<()> {
        let Self { follower, audit, .. } = self;
        audit.read()?;
        ensure!(!audit.has_worked(&follower.name), "{} has worked before {after}", follower.name);
        let deadline = self.lease + MARGIN;
        let taken = tokio::time::timeout_at(since + deadline, has_worked(audit, &follower.name)).await;
        follower.check_alive()?;
        self.sites.check_alive()?;
        taken
            .with_context(|| format!("no write within {deadline:?} after {after}; {}", follower.log()))??;
        say(&format!("{after}: {} writes after {:.1} s", follower.name, since.elapsed().as_secs_f64()))
    }

    /// Starts a new follower, and returns the earlier leader.
    async fn another_follows(&mut self) -> Result<Replica> {
        let another = self.replicas.start().await?;
        let leader = std::mem::replace(&mut self.follower, another);
        Ok(std::mem::replace(&mut self.leader, leader))
    }

    /// Checks that all sites have their final state, and that only the leaders wrote, each during its
    /// term.
    async fn end(self, leaders: &[String]) -> Result<()> {
        let Self { mut leader, mut follower, sites, mut audit, .. } = self;
        let sites = sites.settle(&leader.name).await.with_context(|| leader.log())?;
        for replica in [&mut follower, &mut leader] {
            replica.signal("TERM").await?;
            let (status, _) = replica.ends().await?;
            ensure!(status.success(), "{}: {status}; {}", replica.name, replica.log());
        }
        audit.read()?;
        let reigns = reigns(&audit.writes)?;
        let of: Vec<&str> = reigns.iter().map(|reign| &*reign.of).collect();
        ensure!(of == leaders, "the leaders were {of:?}, expected {leaders:?}");
        let gave_back: Vec<bool> = reigns.iter().map(|reign| reign.is_over).collect();
        let killed = [false; KILLS];
        let expected = [&killed[..], &[true, false, true]].concat();
        ensure!(gave_back == expected, "{gave_back:?} have given the lease back instead of {expected:?}");
        let writes: Vec<usize> = reigns.iter().map(|reign| reign.writes).collect();
        say(&format!("{sites} sites at the end; writes of one leader after the other: {writes:?}"))
    }
}

async fn has_worked(audit: &mut Audit, name: &str) -> Result<()> {
    audit.read()?;
    while !audit.has_worked(name) {
        sleep(LOOK).await;
        audit.read()?;
    }
    Ok(())
}

/// Does not use println, because the test harness hides its output if the test passes.
fn say(text: &str) -> Result<()> {
    Ok(writeln!(std::io::stderr(), "{text}")?)
}
