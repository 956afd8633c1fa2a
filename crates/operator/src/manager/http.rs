//! The HTTP servers of a manager: sockets that are bound early, and the tasks that serve pages on them.

use std::{
    net::{SocketAddr, TcpListener},
    sync::Arc,
};

use axum::Router;
use futures_util::FutureExt;
use kube_client::Client;
use tokio::sync::watch;

use super::{
    Manager, ManagerError, ManagerOptions,
    task_group::{TaskFn, TaskGroup},
};
#[cfg(feature = "page")]
use crate::observe::page::{Access, BrowserState, browser_pages, sample};
#[cfg(feature = "tls")]
use crate::observe::{authorize::require_authorization, tls::ServingCertificate};
use crate::{
    Leadership,
    observe::{
        ManagerPhase,
        health::Checks,
        host::is_loopback,
        pages::{PageState, all_pages, probe_pages},
        serve::{Limits, Transport, listen, serve},
    },
};

impl Manager {
    /// Returns the bound address of the metrics, health and debug pages. If
    /// [`bind_address`](ManagerOptions::bind_address) contains port 0, the result contains the
    /// selected port.
    pub fn local_address(&self) -> Option<std::net::SocketAddr> {
        self.http.local_address()
    }

    /// Returns the bound address of the probe pages. If
    /// [`probe_address`](ManagerOptions::probe_address) contains port 0, the result contains the
    /// selected port.
    pub fn local_probe_address(&self) -> Option<std::net::SocketAddr> {
        self.http.local_probe_address()
    }

    /// Changes the router of the pages at [`bind_address`](ManagerOptions::bind_address), for example to add
    /// pages or middleware. These are `ExtraHandlers` and `FilterProvider` of controller-runtime.
    ///
    /// The manager calls `map` when it starts. If `SecureServing::authorize` is true,
    /// it authorizes each request before the middleware of `map`, also for the added pages. If `map` adds a
    /// page whose path exists already, the start panics. The pages at the probe address do not change.
    ///
    /// ```no_run
    /// # use kube_operator::{Manager, axum::{extract::Request, middleware::{self, Next}, routing::get}};
    /// # fn example(manager: &mut Manager) {
    /// manager.map_pages(|pages| {
    ///     let log = middleware::from_fn(async |request: Request, next: Next| {
    ///         println!("{}", request.uri().path());
    ///         next.run(request).await
    ///     });
    ///     pages.route("/version", get(async || env!("CARGO_PKG_VERSION"))).layer(log)
    /// });
    /// # }
    /// ```
    pub fn map_pages(&mut self, map: impl FnOnce(Router) -> Router + Send + 'static) {
        self.http.maps.push(Box::new(map));
    }

    /// Adds a check to `/readyz`. If the check returns an error, the page has the status 503, and
    /// contains the text of the error. The check must not block.
    pub fn add_readyz_check(
        &mut self,
        name: impl Into<String>,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.http.checks.readyz.push((name.into(), Box::new(check)));
    }

    /// Adds a check to `/healthz`. If the check returns an error, the page has the status 503, and
    /// contains the text of the error. If this page is the liveness probe, the kubelet restarts the
    /// container after several failures. The check must not block.
    pub fn add_healthz_check(
        &mut self,
        name: impl Into<String>,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.http.checks.healthz.push((name.into(), Box::new(check)));
    }
}

/// Bound sockets, and the checks that the pages run.
pub(super) struct HttpServers {
    pages: Option<BoundSocket>,
    probes: Option<BoundSocket>,
    security: PageSecurity,
    pub(super) checks: Checks,
    /// Change the router of the pages, in this order.
    maps: Vec<MapRouter>,
}

type MapRouter = Box<dyn FnOnce(Router) -> Router + Send>;

/// A listening socket with its actual address.
struct BoundSocket {
    listener: TcpListener,
    address: SocketAddr,
}

/// How the pages at the bind address are protected.
struct PageSecurity {
    transport: Transport,
    /// Sends the reviews of requests. `None` if requests need no token.
    #[cfg(feature = "tls")]
    reviewer: Option<Client>,
}

impl PageSecurity {
    #[cfg(feature = "tls")]
    fn new(options: &ManagerOptions, client: &Client) -> Result<Self, ManagerError> {
        let Some(secure) = options.secure_pages() else {
            return Ok(Self { transport: Transport::Plain, reviewer: None });
        };
        let certificate = ServingCertificate::new(&secure.certificate)?;
        let reviewer = secure.authorize.then(|| client.clone());
        Ok(Self { transport: Transport::Tls(certificate), reviewer })
    }

    #[cfg(not(feature = "tls"))]
    fn new(_: &ManagerOptions, _: &Client) -> Result<Self, ManagerError> {
        Ok(Self { transport: Transport::Plain })
    }

