use stockade_testbed::RedisServer;

use super::eventually;

/// The Redis key of an entry that was leased or stored.
pub(in crate::cache) async fn entry_key(server: &RedisServer, id: &str) -> String {
    server.command(&["KEYS", &format!("shop:v1:{{*}}e:stock:stock:{id}")]).await.unwrap()
}

/// Whether Redis has a value of this row.
pub(in crate::cache) async fn stored(server: &RedisServer, id: &str) -> bool {
    let key = entry_key(server, id).await;
    !key.is_empty() && field(server, &key, "v").await.is_some()
}

/// The full name of this field in an entry. It includes the version of the program.
pub(in crate::cache) async fn field(server: &RedisServer, key: &str, name: &str) -> Option<String> {
    let fields = server.command(&["HKEYS", key]).await.unwrap();
    let mut named = fields.lines().filter(|field| field.split(':').next() == Some(name));
    let found = named.next().map(ToOwned::to_owned);
    assert_eq!(named.next(), None, "two versions have `{name}`");
    found
}

/// Waits until a reader waits for the load of another process.
pub(in crate::cache) async fn signed_up(server: &RedisServer, id: &str) {
    eventually("a reader waits for the load", || async {
        let key = entry_key(server, id).await;
        server.command(&["HKEYS", &key]).await.unwrap().contains("w:")
    })
    .await;
}
