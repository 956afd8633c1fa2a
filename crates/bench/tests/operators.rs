//! A small comparison of operators. Each operator of this workspace completes its work without
//! needless writes. Times are not checked.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use kube_bench::{OperatorSettings, compare_operators};

const OBJECTS: usize = 40;
const CHANGES: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_write_children_once_and_nothing_after_restart() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let settings = OperatorSettings {
        objects: OBJECTS,
        changes: CHANGES,
        rate: 50,
        idle: Duration::from_millis(50),
        rounds: 1,
        real: false,
        settle: Duration::from_millis(300),
    };
    let program = Path::new(env!("CARGO_BIN_EXE_kube-bench"));
    // The comparison fails if objects are missing or differ between operators.
    let outcome = compare_operators(&settings, program, dir.path(), Some("kube-"), |_| ()).await?;
    assert_eq!(outcome.measured.len(), 5);
    for measured in &outcome.measured {
        let (name, [round]) = (&measured.operator, &measured.rounds[..]) else { bail!("not one round") };
        let [cold, changes, idle, restart] =
            [&round.cold, &round.changes, &round.idle, &round.restart].map(|part| part.requests.unwrap());
        // Three children and a status. An operator with a stale cache may write more.
        assert!(cold.writes >= 4 * OBJECTS as u64, "{name}: {cold:?}");
        // A ConfigMap, a Deployment and a status.
        assert!(changes.writes >= 3 * CHANGES as u64, "{name}: {changes:?}");
        if !measured.is_peer {
            assert_eq!((cold.writes, changes.writes), (4 * OBJECTS as u64, 3 * CHANGES as u64), "{name}");
        }
        assert_eq!((idle.writes, restart.writes), (0, 0), "{name}");
        assert!(
            round.cold.runs >= OBJECTS as u64 && round.restart.runs >= OBJECTS as u64,
            "{name}: {round:?}"
        );
        let failed = [&round.cold, &round.changes, &round.idle, &round.restart].map(|part| part.failed);
        assert_eq!(failed, [0; 4], "{name}");
        assert!(round.latency.p50 <= round.latency.p99, "{name}: {round:?}");
        assert!(round.cold.stage.cpu > 0.0 && round.restart.stage.cpu > 0.0, "{name}: {round:?}");
    }
    Ok(())
}
