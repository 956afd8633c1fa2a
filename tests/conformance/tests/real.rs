//! The conformance checks against the real kube-apiserver. They verify that the checks describe the
//! protocol.

use anyhow::Result;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Client, Config};
use kube_informer_conformance::{self as conformance, Clients, Differences, Past, Target, Variant};
use kube_informer_e2e::real::{Options, RealServer, Source, skip_or_fail};
use tokio::sync::Mutex;

/// The checks of two servers at once would be too slow for their deadlines.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

#[tokio::test]
async fn the_real_server_keeps_the_protocol() -> Result<()> {
    keeps_the_protocol(Variant::Standard, &[]).await
}

#[tokio::test]
async fn real_server_without_watch_list_passes() -> Result<()> {
    keeps_the_protocol(Variant::WithoutWatchList, &["--feature-gates=WatchList=false"]).await
}

#[tokio::test]
async fn real_server_without_watch_cache_passes() -> Result<()> {
    keeps_the_protocol(Variant::WithoutWatchCache, &["--watch-cache=false"]).await
}

#[tokio::test]
async fn real_server_with_shards_passes() -> Result<()> {
    keeps_the_protocol(Variant::WithShards, &["--feature-gates=ShardedListAndWatch=true"]).await
}

async fn keeps_the_protocol(variant: Variant, flags: &[&str]) -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock().await;
    let checks = conformance::checks().count();
    let options = Options { apiserver_flags: flags.iter().map(|&flag| flag.to_owned()).collect() };
    if !flags.is_empty() && matches!(Source::find()?, Some(Source::Cluster(_))) {
        return skip_or_fail("conformance, which requires a server with separate flags", checks);
    }
    if !flags.is_empty() && Source::find()?.is_some_and(|source| source.is_other_version()) {
        return skip_or_fail("conformance with flags, which are those of another version", checks);
    }
    let Some(mut server) = RealServer::start_or_skip("conformance", checks, options).await? else {
        return Ok(());
    };
    if !server.is_own() {
        // The suite cannot compact the history of this server, and its controllers write to the
        // namespaces of checks.
        return skip_or_fail("conformance, which requires a separate server", checks);
    }
    let admin = client(&server, |_| {}).await?;
    let minor = admin.apiserver_version().await?.minor;
    // Kubernetes 1.33 has streaming lists, but does not enable them by default.
    let variant = if minor == "33" { Variant::WithoutWatchList } else { variant };
    let past = Past::write(&admin).await?;
    forget(&mut server).await?;

    let nobody = Some("nobody".to_owned());
    let clients = Clients {
        admin,
        nobody: client(&server, |choice| choice.user = nobody).await?,
        stranger: stranger(&server).await?,
    };
    let target = Target::new("kube-apiserver", clients, past).set_up_as(variant);
    conformance::run(target.with_differences(Differences::of_minor(&minor)?)).await?;
    server.stop().await
}

/// Compacts the history of etcd. A restart removes the history in the memory of the apiserver.
async fn forget(server: &mut RealServer) -> Result<()> {
    server.compact().await?;
    server.restart_apiserver().await
}

async fn client(server: &RealServer, choose: impl FnOnce(&mut KubeConfigOptions)) -> Result<Client> {
    Ok(Client::try_from(config(server, choose).await?)?)
}

async fn stranger(server: &RealServer) -> Result<Client> {
    let mut config = config(server, |_| {}).await?;
    config.auth_info.token = Some("never-issued".to_owned().into());
    Ok(Client::try_from(config)?)
}

/// Returns the configuration of a client that does not repeat requests.
async fn config(server: &RealServer, choose: impl FnOnce(&mut KubeConfigOptions)) -> Result<Config> {
    let mut options = KubeConfigOptions::default();
    choose(&mut options);
    let mut config =
        Config::from_custom_kubeconfig(Kubeconfig::read_from(server.kubeconfig())?, &options).await?;
    config.default_retry = false;
    Ok(config)
}
