//! The compared programs, and the commands that start them.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use crate::wire::Kind;

/// A compared program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) family: Family,
    program: Program,
}

/// Describes the project of a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// This project.
    KubeInformer,
    /// The kube-rs project.
    KubeRuntime,
    /// The Go client of Kubernetes.
    ClientGo,
}

#[derive(Clone, Copy, Debug)]
enum Program {
    /// `kube-bench client NAME`.
    Client(&'static str),
    /// `kube-bench client NAME` with `GLIBC_TUNABLES=glibc.malloc.tcache_count=2000` in its environment.
    LargeTcache(&'static str),
    /// The program in crates/bench/go with this content type.
    Go(&'static str),
    /// The program in crates/bench/go, which removes `managedFields` from objects before it caches them.
    GoWithoutManagedFields,
}

/// Contenders that the aims and ratios refer to.
pub(crate) const TYPED: &str = "kube-informer, typed";
pub(crate) const TYPED_PER_CORE: &str = "kube-informer, typed, a thread per core";
pub(crate) const LAZY: &str = "kube-informer, lazy";
pub(crate) const COMPRESSED: &str = "kube-informer, compressed";
pub(crate) const CLIENT_GO_PROTOBUF: &str = "client-go, protobuf";
pub(crate) const CLIENT_GO_JSON: &str = "client-go, JSON";
pub(crate) const KUBE_RUNTIME_ONE_THREAD: &str = "kube-runtime, list, one thread";

const fn ours(name: &'static str, program: &'static str) -> Contender {
    Contender { name, family: Family::KubeInformer, program: Program::Client(program) }
}

const fn large_tcache(name: &'static str, program: &'static str) -> Contender {
    Contender { name, family: Family::KubeInformer, program: Program::LargeTcache(program) }
}

const fn kube_runtime(name: &'static str, program: &'static str) -> Contender {
    Contender { name, family: Family::KubeRuntime, program: Program::Client(program) }
}

const fn client_go(name: &'static str, content_type: &'static str) -> Contender {
    Contender { name, family: Family::ClientGo, program: Program::Go(content_type) }
}

/// All contenders, in the order of the tables.
const ALL: [Contender; 14] = [
    ours(TYPED, "typed"),
    large_tcache("kube-informer, typed, tcache_count=2000", "typed"),
    ours(TYPED_PER_CORE, "typed-threads"),
    ours("kube-informer, projection", "projection"),
    ours("kube-informer, metadata", "metadata"),
    ours(LAZY, "lazy"),
    ours(COMPRESSED, "compressed"),
    kube_runtime("kube-runtime, list", "kube-runtime"),
    kube_runtime(KUBE_RUNTIME_ONE_THREAD, "kube-runtime-one"),
    kube_runtime("kube-runtime, list, one thread, no managedFields", "kube-runtime-one-no-managed-fields"),
    kube_runtime("kube-runtime, streaming list", "kube-runtime-streaming"),
    client_go(CLIENT_GO_PROTOBUF, ""),
    Contender {
        name: "client-go, protobuf, no managedFields",
        family: Family::ClientGo,
        program: Program::GoWithoutManagedFields,
    },
    client_go(CLIENT_GO_JSON, "application/json"),
];

/// Further programs, which only the measurement with a real kube-apiserver runs. The replay server does not
/// support selectors and compression.
const SERVER_ONLY: [Contender; 4] = [
    ours("kube-informer, typed, streaming list", "typed-streaming"),
    ours("kube-informer, typed, gzip", "typed-gzip"),
    ours("kube-informer, typed, Pods of one node", "typed-node"),
    ours("kube-informer, lazy, gzip", "lazy-gzip"),
];

/// The contenders of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    /// The contenders that read a replay.
    Replay,
    /// All contenders.
    Server,
}

impl Field {
    fn contenders(self) -> impl Iterator<Item = Contender> {
        let further: &[Contender] = if self == Self::Server { &SERVER_ONLY } else { &[] };
        ALL.into_iter().chain(further.iter().copied())
    }
}

/// Represents a contender that was not measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// The name of the contender.
    pub contender: String,
    /// The reason why the contender was not measured.
    pub why: String,
}

/// The server of a contender.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Endpoint<'a> {
    /// A server without TLS and authentication.
    Url(&'a str),
    /// A server in the current context of a kubeconfig.
    Kubeconfig(&'a Path),
}

/// The selected contenders and the programs that run them.
pub(crate) struct Contenders {
    pub(crate) contenders: Vec<Contender>,
    pub(crate) skipped: Vec<Skipped>,
    /// The path of this program.
    program: PathBuf,
    go: Option<PathBuf>,
}

/// Checks before a measurement that the name of a contender contains `only`.
pub(crate) fn check(field: Field, only: Option<&str>) -> Result<()> {
    chosen(field, only).map(drop)
}

/// Returns the contenders whose name contains `only`.
fn chosen(field: Field, only: Option<&str>) -> Result<Vec<Contender>> {
    let is_chosen = |contender: &Contender| only.is_none_or(|only| contender.name.contains(only));
    let chosen: Vec<Contender> = field.contenders().filter(is_chosen).collect();
    let names = || {
        let names: Vec<_> = field.contenders().map(|contender| format!("{:?}", contender.name)).collect();
        names.join(", ")
    };
    ensure!(
        !chosen.is_empty(),
        "the name of no contender contains {:?}; the names are {}",
        only.unwrap_or_default(),
        names()
    );
    Ok(chosen)
}

impl Contenders {
    /// Selects the contenders whose name contains `only`, and builds the Go program if it is
    /// needed.
    pub(crate) async fn select(
        field: Field,
        only: Option<&str>,
        program: &Path,
        protobuf: bool,
        folder: &Path,
    ) -> Result<Self> {
        let chosen = chosen(field, only)?;
        let needs_go = chosen.iter().any(|contender| contender.family == Family::ClientGo);
        let go = if needs_go && has_go().await { Some(build_go(CLIENT_GO, folder).await?) } else { None };
        let (mut contenders, mut skipped) = (Vec::new(), Vec::new());
        for contender in chosen {
            let needs_protobuf =
                matches!(contender.program, Program::Go("") | Program::GoWithoutManagedFields);
            let missing = match contender.family {
                Family::ClientGo if go.is_none() => NO_GO,
                Family::ClientGo if needs_protobuf && !protobuf => "the recording contains no protobuf",
                Family::KubeInformer | Family::KubeRuntime | Family::ClientGo => {
                    contenders.push(contender);
                    continue;
                }
            };
            skipped.push(Skipped { contender: contender.name.into(), why: missing.into() });
        }
        Ok(Self { contenders, skipped, program: program.to_owned(), go })
    }

    /// Returns the command that starts a contender.
    pub(crate) fn command(&self, contender: &Contender, endpoint: Endpoint<'_>) -> Result<Command> {
        self.command_of(contender, Kind::Pod, endpoint)
    }

    /// Returns the command that starts a contender with an informer of this kind.
    pub(crate) fn command_of(
        &self,
        contender: &Contender,
        kind: Kind,
        endpoint: Endpoint<'_>,
    ) -> Result<Command> {
        let mut command = match contender.program {
            Program::Client(name) => self.client(name),
            Program::LargeTcache(name) => {
                let mut command = self.client(name);
                command.env("GLIBC_TUNABLES", "glibc.malloc.tcache_count=2000");
                command
            }
            Program::Go(content_type) => {
                let mut command = self.client_go()?;
                command.args(["-content-type", content_type]);
                command
            }
            Program::GoWithoutManagedFields => {
                let mut command = self.client_go()?;
                command.arg("-strip-managed-fields");
                command
            }
        };
        if kind != Kind::Pod {
            command.args(["--resource", kind.plural()]);
        }
        match endpoint {
            Endpoint::Url(url) => command.args(["--server", url]),
            Endpoint::Kubeconfig(file) => command.arg("--kubeconfig").arg(file),
        };
        Ok(command)
    }

    fn client(&self, name: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["client", name]);
        command
    }

    fn client_go(&self) -> Result<Command> {
        Ok(Command::new(self.go.as_ref().context("the Go program was not built")?))
    }

    /// Returns the command that converts objects of this kind from JSON to protobuf.
    pub(crate) fn encoder(&self, kind: Kind) -> Result<Command> {
        let mut command = self.client_go()?;
        let texts = kind.texts();
        command.args(["encode", texts.api_version, texts.kind]);
        Ok(command)
    }

    /// Returns the command that starts a replay server.
    pub(crate) fn server(&self, recording: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("replay").arg(recording);
        command
    }
}

/// The reason why programs in Go are skipped.
pub(crate) const NO_GO: &str = "go is not on PATH";

pub(crate) async fn has_go() -> bool {
    let mut command = Command::new("go");
    let quiet = command.arg("version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().await.is_ok_and(|status| status.success())
}

/// The folder in crates/bench and the name of the client-go program.
pub(crate) const CLIENT_GO: (&str, &str) = ("go", "client-go");

/// Builds a Go module of crates/bench. `go build` does not build an unchanged module again.
pub(crate) async fn build_go((module, name): (&str, &str), folder: &Path) -> Result<PathBuf> {
    let program = std::path::absolute(folder.join(name))?;
    let mut command = Command::new("go");
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(module));
    command.args(["build", "-buildvcs=false", "-o"]).arg(&program).arg(".").env("GOTOOLCHAIN", "local");
    let built = command.stdin(Stdio::null()).output().await.context("cannot start go")?;
    ensure!(
        built.status.success(),
        "go build in crates/bench/{module} failed: {}",
        String::from_utf8_lossy(&built.stderr)
    );
    Ok(program)
}
