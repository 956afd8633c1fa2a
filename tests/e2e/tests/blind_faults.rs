//! Runs the program `blind-faults`. The log and the pages of each case contain the cause, and no file
//! contains the name of the fault.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use futures_util::future::try_join_all;
use kube_informer_e2e::{
    blind::{
        CASES, ConflictSource, Fault, Hang, LeaseLoss, OTHER_IDENTITY, WEBHOOK, WEBHOOK_MESSAGE, files, plan,
    },
    real::{Source, skip_or_fail},
};
use tempfile::TempDir;
use tokio::{process::Command, time::timeout};

/// The time limit of the program.
const LIMIT: Duration = Duration::from_secs(240);

/// Words that would reveal the fault or the experiment.
const FORBIDDEN: [&str; 8] = [
    "missing right",
    "missing crd",
    "denies each",
    "conflict storm",
    "hung reconcile",
    "lost lease",
    "blind",
    "testserver",
];

#[tokio::test]
async fn log_and_pages_of_each_case_contain_the_cause() -> Result<()> {
    let run = Execution::start(9, &["--seconds", "12"]).await?;
    let answers = fs::read_to_string(run.answers())?;
    for (index, fault) in plan(9).into_iter().enumerate() {
        ensure!(answers.contains(&format!("case-{}: {}", index + 1, fault.answer())), "{answers}");
        run.check(index + 1, fault)?;
    }
    ensure!(names(&run.out())?.len() == CASES, "{:?}", names(&run.out())?);
    Ok(())
}

/// `/healthz` fails one minute after the timeout of a reconcile that blocks its thread.
#[tokio::test]
async fn log_and_pages_of_other_variants_contain_the_cause() -> Result<()> {
    let faults = [
        Fault::ConflictStorm(ConflictSource::Spec),
        Fault::ConflictStorm(ConflictSource::Fight),
        Fault::HungReconcile(Hang::Thread),
        Fault::LostLease(LeaseLoss::FailedRenewals),
    ];
    try_join_all(faults.map(|fault| check_fault(fault, &["--seconds", "20"]))).await?;
    Ok(())
}

#[tokio::test]
async fn error_of_real_server_names_webhook() -> Result<()> {
    if Source::find()?.is_none() {
        return skip_or_fail("blind_faults", 1);
    }
    check_fault(Fault::RefusingWebhook, &["--seconds", "10", "--real"]).await
}

#[tokio::test]
async fn invalid_arguments_are_rejected_in_one_line() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(folder.path().join("file"), "")?;
    for (out, answers, more, expected) in [
        (path("out"), path("out/answers"), "--real", "is in the folder of the cases; use another folder"),
        (path(""), path("answers"), "--real", "is not empty; use a new folder"),
        (path("out"), path("missing/answers"), "--real", "cannot find"),
        (path("out"), path("answers"), "--cases=7", "7 is not in 1..=6"),
        (path("out"), path("answers"), "--seconds=1", "1 is not in 10..=3600"),
    ] {
        let output = program(&["--out", &out, "--answers", &answers, more]).await?;
        let error = String::from_utf8(output.stderr)?;
        ensure!(!output.status.success() && error.contains(expected), "{error}");
        ensure!(error.starts_with("error: ") && error.lines().count() == 1, "{error}");
    }
    Ok(())
}

/// Runs a case with this fault.
async fn check_fault(fault: Fault, arguments: &[&str]) -> Result<()> {
    let found = (0..1000).find_map(|seed| {
        let case = plan(seed).iter().position(|&planned| planned == fault)?;
        Some((seed, case + 1))
    });
    let (seed, case) = found.context("no seed chooses the fault")?;
    let cases = case.to_string();
    let run = Execution::start(seed, &[arguments, &["--cases", &cases]].concat()).await?;
    ensure!(names(&run.out())? == BTreeSet::from([format!("case-{case}")]), "{:?}", names(&run.out())?);
    run.check(case, fault)
}

/// The files of one execution of the program. This value removes the files when it is dropped.
struct Execution {
    folder: TempDir,
}