    #[cfg(feature = "tls")]
    fn protect(&self, router: Router) -> Router {
        match &self.reviewer {
            Some(client) => require_authorization(router, client.clone()),
            None => router,
        }
    }

    #[cfg(not(feature = "tls"))]
    fn protect(&self, router: Router) -> Router {
        router
    }
}

impl HttpServers {
    /// Loads the TLS certificate and binds the sockets. A wrong file or address is therefore an early
    /// error. `client` sends the reviews of requests, if `options` requires authorization.
    pub(super) fn bind(options: &ManagerOptions, client: &Client) -> Result<Self, ManagerError> {
        let security = PageSecurity::new(options, client)?;
        let bind = |address: Option<SocketAddr>| {
            let Some(address) = address else { return Ok(None) };
            match listen(address) {
                Ok((listener, address)) => Ok(Some(BoundSocket { listener, address })),
                Err(source) => Err(ManagerError::Bind { address, source }),
            }
        };
        let (pages, probes) = (bind(options.bind_address)?, bind(options.probe_address)?);
        Ok(Self { pages, probes, security, checks: Checks::default(), maps: Vec::new() })
    }

    pub(super) fn local_address(&self) -> Option<SocketAddr> {
        self.pages.as_ref().map(|socket| socket.address)
    }

    pub(super) fn local_probe_address(&self) -> Option<SocketAddr> {
        self.probes.as_ref().map(|socket| socket.address)
    }

    /// Returns the protection of the pages for browsers.
    #[cfg(feature = "page")]
    fn access(&self, address: SocketAddr) -> Access {
        if self.requires_token() {
            return Access::Token;
        }
        if is_loopback(address.ip()) { Access::Loopback } else { Access::Open }
    }

    /// Returns whether each request needs a token.
    fn requires_token(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.security.reviewer.is_some();
        #[cfg(not(feature = "tls"))]
        false
    }

    /// Starts one task per socket, and the task that samples the state for charts. `state` creates the data
    /// of the pages.
    pub(super) fn start(&mut self, tasks: &mut TaskGroup, state: impl FnOnce(Checks) -> PageState) {
        let state = Arc::new(state(std::mem::take(&mut self.checks)));
        if let Some(socket) = self.pages.take() {
            let maps = std::mem::take(&mut self.maps);
            let requires_local_host = is_loopback(socket.address.ip()) && !self.requires_token();
            let pages = all_pages(Arc::clone(&state), requires_local_host);
            // A fallback, so that pages of the program take precedence.
            #[cfg(feature = "page")]
            let pages =
                pages.fallback_service(browser_pages(Arc::clone(&state), self.access(socket.address)));
            let router = maps.into_iter().fold(pages, |router, map| map(router));
            #[cfg(feature = "page")]
            tasks.spawn(
                "the sampler of the pages".to_owned(),
                Leadership::always(),
                sample_task(Arc::clone(&state)),
            );
            let router = self.security.protect(router);
            let task = serve_task(socket, self.security.transport.clone(), router);
            tasks.spawn("the HTTP server".to_owned(), Leadership::always(), task);
        }
        if let Some(socket) = self.probes.take() {
            let task = serve_task(socket, Transport::Plain, probe_pages(state));
            tasks.spawn("the probe server".to_owned(), Leadership::always(), task);
        }
    }
}

impl Manager {
    /// Starts the servers of pages, probes and webhooks.
    pub(super) fn start_http(&mut self, tasks: &mut TaskGroup, phase: watch::Receiver<ManagerPhase>) {
        #[cfg(feature = "metrics")]
        let registry = {
            let mut registry = std::mem::take(&mut self.registry);
            self.register_metrics(&mut registry);
            #[cfg(target_os = "linux")]
            registry.register_collector(Box::new(crate::observe::process::ProcessCollector));
            registry
        };
        #[cfg(feature = "webhooks")]
        if let Some(server) = self.webhooks.take() {
            server.start(tasks, &self.metrics);
        }
        self.http.start(tasks, |checks| PageState {
            #[cfg(feature = "metrics")]
            registry,
            view: self.view.clone(),
            optional_informers: self.optional_informers.clone(),
            checks,
            phase,
            #[cfg(feature = "page")]
            browser: BrowserState::new(self.options.clone()),
        });
    }
}

fn serve_task(socket: BoundSocket, transport: Transport, router: Router) -> TaskFn {
    Box::new(move |_, stop| {
        async move {
            tracing::info!(address = %socket.address, "HTTP server started");
            Ok(serve(socket.listener, transport, router, Limits::PAGES, stop).await?)
        }
        .boxed()
    })
}

#[cfg(feature = "page")]
fn sample_task(state: Arc<PageState>) -> TaskFn {
    Box::new(move |_, stop| sample(state, stop).map(Ok).boxed())
}
