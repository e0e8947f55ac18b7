use stockade_testbed::{Error, RedisCluster};

use crate::support::{is_alive, slot_of};

const KEY: &str = "{stock}:1";

fn refusal(error: &Error) -> &str {
    let Error::Refused { text, .. } = error else { panic!("{error}") };
    text.split(' ').next().unwrap_or_default()
}

#[tokio::test]
async fn a_cluster_starts_with_every_slot_served_and_every_primary_replicated() {
    let cluster = RedisCluster::start().await.unwrap();
    let addrs: Vec<String> = cluster.nodes().iter().map(|node| node.addr().to_string()).collect();
    assert_eq!(cluster.url(), format!("redis-cluster://{}", addrs.join(",")));
    for node in cluster.nodes() {
        let info = node.command(&["CLUSTER", "INFO"]).await.unwrap();
        for fact in ["cluster_state:ok", "cluster_slots_ok:16384", "cluster_known_nodes:6", "cluster_size:3"] {
            assert!(info.contains(fact), "{fact} is missing in {info}");
        }
    }
    let [first, second, third, ..] = cluster.nodes() else { panic!("six nodes") };
    for (slot, primary) in
        [(0, first), (5_460, first), (5_461, second), (10_922, second), (10_923, third), (16_383, third)]
    {
        assert_eq!(cluster.primary_of(slot).await.unwrap(), primary, "slot {slot}");
    }
    let primary = cluster.primary_of(slot_of(&cluster, KEY).await).await.unwrap();
    primary.command(&["SET", KEY, "value"]).await.unwrap();
    assert_eq!(primary.command(&["WAIT", "1", "5000"]).await.unwrap(), "1");
    let replica = cluster.replica_of(primary).await.unwrap();
    assert_eq!(replica.command(&["DBSIZE"]).await.unwrap(), "1");
}

#[tokio::test]
async fn a_killed_primary_of_a_cluster_is_replaced_and_comes_back_as_a_replica() {
    let cluster = RedisCluster::start().await.unwrap();
    let slot = slot_of(&cluster, KEY).await;
    let old = cluster.primary_of(slot).await.unwrap();
    old.command(&["SET", KEY, "value"]).await.unwrap();
    assert_eq!(old.command(&["WAIT", "1", "5000"]).await.unwrap(), "1");
    let pid = old.pid();
    let new = cluster.failover(slot).await.unwrap();
    assert_ne!(new, old);
    assert!(!is_alive(pid));
    assert_eq!(new.command(&["GET", KEY]).await.unwrap(), "value");
    for node in cluster.nodes().iter().filter(|node| ![old, new].contains(node)) {
        let moved = node.command(&["GET", KEY]).await.unwrap_err().to_string();
        assert!(moved.ends_with(&format!("MOVED {slot} {}", new.addr())), "{moved}");
    }
    old.restart().await.unwrap();
    cluster.until_settled().await.unwrap();
    assert_eq!(cluster.replica_of(new).await.unwrap(), old);
    let back = cluster.switch_over(slot).await.unwrap();
    assert_eq!(back, old);
    assert_eq!(old.command(&["GET", KEY]).await.unwrap(), "value");
}

#[tokio::test]
async fn a_slot_moves_with_its_keys_and_clients_are_told_where_to_ask_meanwhile() {
    let cluster = RedisCluster::builder().without_replicas().start().await.unwrap();
    let slot = slot_of(&cluster, KEY).await;
    let from = cluster.primary_of(slot).await.unwrap();
    let to = cluster.nodes().iter().find(|node| *node != from).unwrap();
    for index in 0..250 {
        from.command(&["SET", &format!("{{stock}}:{index}"), "value"]).await.unwrap();
    }
    cluster.begin_migration(slot, to).await.unwrap();
    assert_eq!(from.command(&["GET", KEY]).await.unwrap(), "value");
    assert_eq!(refusal(&from.command(&["GET", "{stock}:none"]).await.unwrap_err()), "ASK");
    assert_eq!(refusal(&to.command(&["GET", KEY]).await.unwrap_err()), "MOVED");
    assert_eq!(cluster.move_keys(slot).await.unwrap(), 250);
    assert_eq!(refusal(&from.command(&["GET", KEY]).await.unwrap_err()), "ASK");
    assert_eq!(cluster.primary_of(slot).await.unwrap(), from);
    cluster.finish_migration(slot).await.unwrap();
    assert_eq!(cluster.primary_of(slot).await.unwrap(), to);
    assert_eq!(to.command(&["GET", KEY]).await.unwrap(), "value");
    for node in cluster.nodes().iter().filter(|node| *node != to) {
        assert_eq!(refusal(&node.command(&["GET", KEY]).await.unwrap_err()), "MOVED");
    }
    let not_moving = cluster.move_keys(slot).await.unwrap_err();
    assert!(matches!(not_moving, Error::NotReached { .. }), "{not_moving}");
}
