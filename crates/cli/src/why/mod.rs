//! `why`: explains the queues and keys of a running kube-operator program, from its debug pages.

mod address;
mod demo;
mod error;
mod model;
mod pods;
mod source;
mod text;

use clap::Args;

use crate::{
    connection::Session,
    error::CliError,
    exit::ExitStatus,
    flags::{ConnectionFlags, OutputFlags},
    output::{Format, print_document, print_text},
    terminal::Terminal,
};
use address::AddressFlags;
use demo::DemoOperator;
use error::WhyError;
use model::{Check, Program, Report, Role, checks};
use source::Source;
use text::{Style, text};

/// The options of `why`.
#[derive(Debug, Args)]
pub(crate) struct WhyFlags {
    /// The name of a controller. The default is all controllers.
    #[arg(value_name = "CONTROLLER")]
    controller: Option<String>,
    /// The key of an object: NAMESPACE/NAME, NAME, or CLUSTER/NAMESPACE/NAME.
    #[arg(value_name = "KEY", requires = "controller")]
    key: Option<String>,
    #[command(flatten)]
    output: OutputFlags,
    // The heading of these flags also applies to later flags, so they are the last.
    #[command(flatten)]
    address: AddressFlags,
}

/// Prints the state of a running program, a controller or a key.
///
/// # Errors
///
/// Fails if no process of the program can be read, or if it does not know the controller or the key.
pub(crate) async fn why(
    connection: &ConnectionFlags,
    flags: &WhyFlags,
    terminal: Terminal,
) -> Result<ExitStatus, CliError> {
    let address = &flags.address;
    let report = if let Some(url) = &address.url {
        let source = address.url_source(url, connection).await?;
        Report { choice: None, programs: vec![read(&source, flags).await?], problems: Vec::new() }
    } else if !connection.demo && address.pod.is_none() && address.deploy.is_none() {
        let problem = "choose a program with --url URL, --pod NAME or --deploy NAME, or try --demo";
        return Err(CliError::Usage(problem.to_owned()));
    } else {
        let session = Session::open(connection).await?;
        let report = report_of_cluster(&session, connection, flags).await;
        session.close().await;
        report?
    };
    if !print_document(&flags.output.output, &report)? {
        let style = Style { terminal, is_wide: flags.output.output == Format::Wide };
        print_text(&text(&report, style))?;
    }
    Ok(ExitStatus::Success)
}

async fn report_of_cluster(
    session: &Session,
    connection: &ConnectionFlags,
    flags: &WhyFlags,
) -> Result<Report, CliError> {
    let address = &flags.address;
    if let Some(name) = &address.deploy {
        return report_of_deployment(session, flags, name).await;
    }
    if let Some(name) = &address.pod {
        let source = address.pod_source(session, name)?;
        return Ok(Report {
            choice: None,
            programs: vec![read(&source, flags).await?],
            problems: Vec::new(),
        });
    }
    let operator = DemoOperator::start(session)?;
    let program = async {
        let source = address.url_source(&operator.url, connection).await?;
        operator.until_failing(session, &source).await?;
        Ok::<_, CliError>(read(&source, flags).await?)
    };
    let program = program.await;
    operator.stop().await?;
    let mut choice = "the program of the demo".to_owned();
    if flags.key.is_none() {
        choice.push_str("; for one key: kubectl informer why --demo prices shop/payments");
    }
    Ok(Report { choice: Some(choice), programs: vec![program?], problems: Vec::new() })
}

/// Reads the leader of a Deployment, or all its Pods.
async fn report_of_deployment(session: &Session, flags: &WhyFlags, name: &str) -> Result<Report, CliError> {
    let names = pods::running_pods(session, &flags.address, name).await?;
    let (mut processes, mut failures) = (Vec::new(), Vec::new());
    for pod in &names {
        let source = flags.address.pod_source(session, pod)?;
        match read_checks(&source).await {
            Ok(checks) => processes.push((source, checks)),
            Err(error) => failures.push(error),
        }
    }
    let leader = processes.iter().position(|(_, checks)| Role::of(checks) == Role::Leader);
    let choice = match leader.filter(|_| !flags.address.all_pods) {
        Some(index) => {
            processes = vec![processes.swap_remove(index)];
            format!("the leader of {} Pods of the Deployment {name}", names.len())
        }
        None => format!("{} Pods of the Deployment {name}", names.len()),
    };
    let mut programs = Vec::new();
    for (source, checks) in processes {
        match read_with(&source, checks, flags).await {
            Ok(program) => programs.push(program),
            Err(error) => failures.push(error),
        }
    }
    if programs.is_empty()
        && let Some(error) = failures.pop()
    {
        return Err(error.into());
    }
    let problems = failures.iter().map(|error| error.to_string()).collect();
    Ok(Report { choice: Some(choice), programs, problems })
}

async fn read(source: &Source, flags: &WhyFlags) -> Result<Program, WhyError> {
    read_with(source, read_checks(source).await?, flags).await
}

/// Reads the checks of `/readyz`. A client that may not read this page can perhaps read the debug pages.
async fn read_checks(source: &Source) -> Result<Vec<Check>, WhyError> {
    match source.text("/readyz").await {
        Ok(text) => Ok(checks(&text)),
        Err(WhyError::Forbidden { .. } | WhyError::NoPage { .. }) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

async fn read_with(source: &Source, checks: Vec<Check>, flags: &WhyFlags) -> Result<Program, WhyError> {
    let mut program = Program {
        program: source.program.clone(),
        role: Role::of(&checks),
        queues: Vec::new(),
        informers: Vec::new(),
        clusters: Vec::new(),
        shards: None,
        checks,
        explanation: None,
    };
    if let (Some(controller), Some(key)) = (&flags.controller, &flags.key) {
        program.explanation = Some(source.explanation(controller, key).await?);
        return Ok(program);
    }
    program.queues = source.json("/debug/queues").await?;
    if let Some(controller) = &flags.controller {
        let names: Vec<_> = program.queues.iter().map(|queue| queue.controller.clone()).collect();
        program.queues.retain(|queue| queue.controller == *controller);
        if program.queues.is_empty() {
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            let problem = format!("{} has no controller {controller}; it has: {names}", source.program);
            return Err(WhyError::UnknownKey(problem));
        }
        return Ok(program);
    }
    program.informers = source.json("/debug/informers").await?;
    program.clusters = source.optional_json("/debug/clusters").await?.unwrap_or_default();
    program.shards = source.optional_json("/debug/shards").await?;
    Ok(program)
}

impl From<WhyError> for CliError {
    fn from(error: WhyError) -> Self {
        Self::Command(Box::new(error))
    }
}
