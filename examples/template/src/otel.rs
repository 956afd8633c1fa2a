//! Sends the spans of the reconciles to an OpenTelemetry collector, by OTLP over HTTP.

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::{
    Resource,
    trace::{SdkTracerProvider, Tracer},
};
use tracing::Subscriber;
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::registry::LookupSpan;

use crate::NAME;

/// The standard variables for the address of the collector.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// Returns a layer that sends spans to the collector in the environment. Without the variable
/// `OTEL_EXPORTER_OTLP_ENDPOINT`, returns `None`, and nothing is sent.
///
/// # Errors
/// Fails if the address is invalid.
pub(crate) fn layer_of_environment<S>() -> anyhow::Result<Option<OpenTelemetryLayer<S, Tracer>>>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    if ENDPOINTS.iter().all(|name| std::env::var_os(name).is_none_or(|value| value.is_empty())) {
        return Ok(None);
    }
    Ok(Some(layer(&provider(None)?)))
}

fn layer<S>(provider: &SdkTracerProvider) -> OpenTelemetryLayer<S, Tracer>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    tracing_opentelemetry::layer().with_tracer(provider.tracer(NAME))
}

/// Returns a provider that sends spans in batches. Without `endpoint`, it reads the environment.
fn provider(endpoint: Option<&str>) -> anyhow::Result<SdkTracerProvider> {
    let mut exporter = SpanExporter::builder().with_http().with_protocol(Protocol::HttpBinary);
    if let Some(endpoint) = endpoint {
        exporter = exporter.with_endpoint(endpoint);
    }
    let resource = Resource::builder().with_service_name(NAME).build();
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter.build()?);
    Ok(provider.with_resource(resource).build())
}

#[cfg(test)]
mod tests;
