use futures_util::future::join_all;

use super::{Cluster, key_on, keys_on, neighbour};
use crate::{
    lock::Locks,
    resource::Key,
    store::{
        LockStore,
        redis::tests::{key, write},
    },
};

#[tokio::test]
async fn one_script_takes_what_is_in_one_slot_and_the_rest_is_taken_in_turn() {
    let cluster = Cluster::start().await;
    let store = cluster.store().await;
    let (one, other) = (key("together"), neighbour(&key("together")));
    let held = store.try_all(&[write(&one), write(&other)]).await.unwrap().expect("one slot, and free");
    assert!(held[0].token < held[1].token, "of one floor");
    join_all(held.iter().map(|held| store.release(held))).await.into_iter().for_each(|released| {
        released.unwrap();
    });

    let mut here = keys_on(0);
    for apart in [[here.next().unwrap(), here.next().unwrap()], [key_on(1), key_on(2)]] {
        assert!(store.try_all(&apart.each_ref().map(write)).await.unwrap().is_none(), "more than one slot");
        let locks = Locks::builder().on(std::sync::Arc::<crate::store::RedisStore>::clone(&store));
        let all = locks.write_keys(apart.iter().rev().cloned()).acquire().await.unwrap();
        assert_eq!(all.tokens().count(), 2);
        let mut listed: Vec<String> = apart.iter().map(Key::to_string).collect();
        listed.sort();
        let mut seen = store.list(10).await.unwrap();
        seen.sort();
        assert_eq!(seen, listed);
        all.release().await.unwrap();
    }
    cluster.end().await;
}
