//! Webhooks that the embedded server calls in the process.

mod admission;
mod conversion;
mod http;
mod served;
