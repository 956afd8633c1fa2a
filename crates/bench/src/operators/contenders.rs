//! The operators under comparison, and the commands that start them.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use tokio::process::Command;

use super::{CONCURRENCY, OperatorSettings};
use crate::contenders::{NO_GO, Skipped, build_go, has_go};

/// An operator under comparison.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contender {
    pub(super) name: &'static str,
    /// The operator uses another project.
    pub(super) is_peer: bool,
    program: Program,
}

#[derive(Clone, Copy, Debug)]
enum Program {
    /// `kube-bench operator NAME`.
    Operator(&'static str),
    /// The program in crates/bench/go-operator, with these flags.
    Go(&'static [&'static str]),
}

/// All operators, in the order of the tables.
const ALL: [Contender; 7] = [
    ours("kube-operator, typed", "typed"),
    ours("kube-operator, typed, a thread per core", "typed-threads"),
    ours("kube-operator, projections", "projections"),
    peer("kube-runtime", Program::Operator("kube-runtime")),
    peer("kube-runtime, one thread", Program::Operator("kube-runtime-one")),
    peer("controller-runtime", Program::Go(&[])),
    peer("controller-runtime, reading its writes", Program::Go(&["-read-your-writes"])),
];

const fn ours(name: &'static str, program: &'static str) -> Contender {
    Contender { name, is_peer: false, program: Program::Operator(program) }
}

const fn peer(name: &'static str, program: Program) -> Contender {
    Contender { name, is_peer: true, program }
}

/// The folder and the name of the operator in Go.
pub(crate) const CONTROLLER_RUNTIME: (&str, &str) = ("go-operator", "controller-runtime");

/// The selected operators and the programs that run them.
pub(super) struct Contenders {
    pub(super) contenders: Vec<Contender>,
    pub(super) skipped: Vec<Skipped>,
    /// The path of this program.
    program: PathBuf,
    go: Option<PathBuf>,
}

/// Checks before a measurement that the name of an operator contains `only`.
pub(crate) fn check(only: Option<&str>) -> Result<()> {
    chosen(only).map(drop)
}

/// Returns the operators whose name contains `only`.
fn chosen(only: Option<&str>) -> Result<Vec<Contender>> {
    let is_chosen = |contender: &Contender| only.is_none_or(|only| contender.name.contains(only));
    let chosen: Vec<Contender> = ALL.into_iter().filter(is_chosen).collect();
    let names = || ALL.map(|contender| format!("{:?}", contender.name)).join(", ");
    ensure!(
        !chosen.is_empty(),
        "the name of no operator contains {:?}; the names are {}",
        only.unwrap_or_default(),
        names()
    );
    Ok(chosen)
}

impl Contenders {
    /// Selects the operators whose name contains `only`, and builds the Go program if it is needed.
    pub(super) async fn select(only: Option<&str>, program: &Path, folder: &Path) -> Result<Self> {
        let is_go = |contender: &Contender| matches!(contender.program, Program::Go(_));
        let chosen = chosen(only)?;
        let needs_go = chosen.iter().any(is_go);
        let go =
            if needs_go && has_go().await { Some(build_go(CONTROLLER_RUNTIME, folder).await?) } else { None };
        let (missing, contenders): (Vec<_>, Vec<_>) =
            chosen.into_iter().partition(|contender| is_go(contender) && go.is_none());
        let skip = |contender: Contender| Skipped { contender: contender.name.into(), why: NO_GO.into() };
        let skipped = missing.into_iter().map(skip).collect();
        Ok(Self { contenders, skipped, program: program.to_owned(), go })
    }

    /// Returns the command that starts a cluster with Websites.
    pub(super) fn cluster(&self, settings: &OperatorSettings) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["cluster", "--objects", &settings.objects.to_string()]);
        if settings.real {
            command.arg("--real");
        }
        command
    }

    /// Returns the command that starts an operator.
    pub(super) fn operator(
        &self,
        contender: &Contender,
        kubeconfig: &Path,
        objects: usize,
    ) -> Result<Command> {
        let objects = objects.to_string();
        Ok(match contender.program {
            Program::Operator(name) => {
                let mut command = Command::new(&self.program);
                command.args(["operator", name, "--objects", &objects, "--kubeconfig"]).arg(kubeconfig);
                command
            }
            Program::Go(flags) => {
                let mut command = Command::new(self.go.as_ref().context("the Go program was not built")?);
                command.args(["-objects", &objects, "-concurrency", &CONCURRENCY.to_string()]);
                command.args(flags).arg("-kubeconfig").arg(kubeconfig);
                command
            }
        })
    }
}
