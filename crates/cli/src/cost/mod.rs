//! `cost`: the cost of an informer in this cluster.
//!
//! The command lists each resource page by page. It builds each representation of an object in memory, counts
//! the bytes, and drops the object. `kube-bench calibrate` computes the model of other libraries.

mod advice;
mod attribution;
mod calibration;
mod chart;
mod chosen;
mod churn;
mod counted;
mod features;
mod forms;
mod html;
mod kinds;
mod listing;
mod measure;
mod model;
mod parts;
mod progress;
mod report;
mod rights;
mod savings;
mod selectors;
mod snippets;
mod text;
mod usage;

use std::{path::PathBuf, pin::pin, time::Duration};

use clap::Args;
use kube_informer::LabelSelector;

use crate::{
    connection::Session,
    error::{CliError, check_folder_of},
    exit::ExitStatus,
    flags::{OutputFlags, SelectionFlags, duration},
    interrupt::interrupted,
    output::{Format, print_document, print_text},
    resources::Catalog,
    terminal::Terminal,
};
use chosen::Chosen;
use forms::FieldPath;
use listing::ListSettings;
use measure::{measure, unless_interrupted};
use model::Library;
use report::{Failure, Report, Results};
use rights::Workload;
use text::Width;

/// The number of replicas if neither the command line nor the workload contains it.
const DEFAULT_REPLICAS: u64 = 1;

/// The options of `cost`.
#[derive(Debug, Args)]
pub(crate) struct CostFlags {
    /// The resources, for example pods or deployments.apps. The default is all resources that support list
    /// and watch.
    #[arg(value_name = "RESOURCE")]
    resources: Vec<String>,
    /// After the lists, watch for this time, for example 60s. Count the events of each field manager.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    duration: Option<Duration>,
    /// Also measure a cache of kube-informer with only these fields, for example spec.nodeName,status.phase.
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    fields: Vec<FieldPath>,
    /// Measure only the resources that the service account of a workload may list and watch: deploy/NAME,
    /// statefulset/NAME or daemonset/NAME, in the namespace of --namespace.
    #[arg(long, value_name = "KIND/NAME", conflicts_with = "resources")]
    of_workload: Option<Workload>,
    /// The library that your program uses now. The advice compares its memory with the memory after a change.
    #[arg(long, value_enum, default_value_t = Library::ClientGo)]
    library: Library,
    /// Also print the size of each cache with this label selector. The flag can be repeated.
    #[arg(long, value_name = "SELECTOR", value_parser = label_selector)]
    try_selector: Vec<(String, LabelSelector)>,
    /// The number of replicas that restart at the same time. The default is the number of replicas of the
    /// workload, or 1.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    replicas: Option<u64>,
    /// Also write the report as one HTML file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    output: OutputFlags,
    // The heading of these flags also applies to later flags, so they are the last.
    #[command(flatten)]
    selection: SelectionFlags,
}

fn label_selector(text: &str) -> Result<(String, LabelSelector), String> {
    let selector = text.parse::<LabelSelector>().map_err(|error| error.to_string())?;
    Ok((text.to_owned(), selector))
}

/// Measures the chosen resources, and prints the report.
///
/// A resource that cannot be read is a row of the report, with its reason. Ctrl-C stops the measurement,
/// and prints the report of the previous measurements.
///
/// # Errors
///
/// Fails if the resources of the server, the workload or its rights cannot be read, or if the report cannot
/// be written.
pub(crate) async fn cost(
    session: &Session,
    flags: &CostFlags,
    terminal: Terminal,
) -> Result<ExitStatus, CliError> {
    flags.html.as_deref().map_or(Ok(()), check_folder_of)?;
    let mut interrupt = pin!(interrupted());
    let prepared = async {
        let catalog = Catalog::read(&session.direct_client).await?;
        catalog.print_problem();
        let chosen = Chosen::new(session, flags, &catalog).await?;
        Ok::<_, CliError>((catalog, chosen))
    };
    let Some(prepared) = unless_interrupted(interrupt.as_mut(), prepared).await else {
        return Ok(ExitStatus::Interrupted);
    };
    let (catalog, chosen) = prepared?;
    let settings = flags.settings();
    let measured =
        measure(&session.client, chosen.targets, &settings, flags.duration, interrupt.as_mut()).await;
    let (listed, mut failures) = (measured.listed, measured.failures);
    let groups = catalog.failures.iter().filter(|_| flags.resources.is_empty());
    failures.extend(groups.map(|(group, error)| Failure { resource: group.clone(), reason: error.clone() }));
    let is_failed = listed.is_empty() && !failures.is_empty();
    let report = Report::new(Results {
        cluster: session.target.clone(),
        account: chosen.account,
        library: flags.library,
        replicas: flags.replicas.or(chosen.replicas).unwrap_or(DEFAULT_REPLICAS).max(1),
        listed,
        failures,
    });
    if !print_document(&flags.output.output, &report)? {
        let width = if flags.output.output == Format::Wide { Width::Wide } else { Width::Usual };
        print_text(&text::text(&report, width, terminal))?;
    }
    if let Some(file) = &flags.html {
        let written = tokio::fs::write(file, html::page(&report)).await;
        written.map_err(|source| CliError::File { operation: "write", file: file.clone(), source })?;
    }
    Ok(match (measured.is_interrupted, is_failed) {
        (true, _) => ExitStatus::Interrupted,
        (false, true) => ExitStatus::Failure,
        (false, false) => ExitStatus::Success,
    })
}

impl CostFlags {
    fn settings(&self) -> ListSettings {
        ListSettings {
            label_selector: self.selection.selector.clone(),
            field_selector: self.selection.field_selector.clone(),
            fields: self.fields.clone(),
            selectors: self.try_selector.clone(),
            holds_objects: self.duration.is_some(),
        }
    }
}
