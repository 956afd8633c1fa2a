//! Checks that the roles that a program prints are sufficient and minimal on a real kube-apiserver.
//!
//! The program runs a scenario with all of its roles, and the server denies no request. It then runs without
//! each verb of each resource, and the server denies a request with this verb. If the program does not use
//! the verb, the run is repeated.

mod admin;
mod roles;

pub use admin::Admin;
pub use roles::{Reduced, Roles};

use std::fs::File;
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures_util::future::BoxFuture;
use kube_client::config::Kubeconfig;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use crate::audit::{AuditEvent, AuditLog};
use crate::real::RealServer;
use crate::replica::ReplicaProcess;

/// The interval of reads of the audit log.
const INTERVAL: Duration = Duration::from_millis(50);
/// The time limit for a graceful shutdown.
const STOP_LIMIT: Duration = Duration::from_secs(30);
/// The time limit for a program that exits by itself.
const FINITE_LIMIT: Duration = Duration::from_secs(120);
/// The time limit until the server uses new roles.
const GRANT_LIMIT: Duration = Duration::from_secs(30);

/// The maximum number of executions without a permission. A program does not always use each permission. For
/// example, `ensure_crd` watches a CRD only if the server has not established the CRD before the list.
const ATTEMPTS: usize = 5;

/// A part of a scenario.
pub type Step = fn(Admin) -> BoxFuture<'static, Result<()>>;

/// A program that prints its roles with the first argument `rbac`. Otherwise, it runs on the cluster of the
/// kubeconfig.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The name of the program, for accounts and logs.
    pub name: &'static str,
    /// The path of the program.
    pub program: PathBuf,
    /// The arguments with which it runs.
    pub arguments: Vec<String>,
    /// Deletes the objects of earlier runs, and prepares the objects that the program needs.
    pub prepare: Step,
    /// Uses all permissions that the program needs before its stop.
    pub scenario: Step,
    /// Whether the program exits by itself after it has used its permissions. The scenario then waits for the
    /// exit.
    pub is_finite: bool,
    /// Whether the scenario needs a verb of a resource. Other verbs are not checked.
    pub shows: fn(&str, &str) -> bool,
}

/// Runs the program with all roles, and without each verb. Returns the number of checked verbs.
///
/// # Errors
///
/// Fails if the server denies a request of the program with all roles, or does not deny a request without one
/// of the verbs.
///
/// # Cancel safety
///
/// If the future is dropped, the program is killed.
pub async fn check(server: &RealServer, log: &AuditLog, subject: &Subject) -> Result<usize> {
    let (admin, dir) = (Admin(server.client().await?), tempfile::tempdir()?);
    let bench = Bench { kubeconfig: server.kubeconfig(), log, subject, admin, dir };
    let roles = bench.printed_roles().await?;
    let reduced = roles.without_each_verb();
    for (number, roles) in reduced.iter().map(|reduced| &reduced.roles).chain([&roles]).enumerate() {
        bench.grant(number, roles).await?;
    }
    let denial = bench.run(reduced.len(), &roles, &|_| true).await?;
    ensure!(
        denial.is_none(),
        "the roles of {} are not sufficient: {}",
        subject.name,
        denial.unwrap_or_default()
    );
    let is_shown = |reduced: &Reduced| (subject.shows)(&reduced.verb, &reduced.resource);
    let mut count = 0;
    for (number, Reduced { verb, resource, roles }) in
        reduced.iter().enumerate().filter(|(_, reduced)| is_shown(reduced))
    {
        count += 1;
        // Other requests can fail as a consequence.
        let expected = format!("cannot {verb} resource \"{resource}\"");
        let mut is_denied = false;
        for _ in 0..ATTEMPTS {
            let denial = bench.run(number, roles, &|message| message.contains(&expected)).await;
            let denial = denial.with_context(|| format!("{} without {verb} {resource}", subject.name))?;
            is_denied = denial.is_some();
            if is_denied {
                break;
            }
        }
        ensure!(is_denied, "{} does not need {verb} {resource} in {ATTEMPTS} executions", subject.name);
    }
    Ok(count)
}

struct Bench<'a> {
    kubeconfig: &'a Path,
    log: &'a AuditLog,
    subject: &'a Subject,
    admin: Admin,
    dir: TempDir,
}

