//! Who is compared, and how each is started.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use tokio::process::Command;

/// One of those who are compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) family: Family,
    program: Program,
}

/// Whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// This project.
    KubeInformer,
    /// kube-rs.
    KubeRuntime,
    /// Kubernetes' own.
    ClientGo,
}

#[derive(Clone, Copy, Debug)]
enum Program {
    /// `kube-bench client NAME`.
    Client(&'static str),
    /// The program in crates/bench/go with this content type.
    Go(&'static str),
}

/// What all are compared with.
pub(crate) const TYPED: &str = "kube-informer, typed";
pub(crate) const LAZY: &str = "kube-informer, lazy";
pub(crate) const COMPRESSED: &str = "kube-informer, compressed";
pub(crate) const CLIENT_GO_PROTOBUF: &str = "client-go, protobuf";
pub(crate) const KUBE_RUNTIME_LIST: &str = "kube-runtime, list";

const fn ours(name: &'static str, program: &'static str) -> Contender {
    Contender { name, family: Family::KubeInformer, program: Program::Client(program) }
}

const fn kube_runtime(name: &'static str, program: &'static str) -> Contender {
    Contender { name, family: Family::KubeRuntime, program: Program::Client(program) }
}

const fn client_go(name: &'static str, content_type: &'static str) -> Contender {
    Contender { name, family: Family::ClientGo, program: Program::Go(content_type) }
}

/// All of them, in the order of the tables.
const ALL: [Contender; 11] = [
    ours(TYPED, "typed"),
    ours("kube-informer, typed, a thread per core", "typed-threads"),
    ours("kube-informer, projection", "projection"),
    ours("kube-informer, metadata", "metadata"),
    ours(LAZY, "lazy"),
    ours(COMPRESSED, "compressed"),
    kube_runtime(KUBE_RUNTIME_LIST, "kube-runtime"),
    kube_runtime("kube-runtime, list, one thread", "kube-runtime-one"),
    kube_runtime("kube-runtime, streaming list", "kube-runtime-streaming"),
    client_go(CLIENT_GO_PROTOBUF, ""),
    client_go("client-go, JSON", "application/json"),
];

/// One that is not compared, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Its name.
    pub contender: String,
    /// Why.
    pub why: String,
}

/// Those who are compared here, and what they are started from.
pub(crate) struct Field {
    pub(crate) contenders: Vec<Contender>,
    pub(crate) skipped: Vec<Skipped>,
    /// This program.
    program: PathBuf,
    go: Option<PathBuf>,
}

impl Field {
    /// Chooses those whose name contains `only`, and builds what has to be built, into a folder.
    pub(crate) async fn gather(
        only: Option<&str>,
        program: &Path,
        protobuf: bool,
        folder: &Path,
    ) -> Result<Self> {
        let is_chosen = |contender: &Contender| only.is_none_or(|only| contender.name.contains(only));
        let chosen: Vec<Contender> = ALL.into_iter().filter(is_chosen).collect();
        let needs_go = chosen.iter().any(|contender| matches!(contender.program, Program::Go(_)));
        let go = if needs_go && has_go().await { Some(build_go(CLIENT_GO, folder).await?) } else { None };
        let (mut contenders, mut skipped) = (Vec::new(), Vec::new());
        for contender in chosen {
            let missing = match contender.program {
                Program::Go(_) if go.is_none() => NO_GO,
                Program::Go("") if !protobuf => "nothing was recorded in protobuf",
                Program::Client(_) | Program::Go(_) => {
                    contenders.push(contender);
                    continue;
                }
            };
            skipped.push(Skipped { contender: contender.name.into(), why: missing.into() });
        }
        ensure!(!contenders.is_empty() || !skipped.is_empty(), "no contender has {only:?} in its name");
        Ok(Self { contenders, skipped, program: program.to_owned(), go })
    }

    /// How one is started on this server.
    pub(crate) fn command(&self, contender: &Contender, server: &str) -> Result<Command> {
        Ok(match contender.program {
            Program::Client(name) => {
                let mut command = Command::new(&self.program);
                command.args(["client", name, "--server", server]);
                command
            }
            Program::Go(content_type) => {
                let mut command = Command::new(self.go.as_ref().context("it was not built")?);
                command.args(["-server", server, "-content-type", content_type]);
                command
            }
        })
    }

    /// The replay server of a recording.
    pub(crate) fn server(&self, recording: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("replay").arg(recording);
        command
    }
}

/// Why nothing in Go is measured.
pub(crate) const NO_GO: &str = "there is no go on PATH";

pub(crate) async fn has_go() -> bool {
    let mut command = Command::new("go");
    let quiet = command.arg("version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().await.is_ok_and(|status| status.success())
}

/// The module of client-go's programs: its folder in crates/bench, and what is built of it.
pub(crate) const CLIENT_GO: (&str, &str) = ("go", "client-go");

/// Builds a module of crates/bench; `go build` does nothing where nothing has changed.
pub(crate) async fn build_go((module, name): (&str, &str), folder: &Path) -> Result<PathBuf> {
    let program = std::path::absolute(folder.join(name))?;
    let mut command = Command::new("go");
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(module));
    command.args(["build", "-buildvcs=false", "-o"]).arg(&program).arg(".").env("GOTOOLCHAIN", "local");
    let built = command.stdin(Stdio::null()).output().await.context("starting go")?;
    ensure!(built.status.success(), "crates/bench/{module}: {}", String::from_utf8_lossy(&built.stderr));
    Ok(program)
}