impl Execution {
    async fn start(seed: u64, arguments: &[&str]) -> Result<Self> {
        let run = Self { folder: tempfile::tempdir()? };
        let (seed, out, answers) = (seed.to_string(), run.out(), run.answers());
        let (out, answers) = (out.display().to_string(), answers.display().to_string());
        let output =
            program(&[&["--seed", &seed, "--out", &out, "--answers", &answers], arguments].concat()).await?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success() && error.is_empty(), "{error}");
        Ok(run)
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("cases")
    }

    fn answers(&self) -> PathBuf {
        self.folder.path().join("answers")
    }

    fn check(&self, case: usize, fault: Fault) -> Result<()> {
        let folder = self.out().join(format!("case-{case}"));
        let expected: BTreeSet<String> = files().into_iter().map(str::to_owned).collect();
        ensure!(names(&folder)? == expected, "{fault:?}: {:?}", names(&folder)?);
        for file in files() {
            let text = fs::read_to_string(folder.join(file))?.to_lowercase();
            for word in FORBIDDEN {
                ensure!(!text.contains(word), "{fault:?}: {file} contains {word:?}:\n{text}");
            }
        }
        for (file, text) in evidence(fault) {
            let found = fs::read_to_string(folder.join(file))?;
            ensure!(found.contains(&text), "{fault:?}: {file} does not contain {text:?}:\n{found}");
        }
        Ok(())
    }
}

/// Returns the texts that contain the cause, with their files.
fn evidence(fault: Fault) -> Vec<(&'static str, String)> {
    let in_log_and_pages = |text: &str| {
        let escaped = text.replace('"', "\\\"");
        let mut found = vec![("log.txt", text.to_owned()), ("readyz.txt", text.to_owned())];
        found.extend([("debug-queues.json", escaped.clone()), ("debug-why.json", escaped)]);
        found
    };
    match fault {
        Fault::MissingRight => {
            in_log_and_pages("cannot patch resource \"deployments\" in API group \"apps\"")
        }
        Fault::MissingCrd => {
            let text = "the server does not have this resource; install its CRD with this version";
            ["log.txt", "readyz.txt", "debug-informers.json"].map(|file| (file, text.to_owned())).into()
        }
        Fault::RefusingWebhook => in_log_and_pages(&format!(
            "400 Bad Request: admission webhook \"{WEBHOOK}\" denied the request: {WEBHOOK_MESSAGE}"
        )),
        Fault::ConflictStorm(ConflictSource::Spec) => {
            let mut lines = in_log_and_pages(
                "failed to update the status of websites shop/home: conflict with another write: the server \
                 responded with 409 Conflict",
            );
            lines.push(("log.txt", "another client changes the object all the time".to_owned()));
            lines
        }
        Fault::ConflictStorm(ConflictSource::FieldManager) => {
            in_log_and_pages("conflict with \"autoscaler\": .spec.replicas")
        }
        Fault::ConflictStorm(ConflictSource::Fight) => {
            let line = "another client changes a field again and again, and this program applies it again";
            let field = "resource=deployments object=shop/home field=\"spec.replicas\"";
            vec![
                ("debug-why.json", "owned Deployment shop/home was updated".to_owned()),
                ("log.txt", line.to_owned()),
                ("log.txt", field.to_owned()),
            ]
        }
        Fault::HungReconcile(Hang::Future) => in_log_and_pages("reconcile timed out")
            .into_iter()
            .chain([("log.txt", "key=shop/home".to_owned())])
            .collect(),
        Fault::HungReconcile(Hang::Thread) => vec![
            ("log.txt", "reconcile blocks its thread, so its timeout has no effect".to_owned()),
            ("healthz.txt", "503 Service Unavailable".to_owned()),
            (
                "healthz.txt",
                "[-] controller website: the reconcile of shop/home has been running for".to_owned(),
            ),
            ("healthz.txt", "but its timeout is 5s; it blocks its thread".to_owned()),
            ("readyz.txt", "the reconcile of shop/home has been running for".to_owned()),
        ],
        Fault::LostLease(LeaseLoss::OtherHolder) => vec![
            ("log.txt", format!("lost the lease shop/web-operator: {OTHER_IDENTITY} is the leader now")),
            ("readyz.txt", format!("lease web-operator: the leader is {OTHER_IDENTITY}")),
        ],
        Fault::LostLease(LeaseLoss::FailedRenewals) => vec![(
            "log.txt",
            "lost the lease shop/web-operator: renewals failed: cannot write the Lease: the server responded with 500"
                .to_owned(),
        )],
    }
}

/// Runs the program, and waits until it has exited.
async fn program(arguments: &[&str]) -> Result<Output> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_blind-faults"));
    let running = command.args(arguments).stdin(Stdio::null()).kill_on_drop(true).output();
    Ok(timeout(LIMIT, running).await.context("the program timed out")??)
}

/// Returns the names of the entries of a folder.
fn names(folder: &Path) -> Result<BTreeSet<String>> {
    let entries = fs::read_dir(folder)?;
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}
