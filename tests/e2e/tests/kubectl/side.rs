//! One of the two servers, with a kubeconfig and a shell for `kubectl`.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kube_informer_e2e::real::kubectl_program;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::timeout;

use crate::mask::Masks;
use crate::topic::{Topic, folder};

/// The deadline of a command. Commands that wait have a timeout of at most 15 s.
const DEADLINE: Duration = Duration::from_secs(30);

/// The masked result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// `None` after [`DEADLINE`].
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Outcome {
    /// Returns the complete result as lines, for a comparison line by line.
    pub(crate) fn lines(&self) -> Vec<String> {
        let code = self.code.map_or("still running".to_owned(), |code| format!("exit code {code}"));
        let (out, err) = (self.stdout.lines(), self.stderr.lines().map(|line| format!("stderr: {line}")));
        [code].into_iter().chain(out.map(str::to_owned)).chain(err).collect()
    }
}

/// A server as kubectl sees it.
pub(crate) struct Side {
    kubeconfig: PathBuf,
    /// Contains the program `kubectl` and its discovery cache.
    dir: TempDir,
}

impl Side {
    pub(crate) fn new(kubeconfig: &Path) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let kubectl = kubectl_program();
        // With a relative path, the script would call itself.
        ensure!(kubectl.is_absolute(), "no kubectl; .ci/real-apiserver builds one");
        let script = format!("#!/bin/sh\nexec '{}' --namespace=\"$NAMESPACE\" \"$@\"\n", kubectl.display());
        let program = dir.path().join("kubectl");
        std::fs::write(&program, script)?;
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
        Ok(Self { kubeconfig: kubeconfig.to_owned(), dir })
    }

    /// Runs all commands of `topic` in a new namespace.
    pub(crate) async fn run(&self, topic: &Topic) -> Result<Vec<Outcome>> {
        let mut masks = Masks::new();
        let namespace = format!("kubectl create namespace {}", topic.name);
        self.command(&topic.name, &namespace, &mut masks).await.context("the topic's namespace")?;
        let mut outcomes = Vec::with_capacity(topic.commands.len());
        for command in &topic.commands {
            outcomes
                .push(self.command(&topic.name, command, &mut masks).await.with_context(|| command.clone())?);
        }
        Ok(outcomes)
    }

    async fn command(&self, namespace: &str, line: &str, masks: &mut Masks) -> Result<Outcome> {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("source prelude.sh\n{line}\n")]).current_dir(folder());
        shell.env("PATH", format!("{}:{path}", self.dir.path().display()));
        shell.env("KUBECONFIG", &self.kubeconfig).env("NAMESPACE", namespace);
        // Disables the preferences of the user and the discovery cache of other servers, and sets the
        // language.
        shell.env("KUBERC", "off").env("KUBECACHEDIR", self.dir.path().join("cache")).env("LC_ALL", "C");
        shell.env("TMPDIR", self.dir.path());
        let running = shell.stdin(Stdio::null()).kill_on_drop(true).output();
        let Ok(ended) = timeout(DEADLINE, running).await else {
            return Ok(Outcome { code: None, stdout: String::new(), stderr: String::new() });
        };
        let ended = ended?;
        let mut masked = |bytes: &[u8]| masks.apply(&String::from_utf8_lossy(bytes));
        let (stdout, stderr) = (masked(&ended.stdout), masked(&ended.stderr));
        Ok(Outcome { code: ended.status.code(), stdout, stderr })
    }
}
