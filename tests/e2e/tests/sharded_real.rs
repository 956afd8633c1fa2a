//! Three replicas of a sharded operator on a real kube-apiserver. Replicas are killed, paused, stopped and
//! partitioned while 2,000 objects change. The audit log of the server contains the writer of each object.

use std::io::Write as _;

use anyhow::Result;
use kube_informer_e2e::real::{Source, skip_or_fail};
use kube_informer_e2e::sharded::{Caches, OperatorOptions, Settings, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_slot_has_one_writer_with_all_objects_in_caches() -> Result<()> {
    check("all caches", Caches::All, false).await
}

/// The server also supports shards. A manager filters only in the client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_slot_has_one_writer_with_own_slots_in_caches() -> Result<()> {
    check("own caches, feature gate", Caches::Own, true).await
}

async fn check(name: &str, caches: Caches, gate: bool) -> Result<()> {
    let source = match Source::find()? {
        // An existing cluster takes no flags for an audit log.
        None | Some(Source::Cluster(_)) => {
            return skip_or_fail("sharded_real, which requires a separate server", 1);
        }
        Some(source) => source,
    };
    let operator = OperatorOptions {
        caches,
        lease_seconds: 6,
        renew_millis: 4000,
        retry_millis: 1000,
        settle_millis: 500,
        work_millis: 500,
        lag_millis: 500,
    };
    let program = env!("CARGO_BIN_EXE_sharded").into();
    let settings = Settings { program, objects: 2000, namespaces: 200, operator, gate };
    // Does not use println, because the test harness hides its output if the test passes.
    run(&settings, source, &|line| _ = writeln!(std::io::stderr(), "{name}: {line}")).await
}
