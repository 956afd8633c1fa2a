//! The connection of an operator to the server. Hazards happen between its requests.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use tokio::time::sleep;

use crate::chaos::hazard::Side;
use crate::chaos::world::World;
use crate::encoding::body::Body;
use crate::http::service::{ApiService, request_info_of};
use crate::http::service_error::ServiceError;

/// Connects a process of an operator to the server, as a [`tower::Service`](tower_service::Service). Create a
/// client with `kube_client::Client::new(service, "default")`.
///
/// Most requests take a few milliseconds, and some take up to 1.5 s. The latency depends on the seed and on
/// the request. Requests of a process that was killed never complete.
#[derive(Clone)]
pub struct ChaosService {
    service: ApiService,
    world: Arc<World>,
    process: u64,
}

impl std::fmt::Debug for ChaosService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ChaosService(process {})", self.process)
    }
}

impl ChaosService {
    pub(super) fn new(world: &Arc<World>, process: u64) -> Self {
        Self { service: world.server.service(), world: Arc::clone(world), process }
    }

    /// Returns a service that sends this bearer token with each request that has no token.
    pub fn with_token(self, token: &str) -> Self {
        Self { service: self.service.with_token(token), ..self }
    }

    /// Returns the number of the process. The first process has number 1.
    pub fn process(&self) -> u64 {
        self.process
    }

    async fn respond<B>(self, request: Request<B>) -> Result<Response<Body>, ServiceError>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let Self { service, world, process } = self;
        let info = request_info_of(&request);
        sleep(world.latency(&info)).await;
        let Some(hazards) = world.begin(process, &info) else { return std::future::pending().await };
        let what = format!("{} {}", info.verb.name(), request.uri().path());
        if hazards.kill == Some(Side::Before) {
            world.kill(format_args!("before {what}"));
            return std::future::pending().await;
        }
        let number = world.prepare(hazards.fault);
        let version = world.server.resource_version();
        let response = service.respond(request).await;
        world.end(
            number,
            &info,
            &what,
            version,
            response.as_ref().map(|response| response.status().as_u16()).ok(),
        );
        if hazards.kill == Some(Side::After) {
            world.kill(format_args!("after {what}"));
        }
        if !world.is_running(process) {
            return std::future::pending().await;
        }
        response
    }
}

impl<B> tower_service::Service<Request<B>> for ChaosService
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = ServiceError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        Box::pin(self.clone().respond(request))
    }
}
