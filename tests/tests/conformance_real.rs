//! The conformance checks against the real kube-apiserver: what they say of the protocol is held against it.

use anyhow::Result;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Client, Config};
use kube_informer_tests::conformance::{self, Clients, Past, Target};
use kube_informer_tests::real::{Options, RealServer, skip_or_fail};

#[tokio::test]
async fn the_real_server_keeps_the_protocol() -> Result<()> {
    let checks = conformance::checks().count();
    let Some(mut server) = RealServer::start_or_skip("conformance", checks, Options::default()).await? else {
        return Ok(());
    };
    if !server.is_own() {
        // Its history can't be cut, and its controllers write into the checks' namespaces.
        return skip_or_fail("conformance, which needs a server of its own", checks);
    }
    let past = Past::write(&client(&server, |_| {}).await?).await?;
    forget(&mut server).await?;

    let nobody = Some("nobody".to_owned());
    let clients = Clients {
        admin: client(&server, |_| {}).await?,
        nobody: client(&server, |choice| choice.user = nobody).await?,
        stranger: stranger(&server).await?,
    };
    conformance::run(Target::new("kube-apiserver", clients, past)).await?;
    server.stop().await
}

/// Etcd's history is cut, and what the apiserver still has of it in memory goes with a restart.
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

/// How to reach the server without hidden retries.
async fn config(server: &RealServer, choose: impl FnOnce(&mut KubeConfigOptions)) -> Result<Config> {
    let mut options = KubeConfigOptions::default();
    choose(&mut options);
    let mut config =
        Config::from_custom_kubeconfig(Kubeconfig::read_from(server.kubeconfig())?, &options).await?;
    config.default_retry = false;
    Ok(config)
}
