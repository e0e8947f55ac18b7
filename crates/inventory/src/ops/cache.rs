//! `/admin/cache`

use axum::{Json, extract::State};
use serde::Serialize;

use crate::app::App;

#[derive(Debug, Serialize)]
pub(super) struct View {
    name: &'static str,
    degraded: bool,
}

/// `GET /admin/cache`
pub(super) async fn show(State(_app): State<App>) -> Json<View> {
    Json(View { name: "stock", degraded: false })
}
