//! A small comparison of the overhead of operators. Each program of this workspace measures all its
//! parts. Times are not checked.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use kube_bench::{OverheadLoad, OverheadPart, OverheadSettings, compare_overhead};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_program_measures_all_its_parts() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let settings = OverheadSettings {
        load: OverheadLoad { objects: 200, per_kind: 3, namespaces: 4 },
        rounds: 1,
        parts: OverheadPart::ALL.to_vec(),
        idle: Duration::from_millis(10),
    };
    let program = Path::new(env!("CARGO_BIN_EXE_kube-bench"));
    // Each program fails if its caches lack an object, or if a reconcile is missing.
    let outcome = compare_overhead(&settings, program, dir.path(), Some("kube-"), |_| ()).await?;
    let measured: Vec<_> = outcome.measured.iter().map(|of| &*of.program).collect();
    assert_eq!(measured, ["kube-operator", "kube-operator, one watch", "kube-runtime"]);
    for measured in &outcome.measured {
        let (name, [round]) = (&measured.program, &measured.rounds[..]) else { bail!("not one round") };
        for figure in ["reconcile_ns", "queue_ns", "get_ns", "index_ns", "owned_ns", "rejected_ns"] {
            let is_measured = round.get(figure).is_some_and(|value| *value > 0.0);
            assert_eq!(is_measured, !name.ends_with("one watch"), "{name}: {figure}: {round:?}");
        }
        assert_eq!(round.contains_key("handler_bytes"), *name == "kube-operator", "{round:?}");
        assert!(round["namespaces_wall_s"] > 0.0 && round["namespace_bytes"] > 0.0, "{name}: {round:?}");
    }
    // The kernel counts the connections of the caches.
    let connections = |at: usize| outcome.measured[at].rounds[0]["namespaces_connections"];
    assert!(connections(1) < connections(0), "{:?}", outcome.measured);
    Ok(())
}
