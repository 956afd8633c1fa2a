//! `cost --demo`, without a cluster.

use crate::program::{json, row, run};

#[tokio::test]
async fn demo_reports_each_resource_and_advises() {
    let report =
        json(&run(&["cost", "--demo", "-o", "json", "--fields", "spec.nodeName,status.phase"]).await);
    let pods = row(&report, "pods");
    assert_eq!(pods["objects"], 200);
    let size = |form: &str| pods["caches"][form].as_u64().unwrap();
    assert!(size("metadata") < size("typed") && size("compressed") < size("lazy"), "{pods}");
    assert!(size("projection") < size("metadata") && size("projection") > 0, "{pods}");
    assert!(size("clientGoProtobuf") > 0 && size("kubeRs") > size("typed"), "{pods}");
    assert!(pods["managedFieldsBytes"].as_u64() > Some(0), "{pods}");
    let secrets = row(&report, "secrets");
    assert!(secrets["selections"].to_string().contains("type!=helm.sh/release.v1"), "{secrets}");
    let advice = report["advice"].as_array().unwrap();
    let saves_half = advice.iter().any(|advice| advice["savedPercent"].as_f64() > Some(50.0));
    assert!(saves_half, "{advice:?}");
}

#[tokio::test]
async fn fields_of_no_object_are_named_and_not_advised() {
    let arguments = ["cost", "pods,secrets", "--demo", "--fields", "spec.nodename"];
    let text = String::from_utf8(run(&arguments).await.stdout).unwrap();
    let line = "has the field spec.nodename of --fields.";
    assert!(text.lines().any(|found| found.contains("No object of ") && found.contains(line)), "{text}");
    assert!(!text.contains("Projection<"), "{text}");
    let arguments = ["cost", "pods,secrets", "--demo", "--fields", "spec.nodeName"];
    let text = String::from_utf8(run(&arguments).await.stdout).unwrap();
    assert!(text.contains("No object of secrets has the field spec.nodeName"), "{text}");
    assert!(text.contains("Projection<Pod") && !text.contains("Projection<Secret"), "{text}");
}

#[tokio::test]
async fn demo_of_workload_counts_only_permitted_resources() {
    let report = json(&run(&["cost", "--demo", "-o", "json", "--of-workload", "deploy/operator"]).await);
    let mut names: Vec<_> =
        report["resources"].as_array().unwrap().iter().map(|row| row["resource"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["configmaps in shop", "pods in shop"]);
    assert_eq!(report["account"], "shop/operator");
    assert_eq!(report["restart"]["replicas"], 2);
}

#[tokio::test]
async fn tables_have_rows_and_no_contents_of_secrets() {
    for format in ["table", "wide", "yaml"] {
        let output = run(&["cost", "--demo", "-o", format]).await;
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.contains("pods"), "{format}: {text}");
        // The Secrets of the example data contain the alphabet in steps of 7, as base64.
        assert!(!text.contains("YWhv") && !text.contains("ahov"), "{format}: {text}");
        assert!(!text.contains('\u{1b}'), "colours in a pipe: {text:?}");
    }
}

#[tokio::test]
async fn invalid_flags_end_with_one_line() {
    for arguments in [
        &["cost", "--demo", "--of-workload", "pod/x"][..],
        &["cost", "--demo", "--duration", "5"],
        &["cost", "--demo", "--try-selector", "a in ("],
        &["cost", "--demo", "--fields", "a..b"],
        &["cost", "--demo", "--replicas", "0"],
        &["cost", "--demo", "widgets"],
        &["cost", "--demo", "--of-workload", "deploy/missing"],
    ] {
        let output = run(arguments).await;
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && text.lines().count() == 1, "{arguments:?}: {text}");
        assert!(text.starts_with("error: "), "{text}");
    }
}
