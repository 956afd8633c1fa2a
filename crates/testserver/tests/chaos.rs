//! Chaos tests of a small operator, which creates the ConfigMap `made` if the ConfigMap `wanted` exists.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{Api, Client, api::PostParams};
use kube_testserver::{Chaos, ChaosCause, ChaosService, Hazard, Server, chaos};
use serde_json::{Value, json};
use tokio::time::{Duration, sleep};

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

async fn copy(maps: &Api<ConfigMap>) -> kube_client::Result<()> {
    if maps.get_opt("wanted").await?.is_some() && maps.get_opt("made").await?.is_none() {
        maps.create(&PostParams::default(), &map("made")).await?;
    }
    Ok(())
}

async fn run(service: ChaosService) {
    let maps: Api<ConfigMap> = Api::default_namespaced(Client::new(service, "default"));
    loop {
        let _ = copy(&maps).await;
        sleep(Duration::from_secs(1)).await;
    }
}

fn has(server: &Server, name: &str) -> bool {
    server.get::<ConfigMap>(None, name).is_ok()
}

/// Returns a test without an operator. A user creates and deletes the ConfigMaps.
fn maps(seed: u64) -> Chaos {
    chaos(seed)
        .step(|server, rng| {
            let name = if rng.bool() { "wanted" } else { "made" };
            if rng.bool() {
                let _ = server.create(&map(name));
            } else {
                let _ = server.delete::<ConfigMap>(None, name);
            }
        })
        .eventually("each wanted map is made", |server| {
            if !has(server, "wanted") || has(server, "made") {
                Ok(())
            } else {
                Err("it is missing".to_owned())
            }
        })
}

#[test]
fn correct_operator_passes_all_seeds() {
    let reports = maps(0).operator(run).run_seeds(0..100).unwrap();
    let hazards = reports.iter().flat_map(|report| report.hazards().keys());
    assert!(hazards.copied().any(|hazard| hazard == Hazard::Kill));
    assert!(reports.iter().any(|report| report.processes() > 1));
    let reports = maps(0).without(Hazard::Kill).operator(run).run_seeds(0..100).unwrap();
    assert!(reports.iter().all(|report| report.processes() == 1));
}

#[test]
fn operator_that_remembers_only_in_memory_is_reported() {
    let forgetful = maps(0).operator(|service| async move {
        let maps: Api<ConfigMap> = Api::default_namespaced(Client::new(service, "default"));
        let mut is_made = false;
        loop {
            is_made = is_made || copy(&maps).await.is_ok();
            sleep(Duration::from_secs(1)).await;
        }
    });
    let failure = forgetful.run_seeds(0..100).unwrap_err();
    assert!(
        matches!(failure.cause(), ChaosCause::Invariant { name, .. } if name == "each wanted map is made")
    );
    let text = failure.to_string();
    let seed = failure.seed();
    assert!(text.contains("invariant \"each wanted map is made\" does not hold: it is missing"), "{text}");
    assert!(text.contains("get /api/v1/namespaces/default/configmaps/wanted"), "{text}");
    assert!(text.ends_with(&format!("run only kube_testserver::chaos({seed})")), "{text}");
}

/// Counts the tasks that are alive.
struct Alive(Arc<AtomicUsize>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn kill_stops_all_tasks_of_the_operator() {
    let alive = Arc::new(AtomicUsize::new(0));
    let (counter, most) = (Arc::clone(&alive), Arc::new(AtomicUsize::new(0)));
    let max = Arc::clone(&most);
    let test = maps(1).operator(move |service| {
        for _ in 0..3 {
            max.fetch_max(counter.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            let task = Alive(Arc::clone(&counter));
            drop(tokio::spawn(async move {
                let _task = task;
                std::future::pending::<()>().await;
            }));
        }
        run(service)
    });
    assert!(test.run_seeds(0..20).unwrap().iter().any(|report| report.processes() > 2));
    assert_eq!((alive.load(Ordering::Relaxed), most.load(Ordering::Relaxed)), (0, 3));
}

#[test]
fn statement_that_always_holds_is_checked_after_each_write() {
    let test = maps(2).operator(run).always("no map is made", |server| {
        if has(server, "made") { Err("it is made".to_owned()) } else { Ok(()) }
    });
    let failure = test.run().unwrap_err();
    let last = failure.schedule().iter().rev().take(3).cloned().collect::<String>();
    assert!(
        last.contains("step") || last.contains("create /api/v1/namespaces/default/configmaps: 201"),
        "{last}"
    );
}

#[test]
fn operator_that_never_rests_or_panics_is_reported() {
    let restless = maps(0).steps(0).operator(|service| async move {
        let maps: Api<ConfigMap> = Api::default_namespaced(Client::new(service, "default"));
        for number in 0.. {
            let _ = maps.create(&PostParams::default(), &map(&format!("map-{number}"))).await;
            sleep(Duration::from_secs(60)).await;
        }
    });
    assert!(matches!(restless.run().unwrap_err().cause(), ChaosCause::NotQuiet { .. }));
    let ending = maps(0).steps(0).operator(|_| async {});
    assert!(matches!(ending.run().unwrap_err().cause(), ChaosCause::Ended { .. }));
    let panicking = maps(0).operator(|_| async { panic!("the operator is broken") });
    let failure = panicking.run().unwrap_err();
    assert_eq!(*failure.cause(), ChaosCause::Panicked { message: "the operator is broken".to_owned() });
}

/// tokio catches a panic of a spawned task.
#[test]
fn panic_of_check_or_step_in_spawned_task_is_reported() {
    let spawned = |service| async {
        drop(tokio::spawn(run(service)));
        std::future::pending::<()>().await;
    };
    let calls = AtomicUsize::new(0);
    let test = maps(0)
        .setup(|server| drop(server.create(&map("wanted")).unwrap()))
        .steps(0)
        .operator(spawned)
        .always("the first check", move |_| {
            assert!(calls.fetch_add(1, Ordering::Relaxed) > 0, "the check is broken");
            Ok(())
        });
    let failure = test.run().unwrap_err();
    assert_eq!(*failure.cause(), ChaosCause::Panicked { message: "the check is broken".to_owned() });
    let steps = maps(0).operator(spawned).step(|_, _| panic!("the step is broken"));
    for seed in 0..10 {
        let failure = steps.run_seeds(seed..seed + 1).unwrap_err();
        let expected = ChaosCause::Panicked { message: "the step is broken".to_owned() };
        assert_eq!(*failure.cause(), expected, "{failure}");
    }
}

#[test]
fn timestamps_continue_across_processes() {
    let test = maps(3).operator(run).always("timestamps increase", |server| {
        let mut maps = server.list_untyped("v1", "ConfigMap", Some("default")).unwrap();
        let number =
            |map: &Value| map["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
        maps.sort_by_key(number);
        let times: Vec<_> = maps.iter().map(|map| map["metadata"]["creationTimestamp"].to_string()).collect();
        if times.is_sorted() { Ok(()) } else { Err(format!("{times:?}")) }
    });
    test.without(Hazard::Conflict).run_seeds(0..20).unwrap();
}
