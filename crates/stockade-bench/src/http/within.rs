use std::{env, process::ExitCode};

use inventory::{
    app::{App, Shared},
    db,
    domain::Sku,
    http::around,
    serve::{Args, StartError, run_with},
};
use stockade::{Locks, Redis, cache::Cache};

use super::floor::{Floor, redis, routes};
use crate::contender::Failure;

/// Serves the handlers of the floor in a process that is otherwise that of the service: its layers, recorder, log,
/// connections and background work. Below `/undelegated` is the service itself, with a lock of its own for each read
/// and every hit in Redis.
pub(crate) async fn serve() -> Result<ExitCode, Failure> {
    let (url, redis) = (env::var("REDIS_URL")?, redis().await?);
    let routes = async |app: App| {
        let floor = Floor { pg: app.pg.clone(), redis };
        let within = around(routes().with_state(floor), app.answers, app.limits.request);
        // Built once the recorder is there, as the service's own routes are.
        let undelegated = inventory::http::app(undelegated(app, &url).await?);
        Ok(within.nest("/undelegated", undelegated))
    };
    Ok(run_with(&Args::from_env()?, routes).await)
}

async fn undelegated(app: App, url: &str) -> Result<App, StartError> {
    let refused = |source| StartError::Redis { variable: "REDIS_URL", url: url.to_owned(), source };
    let redis = Redis::connect(url).await.map_err(refused)?;
    let source = app.pg.clone();
    let load = move |sku: Sku| {
        let pg = source.clone();
        async move { db::stock::find(&pg, &sku).await }
    };
    Ok(App::from(Shared {
        locks: Locks::builder().delegate(false).redis(&redis),
        stocks: Cache::builder(&redis).name("undelegated").loader(load).build(),
        ..Shared::clone(&app)
    }))
}
