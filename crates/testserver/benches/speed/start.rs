//! The time until a new server accepts requests, in-process and on TCP.

use kube_testserver::Server;
use tokio::time::Instant;

use crate::Size;

const TARGET_MILLIS: f64 = 5.0;

pub(crate) fn run(size: Size) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut built = Vec::new();
        let mut listened = Vec::new();
        for _ in 0..size.starts {
            let start = Instant::now();
            let server = Server::new();
            built.push(start.elapsed().as_secs_f64() * 1e3);
            let listening = server.listen(([127, 0, 0, 1], 0).into()).await.expect("a free port");
            listened.push(start.elapsed().as_secs_f64() * 1e3);
            assert_eq!(server.count_untyped("v1", "Namespace", None).expect("a list"), 4);
            listening.shutdown().await;
        }
        println!("\nstart of {} servers (target: at most {TARGET_MILLIS} ms)", size.starts);
        print("Server::new", &mut built);
        print("new and listen", &mut listened);
    });
}

fn print(label: &str, millis: &mut [f64]) {
    millis.sort_by(f64::total_cmp);
    let median = millis.get(millis.len() / 2).copied().unwrap_or(0.0);
    let max = millis.last().copied().unwrap_or(0.0);
    println!(
        "  {label:<15} median {median:.2} ms, maximum {max:.2} ms: {:.2} of the target",
        max / TARGET_MILLIS
    );
}
