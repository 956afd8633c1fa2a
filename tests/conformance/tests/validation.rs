//! The validation of built-in kinds on both servers. The cases are generated, and the responses of
//! kube-apiserver are recorded in `validation/answers`.
//!
//! With the environment variable `KUBE_INFORMER_RECORD=1`, the tests write the responses and the
//! differences instead of a comparison.

use std::collections::BTreeSet;
use std::io::Write as _;

use anyhow::{Result, ensure};
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Client, Config};
use kube_informer_conformance::validation::{Answers, NO_RESPONSE, answers, folder, record, recorded};
use kube_informer_e2e::real::{Options, RealServer, skip_or_fail};
use kube_testserver::Server;

/// The minimum share of equal responses, in percent.
const MIN_EQUAL_PERCENT: f64 = 95.0;
/// The admission plugins that change or reject objects of the suite. kube-testserver has no such plugins.
const PLUGINS: &str = "--disable-admission-plugins=ServiceAccount,StorageObjectInUseProtection,\
TaintNodesByCondition,DefaultStorageClass,DefaultIngressClass,PersistentVolumeClaimResize,RuntimeClass";

fn records() -> bool {
    std::env::var_os("KUBE_INFORMER_RECORD").is_some_and(|value| value == "1")
}

fn differences(expected: &Answers, found: &Answers) -> Vec<String> {
    let cases: BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
    let answer =
        |answers: &Answers, case: &str| answers.get(case).map_or("absent", String::as_str).to_owned();
    let answers = cases.into_iter().map(|case| (case, answer(expected, case), answer(found, case)));
    answers
        .filter(|(_, expected, found)| expected != found && expected != NO_RESPONSE)
        .map(|(case, expected, found)| format!("{case}: {expected} | {found}"))
        .collect()
}

#[tokio::test]
async fn embedded_server_validates_like_kube_apiserver() -> Result<()> {
    let server = Server::new();
    let found = answers(Client::new(server.service(), "default")).await?;
    let expected = recorded()?;
    let different = differences(&expected, &found);
    let percent = 100.0 * (1.0 - different.len() as f64 / expected.len() as f64);
    let mut text = format!("{} of {} responses differ, ", different.len(), expected.len());
    text.push_str(&format!("{percent:.2} % are equal\n{}\n", different.join("\n")));
    std::io::stderr().write_all(text.as_bytes())?;
    let list: String = different.iter().map(|line| format!("{line}\n")).collect();
    let path = folder().join("differences.txt");
    if records() {
        std::fs::write(&path, list)?;
        return Ok(());
    }
    ensure!(std::fs::read_to_string(&path)? == list, "{} lists other differences", path.display());
    ensure!(percent >= MIN_EQUAL_PERCENT, "only {percent:.2} % of the responses are equal");
    Ok(())
}

#[tokio::test]
async fn real_server_returns_recorded_responses() -> Result<()> {
    let options = Options { apiserver_flags: vec![PLUGINS.into()] };
    let Some(server) = RealServer::start_or_skip("validation", recorded()?.len(), options).await? else {
        return Ok(());
    };
    let kubeconfig = Kubeconfig::read_from(server.kubeconfig())?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    let client = Client::try_from(config)?;
    if client.apiserver_version().await?.minor != "36" {
        return skip_or_fail("validation, which needs version 1.36", 0);
    }
    let found = answers(client).await?;
    server.stop().await?;
    if records() {
        return record(&found);
    }
    let different = differences(&recorded()?, &found);
    ensure!(different.is_empty(), "{} responses changed:\n{}", different.len(), different.join("\n"));
    Ok(())
}
