//! A small measurement of the operators in examples/operators. Times are not checked.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use kube_bench::{Operator, OperatorPart, OperatorSettings, compare_operators};

const OBJECTS: usize = 20;
const CHANGES: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_are_measured_or_skipped() -> Result<()> {
    let settings = OperatorSettings {
        objects: OBJECTS,
        changes: CHANGES,
        rate: 50,
        poll: Duration::from_secs(5),
        rounds: 1,
        operator: None,
        real: false,
    };
    let bench = Path::new(env!("CARGO_BIN_EXE_kube-bench"));
    let folder = bench.parent().context("the path of kube-bench has no folder")?;
    let outcome = compare_operators(&settings, folder, |_| ()).await?;
    assert_eq!(outcome.measured.len() + outcome.skipped.len(), 6, "{:?}", outcome.skipped);
    for measured in &outcome.measured {
        let (name, [round]) = (&measured.library, &measured.rounds[..]) else { bail!("not one round") };
        let of = |part: &OperatorPart, verbs: &[&str]| {
            let requests = part.requests.clone().unwrap_or_default();
            verbs.iter().map(|verb| requests.of(verb)).sum::<u64>()
        };
        let writes = |part| of(part, &["create", "update", "patch", "delete"]);
        // The children, the finalizer and the status.
        let (per_object, per_change) = match measured.operator {
            Operator::Website => (4, 3),
            Operator::Bucket => (2, 1),
        };
        assert!(writes(&round.first) >= per_object * OBJECTS as u64, "{name}: {round:?}");
        assert!(writes(&round.changes) >= per_change * CHANGES as u64, "{name}: {round:?}");
        assert_eq!(writes(&round.idle), 0, "{name}: {round:?}");
        if name == "kube-operator" {
            let counts = (writes(&round.first), writes(&round.changes));
            assert_eq!(counts, (per_object * OBJECTS as u64, per_change * CHANGES as u64), "{round:?}");
            assert_eq!((writes(&round.restart), of(&round.restart, &["get"])), (0, 0), "{round:?}");
        }
        let bytes =
            [&round.first, &round.restart].map(|part| part.requests.clone().unwrap_or_default().bytes);
        assert!(bytes.iter().all(|bytes| *bytes > 1_000 * OBJECTS as u64), "{name}: {bytes:?}");
        assert!(round.first.cpu > 0.0 && round.restart.cpu > 0.0, "{name}: {round:?}");
        let polls = [&round.first, &round.idle, &round.restart].map(|part| part.storage_requests);
        match measured.operator {
            Operator::Website => assert_eq!(polls, [0; 3], "{name}"),
            Operator::Bucket => {
                assert!(polls.iter().all(|polls| *polls >= OBJECTS as u64), "{name}: {polls:?}");
            }
        }
    }
    Ok(())
}
