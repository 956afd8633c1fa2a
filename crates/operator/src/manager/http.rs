//! The HTTP servers of a manager: sockets that are bound early, and the tasks that serve pages on them.

use std::{
    net::{SocketAddr, TcpListener},
    sync::Arc,
};

use axum::Router;
use futures_util::FutureExt;

use super::{
    ManagerError, ManagerOptions,
    task_group::{TaskFn, TaskGroup},
};
use crate::{
    Leadership,
    observe::{
        health::Checks,
        pages::{PageState, all_pages, probe_pages},
        serve::{listen, serve},
    },
};

/// Bound sockets, and the checks that the pages run.
pub(super) struct HttpServers {
    pages: Option<BoundSocket>,
    probes: Option<BoundSocket>,
    pub(super) checks: Checks,
}

/// A listening socket with its actual address.
struct BoundSocket {
    listener: TcpListener,
    address: SocketAddr,
}

impl HttpServers {
    /// Binds the sockets. A wrong address is therefore an early error.
    pub(super) fn bind(options: &ManagerOptions) -> Result<Self, ManagerError> {
        let bind = |address: Option<SocketAddr>| {
            let Some(address) = address else { return Ok(None) };
            match listen(address) {
                Ok((listener, address)) => Ok(Some(BoundSocket { listener, address })),
                Err(source) => Err(ManagerError::Bind { address, source }),
            }
        };
        let (pages, probes) = (bind(options.bind_address)?, bind(options.probe_address)?);
        Ok(Self { pages, probes, checks: Checks::default() })
    }

    pub(super) fn local_address(&self) -> Option<SocketAddr> {
        self.pages.as_ref().map(|socket| socket.address)
    }

    pub(super) fn local_probe_address(&self) -> Option<SocketAddr> {
        self.probes.as_ref().map(|socket| socket.address)
    }

    /// Starts one task per socket. `state` creates the data of the pages.
    pub(super) fn start(&mut self, tasks: &mut TaskGroup, state: impl FnOnce(Checks) -> PageState) {
        let state = Arc::new(state(std::mem::take(&mut self.checks)));
        if let Some(socket) = self.pages.take() {
            let task = serve_task(socket, all_pages(Arc::clone(&state)));
            tasks.spawn("the HTTP server".to_owned(), Leadership::always(), task);
        }
        if let Some(socket) = self.probes.take() {
            let task = serve_task(socket, probe_pages(state));
            tasks.spawn("the probe server".to_owned(), Leadership::always(), task);
        }
    }
}

fn serve_task(socket: BoundSocket, router: Router) -> TaskFn {
    Box::new(move |_, stop| {
        async move {
            tracing::info!(address = %socket.address, "HTTP server started");
            Ok(serve(socket.listener, router, stop).await?)
        }
        .boxed()
    })
}
