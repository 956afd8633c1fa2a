//! The routes of the pages for browsers.

use std::sync::Arc;

use axum::{
    Router,
    extract::{Path, Request, State},
    http::{HeaderMap, StatusCode, header::ACCEPT},
    middleware,
    response::{Html, IntoResponse, Response},
    routing::{MethodRouter, get},
};

use super::{
    assets, layout, live,
    parts::{Section, empty},
    security::{Access, protect},
    view::{Page, View},
};
use crate::observe::pages::PageState;

/// Returns the router of the pages. The routes accept only GET and HEAD.
pub(crate) fn browser_pages(state: Arc<PageState>, access: Access) -> Router {
    let mut router = Router::new()
        .route("/ui/key/{controller}/{*key}", get(key))
        .route("/ui/assets/{name}", get(assets::asset))
        .route("/ui/{*other}", get(unknown));
    for view in View::LINKED {
        let path = view.path();
        router = router.route(path, page_route(view, access));
    }
    router
        .layer(middleware::from_fn_with_state(access, protect))
        .layer(axum::Extension(access))
        .with_state(state)
}

fn page_route(view: View, access: Access) -> MethodRouter<Arc<PageState>> {
    get(async move |State(state): State<Arc<PageState>>, request: Request| {
        respond(&state, view, access, &request)
    })
}

async fn key(
    State(state): State<Arc<PageState>>,
    axum::Extension(access): axum::Extension<Access>,
    Path((controller, key)): Path<(String, String)>,
    request: Request,
) -> Response {
    respond(&state, View::Key { controller, key }, access, &request)
}

/// Returns the page, or a stream of its updates if the client requests one.
fn respond(state: &Arc<PageState>, view: View, access: Access, request: &Request) -> Response {
    if accepts_events(request.headers()) {
        return live::stream(Arc::clone(state), view, access, request.extensions());
    }
    let page = view.render(state);
    (page.status, Html(layout::document(state, &view, &page).into_string())).into_response()
}

fn accepts_events(headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT).and_then(|accepted| accepted.to_str().ok());
    accepted.is_some_and(|accepted| accepted.contains("text/event-stream"))
}

async fn unknown(State(state): State<Arc<PageState>>) -> Response {
    let body = empty("No page has this address. Select a page above.");
    let page = Page {
        status: StatusCode::NOT_FOUND,
        title: "Unknown page".to_owned(),
        lead: "",
        sections: vec![Section::new("unknown", "Not found", body)],
    };
    // No link in the navigation refers to this page.
    let view = View::Key { controller: String::new(), key: String::new() };
    (page.status, Html(layout::document(&state, &view, &page).into_string())).into_response()
}
