//! The operator, which writes each object once for each desired value.

use std::io::Read as _;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use futures_util::StreamExt as _;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::api::Patch;
use kube_client::client::Body;
use kube_client::{Client, Config};
use kube_operator::{
    Action, CachedClient, CachedSlots, Controller, Failure, LeaseTimes, Manager, ManagerOptions, Request,
    ShardOptions, shutdown_signal, with_context,
};
use serde_json::json;
use tokio::time::{Instant, sleep};
use tower::BoxError;

use super::GROUP;

/// Options of a replica.
#[derive(Clone, Copy, Debug, Args)]
pub struct OperatorOptions {
    /// The objects that a replica caches.
    #[arg(long, value_enum, default_value_t = Caches::All)]
    pub caches: Caches,
    /// The lease duration in seconds.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub lease_seconds: u64,
    /// The renew deadline in milliseconds.
    #[arg(long, default_value_t = 4000, value_parser = clap::value_parser!(u64).range(1..=600_000))]
    pub renew_millis: u64,
    /// The time between two renewals in milliseconds.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=600_000))]
    pub retry_millis: u64,
    /// The settle time in milliseconds.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(0..=600_000))]
    pub settle_millis: u64,
    /// The time between the read and the write of a reconcile in milliseconds.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(0..=600_000))]
    pub work_millis: u64,
    /// The watch of ConfigMaps delivers events only in the second half of each period of this time, in
    /// milliseconds. The cache is therefore often older than the table of slots.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(0..=10_000))]
    pub lag_millis: u64,
}

/// The objects that a replica caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Caches {
    /// All objects.
    All,
    /// The objects in the slots of the replica.
    Own,
}

impl OperatorOptions {
    /// Returns the command-line arguments with these options.
    pub(super) fn arguments(&self) -> Vec<String> {
        let Self {
            caches,
            lease_seconds,
            renew_millis,
            retry_millis,
            settle_millis,
            work_millis,
            lag_millis,
        } = self;
        let caches = match caches {
            Caches::All => "all",
            Caches::Own => "own",
        };
        vec![
            format!("--caches={caches}"),
            format!("--lease-seconds={lease_seconds}"),
            format!("--renew-millis={renew_millis}"),
            format!("--retry-millis={retry_millis}"),
            format!("--settle-millis={settle_millis}"),
            format!("--work-millis={work_millis}"),
            format!("--lag-millis={lag_millis}"),
        ]
    }

    fn shards(&self) -> ShardOptions {
        let times = LeaseTimes {
            lease_duration: Duration::from_secs(self.lease_seconds),
            renew_deadline: Duration::from_millis(self.renew_millis),
            retry_period: Duration::from_millis(self.retry_millis),
        };
        let caches = match self.caches {
            Caches::All => CachedSlots::All,
            Caches::Own => CachedSlots::Own,
        };
        let settle_time = Duration::from_millis(self.settle_millis);
        ShardOptions { times, caches, settle_time, ..ShardOptions::new(GROUP.0, GROUP.1) }
    }
}

/// Runs one replica on the cluster of the kubeconfig until SIGTERM or Ctrl-C, or until stdin is closed.
///
/// # Errors
///
/// Fails if the kubeconfig or the options are invalid, or if the manager fails.
///
/// # Cancel safety
///
/// If the future is dropped, the slots of the replica are not released.
pub async fn run_operator(options: OperatorOptions) -> Result<()> {
    let mut config = Config::infer().await?;
    config.default_retry = false;
    let (shards, work_time) = (Some(options.shards()), Duration::from_millis(options.work_millis));
    let lag = Duration::from_millis(options.lag_millis);
    let options = ManagerOptions { bind_address: None, shards, ..ManagerOptions::default() };
    let client = lagging_client(Client::try_from(config)?, lag);
    let mut manager = Manager::new(client, options)?;
    let client = manager.cached_client("sharded");
    let controller = Controller::new(&client.informer::<ConfigMap>()?).concurrency(32);
    manager.add_controller(controller, with_context((client, work_time), reconcile));
    std::thread::spawn(exit_with_parent);
    Ok(manager.run(shutdown_signal()).await?)
}

/// Returns a client whose watches of ConfigMaps deliver events only in the second half of each `lag`. The
/// cache can therefore be older than the table, unless the operator waits for it.
fn lagging_client(client: Client, lag: Duration) -> Client {
    let (start, namespace) = (Instant::now(), client.default_namespace().to_owned());
    let wait = move || async move {
        let phase = start.elapsed().as_micros().checked_rem(lag.as_micros()).unwrap_or_default();
        let opens = (lag / 2).as_micros();
        if let Some(closed) = opens.checked_sub(phase) {
            sleep(Duration::from_micros(u64::try_from(closed).unwrap_or_default())).await;
        }
    };
    let send = tower::service_fn(move |request: http::Request<Body>| {
        let client = client.clone();
        async move {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let lags = is_watch && request.uri().path().ends_with("/configmaps");
            let response = client.send(request).await.map_err(BoxError::from)?;
            Ok::<_, BoxError>(response.map(|body| {
                if !lags {
                    return body.map_err(BoxError::from).boxed_unsync();
                }
                let frames = body.into_data_stream().then(move |frame| async move {
                    wait().await;
                    frame.map(Frame::data).map_err(BoxError::from)
                });
                StreamBody::new(frames).boxed_unsync()
            }))
        }
    });
    Client::new(send, namespace)
}

/// Exits when stdin is closed. A replica therefore never outlives the test.
fn exit_with_parent() {
    let mut input = [0; 64];
    while std::io::stdin().read(&mut input).is_ok_and(|read| read > 0) {}
    std::process::exit(1);
}

/// Copies the desired value, and increments the number of writes. A reconcile that reads an old state writes
/// a number again.
async fn reconcile(
    request: Request<ConfigMap>,
    (client, work_time): (CachedClient, Duration),
) -> Result<Action, Failure> {
    let Some(map) = client.get::<ConfigMap>(&request.key).await? else { return Ok(Action::AwaitChange) };
    let number = |name: &str| map.data.as_ref()?.get(name)?.parse::<u64>().ok();
    let Some(wanted) = number("wanted").filter(|wanted| number("done") != Some(*wanted)) else {
        return Ok(Action::AwaitChange);
    };
    let writes = number("writes").unwrap_or_default() + 1;
    sleep(work_time).await; // a slot can move in this time
    // With the process, each write changes the object.
    let process = std::process::id().to_string();
    let data = json!({"done": wanted.to_string(), "writes": writes.to_string(), "process": process});
    client.patch::<ConfigMap>(&request.key, &Patch::Merge(json!({"data": data}))).await?;
    Ok(Action::AwaitChange)
}
