//! A route that handles one request per order at a time, over all instances of the service.
//!
//! ```text
//! cargo run -p stockade --example lock_route          # REDIS_URL=redis://127.0.0.1:6379 to share with other instances
//! curl -si -XPOST localhost:8080/orders/7/ship & curl -si -XPOST localhost:8080/orders/7/ship
//! ```
//!
//! The second answer comes a second after the first, with a higher `Fencing-Token`.

use axum::{Router, extract::Path, routing::post};
use stockade::{Fence, Locks, Redis, route_lock::RouteLock};

async fn ship(Path(id): Path<String>, fence: Fence) -> (Fence, String) {
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    (fence, format!("order {id} is shipped\n"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let locks = match std::env::var("REDIS_URL") {
        Ok(url) => Locks::new(&Redis::connect(url).await?),
        Err(_) => Locks::memory(),
    };
    let lock = RouteLock::template(&locks, "order:{id}");
    let app = Router::new().route("/orders/{id}/ship", post(ship).route_layer(lock));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    axum::serve(listener, app).await?;
    Ok(())
}
