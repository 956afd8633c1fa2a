//! `Source`: reads the pages of a program, by URL or through a Pod.

use std::{pin::pin, time::Duration};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{
    HeaderValue, Request, StatusCode,
    header::{AUTHORIZATION, HOST},
};
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube_client::{Api, Client, client::Body};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::error::{MAX_PAGE_BYTES, WhyError};
use crate::output::shortened;

/// The characters of a path that are encoded. A key contains slashes.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The time in which a port-forward reports its error.
const PORT_ERROR_TIMEOUT: Duration = Duration::from_secs(1);

/// The way to a program.
pub(super) enum Transport {
    /// A client of the URL of the program. It is not a client of an API server.
    Url(Client),
    /// A port-forward to a port of a Pod.
    Pod { pods: Box<Api<Pod>>, name: String, port: u16 },
}

/// Reads the pages of one program.
pub(super) struct Source {
    pub(super) transport: Transport,
    /// The name of the program for messages, for example `pod shop/operator-0`.
    pub(super) program: String,
    /// The header `Authorization`.
    pub(super) authorization: Option<HeaderValue>,
    /// The maximum time for one page.
    pub(super) timeout: Duration,
}

/// A response to a request of a page.
struct Response {
    status: StatusCode,
    body: Vec<u8>,
}

/// Describes the reason for a missing response.
enum Failure {
    NoAnswer(String),
    TooLarge,
}

impl Source {
    /// Reads a page as text. The status code 503 is accepted, because `/readyz` uses it for failed checks.
    ///
    /// # Errors
    ///
    /// Fails if the program does not respond in time, or with another status code.
    pub(super) async fn text(&self, page: &str) -> Result<String, WhyError> {
        let response = self.get(page).await?;
        match response.status {
            StatusCode::OK | StatusCode::SERVICE_UNAVAILABLE => {
                Ok(String::from_utf8_lossy(&response.body).into_owned())
            }
            _ => Err(self.status_error(page, &response)),
        }
    }

    /// Reads a page as JSON.
    ///
    /// # Errors
    ///
    /// Fails if the program does not respond in time, with another status code, or with other JSON.
    pub(super) async fn json<T: serde::de::DeserializeOwned>(&self, page: &str) -> Result<T, WhyError> {
        let response = self.get(page).await?;
        if response.status != StatusCode::OK {
            return Err(self.status_error(page, &response));
        }
        serde_json::from_slice(&response.body).map_err(|source| WhyError::Malformed {
            program: self.program.clone(),
            page: page.to_owned(),
            source,
        })
    }

