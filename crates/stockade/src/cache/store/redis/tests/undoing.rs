use std::{convert::Infallible, time::Duration};

use stockade_testbed::{Fault, Proxy, RedisServer};
use tokio::time::{sleep, timeout};

use crate::{
    Cache, Redis,
    cache::store::{Lease, Token, Want},
    resource::{Key, Sku},
};

/// Waits until the server has a token, or none.
async fn until_leased(server: &RedisServer, is_leased: bool) {
    let leased = async || {
        let key = server.command(&["KEYS", "*e:stock:stock:a"]).await.unwrap();
        !key.is_empty() && server.command(&["HKEYS", &key]).await.unwrap().contains("tok")
    };
    let changed = timeout(Duration::from_secs(20), async {
        while leased().await != is_leased {
            sleep(Duration::from_millis(10)).await;
        }
    });
    changed.await.unwrap_or_else(|_| panic!("leased: {}", !is_leased));
}

/// The connection ends before the time-out of the command, or after it.
#[tokio::test]
async fn a_lease_whose_reply_was_lost_is_given_back_when_there_is_a_connection_again() {
    let server = RedisServer::start().await.unwrap();
    for time_out in [20_000, 300] {
        let proxy = Proxy::start(server.addr()).await.unwrap();
        let redis = Redis::builder(proxy.url_for(&server.url())).command_timeout(Duration::from_millis(time_out));
        let cache = Cache::builder(&redis.connect().await.unwrap())
            .lease(Duration::from_secs(120))
            .loader(|_: Sku| async { Ok::<_, Infallible>(Some(7)) })
            .build();
        cache.get(&Sku("a")).await.unwrap();
        cache.invalidate(&Sku("a")).await.unwrap();
        let (name, token) = (Key::of(&Sku("a")).unwrap(), Token::random());
        proxy.set(Fault::DropReplies);
        let lost = async {
            until_leased(&server, true).await;
            proxy.set(Fault::Hole);
            sleep(Duration::from_millis(if time_out < 1_000 { 2 * time_out } else { 0 })).await;
            proxy.set(Fault::Reset);
        };
        let (lease, ()) = tokio::join!(cache.core.store.lease(&name, &token, Want::Load, false), lost);
        assert!(matches!(lease, Lease::Down), "{lease:?}");
        until_leased(&server, true).await;
        proxy.set(Fault::None);
        until_leased(&server, false).await;
        cache.shutdown(Duration::from_secs(5)).await;
    }
}
