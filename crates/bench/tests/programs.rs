//! A small measurement of the operators in examples/operators. Times are not checked.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use kube_bench::{Operator, ProgramSettings, measure_programs};

const OBJECTS: usize = 20;
const CHANGES: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_are_measured_or_skipped() -> Result<()> {
    let settings = ProgramSettings {
        objects: OBJECTS,
        changes: CHANGES,
        rate: 50,
        poll: Duration::from_secs(5),
        operator: None,
    };
    let bench = Path::new(env!("CARGO_BIN_EXE_kube-bench"));
    let folder = bench.parent().context("the path of kube-bench has no folder")?;
    let outcome = measure_programs(&settings, folder, |_| ()).await?;
    assert_eq!(outcome.measured.len() + outcome.skipped.len(), 6, "{:?}", outcome.skipped);
    for measured in &outcome.measured {
        let (name, round) = (&measured.library, &measured.round);
        let writes = |part: &kube_bench::ProgramPart| {
            ["create", "update", "patch", "delete"].map(|verb| part.requests.of(verb)).iter().sum::<u64>()
        };
        // The children, the finalizer and the status.
        let (per_object, per_change) = match measured.operator {
            Operator::Website => (4, 3),
            Operator::Bucket => (2, 1),
        };
        assert!(writes(&round.first) >= per_object * OBJECTS as u64, "{name}: {round:?}");
        assert!(writes(&round.changes) >= per_change * CHANGES as u64, "{name}: {round:?}");
        assert_eq!(writes(&round.idle), 0, "{name}: {round:?}");
        assert_eq!(round.restart.requests.failed, 0, "{name}: {round:?}");
        assert!(round.first.cpu > 0.0 && round.restart.cpu > 0.0, "{name}: {round:?}");
        let polls = [&round.first, &round.idle, &round.restart].map(|part| part.storage_requests);
        match measured.operator {
            Operator::Website => assert_eq!(polls, [0; 3], "{name}"),
            Operator::Bucket => {
                assert!(polls.iter().all(|polls| *polls >= OBJECTS as u64), "{name}: {polls:?}");
            }
        }
        assert!(outcome.text().contains(&format!("| {name} ")), "{}", outcome.text());
    }
    Ok(())
}