    /// Reads a page that only some programs serve. `None` if the status code is 404.
    ///
    /// # Errors
    ///
    /// Fails like [`json`](Self::json).
    pub(super) async fn optional_json<T: serde::de::DeserializeOwned>(
        &self,
        page: &str,
    ) -> Result<Option<T>, WhyError> {
        match self.json(page).await {
            Ok(value) => Ok(Some(value)),
            Err(WhyError::NoPage { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads the page that explains a key.
    ///
    /// # Errors
    ///
    /// Fails like [`json`](Self::json), and if the program does not know the controller or the key.
    pub(super) async fn explanation<T: serde::de::DeserializeOwned>(
        &self,
        controller: &str,
        key: &str,
    ) -> Result<T, WhyError> {
        let (controller, key) = (utf8_percent_encode(controller, ENCODED), utf8_percent_encode(key, ENCODED));
        let page = format!("/debug/why/{}/{key}", controller.to_string().replace('/', "%2F"));
        let response = self.get(&page).await?;
        let text = String::from_utf8_lossy(&response.body);
        // A program without this page responds with an empty body.
        if response.status == StatusCode::NOT_FOUND && !text.trim().is_empty() && !text.contains('<') {
            let problem = format!("{}: {}", self.program, shortened(text.trim(), 500));
            return Err(WhyError::UnknownKey(problem));
        }
        if response.status != StatusCode::OK {
            return Err(self.status_error(&page, &response));
        }
        let malformed =
            |source| WhyError::Malformed { program: self.program.clone(), page: page.clone(), source };
        serde_json::from_slice(&response.body).map_err(malformed)
    }

    async fn get(&self, page: &str) -> Result<Response, WhyError> {
        let (program, page) = (self.program.clone(), page.to_owned());
        let response = async {
            match &self.transport {
                Transport::Url(client) => self.get_url(client, &page).await,
                Transport::Pod { pods, name, port } => self.get_pod(pods, name, *port, &page).await,
            }
        };
        match tokio::time::timeout(self.timeout, response).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(Failure::NoAnswer(problem))) => Err(WhyError::NoAnswer { program, problem }),
            Ok(Err(Failure::TooLarge)) => Err(WhyError::TooLarge { program, page }),
            Err(_) => Err(WhyError::TimedOut { program, page, timeout: self.timeout }),
        }
    }

    async fn get_url(&self, client: &Client, page: &str) -> Result<Response, Failure> {
        let request = self.request(page).body(Body::empty()).map_err(no_answer)?;
        let response = client.send(request).await.map_err(no_answer)?;
        read(response).await
    }

    /// Opens a port-forward for one request.
    async fn get_pod(&self, pods: &Api<Pod>, name: &str, port: u16, page: &str) -> Result<Response, Failure> {
        let mut forward = pods.portforward(name, &[port]).await.map_err(|error| match error {
            kube_client::Error::Api(status) => Failure::NoAnswer(format!("port-forward: {}", status.message)),
            error => no_answer(error),
        })?;
        let stream = forward.take_stream(port);
        let stream = stream.ok_or_else(|| Failure::NoAnswer("the port-forward has no stream".to_owned()))?;
        // The kubelet reports on another channel that the port is closed.
        let reported = forward.take_error(port);
        let reported = async move {
            match reported {
                Some(error) => error.await,
                None => None,
            }
        };
        let mut reported = pin!(reported.fuse());
        let result = tokio::select! {
            Some(problem) = &mut reported => Err(Failure::NoAnswer(problem)),
            result = self.exchange(stream, page) => match result {
                Err(Failure::NoAnswer(problem)) => {
                    let reported = tokio::time::timeout(PORT_ERROR_TIMEOUT, reported).await.ok().flatten();
                    Err(Failure::NoAnswer(reported.unwrap_or(problem)))
                }
                result => result,
            },
        };
        forward.abort();
        result
    }

    /// Sends a request over a stream, and reads the response.
    async fn exchange(&self, stream: tokio::io::DuplexStream, page: &str) -> Result<Response, Failure> {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(no_answer)?;
        let request = self.request(page).header(HOST, "localhost").body(Empty::<Bytes>::new());
        let request = request.map_err(no_answer)?;
        let response = async move { read(sender.send_request(request).await.map_err(no_answer)?).await };
        let (mut response, connection) = (pin!(response), pin!(connection));
        tokio::select! {
            response = &mut response => response,
            // The response may be complete although the connection is closed.
            _ = connection => response.await,
        }
    }

    fn request(&self, page: &str) -> http::request::Builder {
        let request = Request::get(page);
        match &self.authorization {
            Some(value) => request.header(AUTHORIZATION, value),
            None => request,
        }
    }

    fn status_error(&self, page: &str, response: &Response) -> WhyError {
        let (program, page) = (self.program.clone(), page.to_owned());
        match response.status {
            StatusCode::UNAUTHORIZED => WhyError::Unauthorized { program, page },
            StatusCode::FORBIDDEN => WhyError::Forbidden { program, page },
            StatusCode::NOT_FOUND => WhyError::NoPage { program, page },
            status => {
                let text = shortened(String::from_utf8_lossy(&response.body).trim(), 200);
                WhyError::Status { program, page, code: status.as_u16(), text }
            }
        }
    }
}

async fn read<B>(response: http::Response<B>) -> Result<Response, Failure>
where
    B: http_body::Body<Data = Bytes, Error: std::error::Error + 'static> + Unpin,
{
    let (parts, mut stream) = response.into_parts();
    let mut body = Vec::new();
    while let Some(frame) = stream.frame().await {
        if let Ok(data) = frame.map_err(no_answer)?.into_data() {
            body.extend_from_slice(&data);
        }
        if body.len() > MAX_PAGE_BYTES {
            return Err(Failure::TooLarge);
        }
    }
    Ok(Response { status: parts.status, body })
}

fn no_answer(error: impl std::error::Error + 'static) -> Failure {
    Failure::NoAnswer(crate::error::with_sources(&error))
}