impl Bench<'_> {
    async fn printed_roles(&self) -> Result<Roles> {
        let mut command = Command::new(&self.subject.program);
        command.arg("rbac").args(&self.subject.arguments).env("KUBECONFIG", self.kubeconfig);
        let output = command.output().await?;
        let text = String::from_utf8(output.stdout)?;
        Roles::parse(&text).with_context(|| format!("{} rbac: {text:?}", self.subject.name))
    }

    /// Creates roles and bindings for the account with this number.
    async fn grant(&self, number: usize, roles: &Roles) -> Result<()> {
        for object in roles.bind_to_service_account(&self.account(number)) {
            let plural = object["kind"].as_str().unwrap_or_default().to_lowercase() + "s";
            let path = match object["metadata"]["namespace"].as_str() {
                Some(namespace) => {
                    format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/{plural}")
                }
                None => format!("/apis/rbac.authorization.k8s.io/v1/{plural}"),
            };
            self.admin.create(&path, &object).await?;
        }
        Ok(())
    }

    fn account(&self, number: usize) -> String {
        format!("{}-{number}", self.subject.name)
    }

    fn user(&self, number: usize) -> String {
        format!("system:serviceaccount:default:{}", self.account(number))
    }

    /// Waits until kube-apiserver uses the roles, because it reads them from caches.
    async fn wait_until_granted(&self, number: usize, roles: &Roles) -> Result<()> {
        for role in &roles.0 {
            let rule = &role["rules"][0];
            let (resource, name) = (&rule["resources"][0], &rule["resourceNames"][0]);
            let (resource, subresource) = match resource.as_str().and_then(|text| text.split_once('/')) {
                Some((resource, subresource)) => (json!(resource), json!(subresource)),
                None => (resource.clone(), Value::Null),
            };
            let attributes = json!({
                "verb": rule["verbs"][0], "group": rule["apiGroups"][0], "resource": resource,
                "subresource": subresource, "name": name, "namespace": role["metadata"]["namespace"],
            });
            let review = json!({
                "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
                "spec": {"user": self.user(number), "resourceAttributes": attributes},
            });
            let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
            while self.admin.create(path, &review).await?["status"]["allowed"] != true {
                sleep(INTERVAL).await;
            }
        }
        Ok(())
    }

    /// Runs the scenario, and stops the program. Returns the first expected denial, which stops the program.
    async fn run(
        &self,
        number: usize,
        roles: &Roles,
        is_expected: &(dyn Fn(&str) -> bool + Sync),
    ) -> Result<Option<String>> {
        let account = self.account(number);
        let granted = timeout(GRANT_LIMIT, self.wait_until_granted(number, roles)).await;
        granted.with_context(|| format!("the roles of {account} are not used after {GRANT_LIMIT:?}"))??;
        (self.subject.prepare)(self.admin.clone()).await.context("cannot prepare the cluster")?;
        let mut denials = Denials::new(self.log, self.user(number))?;
        let kubeconfig = self.dir.path().join(&account);
        std::fs::write(&kubeconfig, impersonating(self.kubeconfig, &self.user(number))?)?;
        let mut command = Command::new(&self.subject.program);
        command.args(&self.subject.arguments).env("KUBECONFIG", &kubeconfig);
        command.stdout(Stdio::null());
        let mut process = ReplicaProcess::spawn(account, command, self.dir.path())?;
        let scenario = async {
            let scenario = (self.subject.scenario)(self.admin.clone());
            if self.subject.is_finite {
                let exited =
                    timeout(FINITE_LIMIT, async { tokio::try_join!(process.wait(), scenario) }).await;
                let (status, ()) = exited.context("the program did not exit")??;
                ensure!(status.success(), "the program failed: {status:?}");
                return Ok(());
            }
            tokio::select! {
                done = scenario => done?,
                status = process.wait() => anyhow::bail!("the program exited early: {:?}", status?),
            }
            process.signal("TERM").await?;
            timeout(STOP_LIMIT, process.wait()).await.context("the program did not stop")??;
            anyhow::Ok(())
        };
        let done = tokio::select! {
            denial = denials.first(is_expected) => return denial.map(Some),
            done = scenario => done,
        };
        let denial = denials.next(is_expected)?;
        if denial.is_none() {
            done.with_context(|| process.log())?;
        }
        Ok(denial)
    }
}

/// Returns a kubeconfig that impersonates a user without permissions of groups.
fn impersonating(kubeconfig: &Path, user: &str) -> Result<String> {
    let mut kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    for auth in kubeconfig.auth_infos.iter_mut().filter_map(|auth| auth.auth_info.as_mut()) {
        auth.impersonate = Some(user.to_owned());
    }
    Ok(serde_json::to_string(&kubeconfig)?) // JSON is YAML
}

/// Reads the denied requests of a user from the audit log.
struct Denials {
    file: BufReader<File>,
    line: String,
    user: String,
}

impl Denials {
    /// Starts at the current end of the log.
    fn new(log: &AuditLog, user: String) -> Result<Self> {
        let mut file = BufReader::new(File::open(log.path())?);
        file.seek(SeekFrom::End(0))?;
        Ok(Self { file, line: String::new(), user })
    }

    fn next(&mut self, is_expected: &(dyn Fn(&str) -> bool + Sync)) -> Result<Option<String>> {
        while self.file.read_line(&mut self.line)? > 0 && self.line.ends_with('\n') {
            let event: AuditEvent = serde_json::from_str(&std::mem::take(&mut self.line))?;
            let denial = event.denial().filter(|message| is_expected(message));
            if let Some(message) = denial.filter(|_| event.user() == Some(&self.user)) {
                return Ok(Some(message.to_owned()));
            }
        }
        Ok(None)
    }

    async fn first(&mut self, is_expected: &(dyn Fn(&str) -> bool + Sync)) -> Result<String> {
        loop {
            if let Some(message) = self.next(is_expected)? {
                return Ok(message);
            }
            sleep(INTERVAL).await;
        }
    }
}
