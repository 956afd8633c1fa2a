//! The style sheet, the script and the icon of the pages.

use axum::{
    extract::Path,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};

/// The name, the type and the text of each file.
const ASSETS: [(&str, &str, &str); 3] = [
    ("page.css", "text/css; charset=utf-8", include_str!("assets/page.css")),
    ("page.js", "text/javascript; charset=utf-8", include_str!("assets/page.js")),
    ("icon.svg", "image/svg+xml", include_str!("assets/icon.svg")),
];

/// Returns a file.
pub(super) async fn asset(Path(name): Path<String>) -> Response {
    match ASSETS.iter().find(|(known, ..)| *known == name) {
        Some((_, kind, text)) => ([(CONTENT_TYPE, *kind)], *text).into_response(),
        None => (StatusCode::NOT_FOUND, "unknown file\n").into_response(),
    }
}
