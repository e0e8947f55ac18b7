//! How many round trips to Postgres a transaction costs, counted on the wire.

use std::{
    io, iter,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgSslMode};
use stockade::{Cache, Locks, resource::Key};
use stockade_testbed::PostgresServer;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    task::JoinSet,
};

use super::{Sku, database, quantity};

/// Passes the server's messages on, and counts how often the server is ready for the next query.
async fn answers(mut server: OwnedReadHalf, mut client: OwnedWriteHalf, count: Arc<AtomicU64>) -> io::Result<()> {
    loop {
        let mut head = [0; 5];
        server.read_exact(&mut head).await?;
        let [kind, length @ ..] = head;
        let mut body = vec![0; u32::from_be_bytes(length) as usize - length.len()];
        server.read_exact(&mut body).await?;
        count.fetch_add(u64::from(kind == b'Z'), Ordering::SeqCst);
        client.write_all(&[&head[..], &body].concat()).await?;
    }
}

/// A proxy to this server that counts the answers.
async fn counted(server: &PostgresServer, tasks: &mut JoinSet<()>) -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (addr, count, server) = (listener.local_addr().unwrap(), Arc::<AtomicU64>::default(), server.addr());
    let counter = Arc::clone(&count);
    tasks.spawn(async move {
        let mut ways = JoinSet::new();
        while let Ok((client, _)) = listener.accept().await {
            let (mut asks, told) = client.into_split();
            let (replies, mut asked) = TcpStream::connect(server).await.unwrap().into_split();
            ways.spawn(async move { copy(&mut asks, &mut asked).await.map(drop) });
            ways.spawn(answers(replies, told, Arc::clone(&counter)));
        }
    });
    (addr, count)
}

#[tokio::test]
async fn a_fence_and_an_invalidation_cost_no_round_trip_beside_begin_and_commit() {
    const TRANSACTIONS: u64 = 20;
    let (server, _) = database().await;
    let mut tasks = JoinSet::new();
    let (addr, count) = counted(&server, &mut tasks).await;
    let options: PgConnectOptions = server.url().parse().unwrap();
    let options = options.port(addr.port()).ssl_mode(PgSslMode::Disable);
    // There is one connection. The next transaction begins when the driver has taken the connection back, which costs a
    // round trip.
    let pool = PgPoolOptions::new().max_connections(1).test_before_acquire(false).connect_with(options).await.unwrap();
    let locks = Locks::memory();
    let stocks = Cache::memory().loader(|_: Sku| async { Ok::<_, sqlx::Error>(Some(1)) }).build();
    let transaction = async || {
        let held = locks.write(&Sku("a")).acquire().await.unwrap();
        let mut tx = held.begin(&pool).await.unwrap();
        sqlx::query("update stock set quantity = quantity + 1").execute(&mut *tx).await.unwrap();
        tx.invalidate(&stocks, &Sku("a"));
        tx.commit().await.unwrap();
    };
    // The first transaction prepares its statements, and checks the schema.
    transaction().await;
    drop(pool.acquire().await.unwrap());
    let before = count.load(Ordering::SeqCst);
    for _ in 0..TRANSACTIONS {
        transaction().await;
    }
    let connection = pool.acquire().await.unwrap();
    let asked = count.load(Ordering::SeqCst) - before;
    // A caller waits for BEGIN with the claim, the update, and the outbox with COMMIT. No caller waits for the driver,
    // which then ends the empty transaction that CHAIN began, and tests the connection.
    let (waited, driver) = (3 * TRANSACTIONS, 2 * TRANSACTIONS);
    // One of the driver's round trips may be left from before the first transaction.
    assert!((waited + driver..=waited + driver + 1).contains(&asked), "{asked} for {TRANSACTIONS} transactions");
    drop(connection);
    assert_eq!(quantity(&mut pool.acquire().await.unwrap()).await, 11 + i32::try_from(TRANSACTIONS).unwrap());
}

#[tokio::test]
async fn whatever_is_in_a_name_is_text_in_the_messages_of_begin_and_commit() {
    let (_server, pool) = database().await;
    let stocks = Cache::memory().loader(|_: Sku| async { Ok::<_, sqlx::Error>(Some(1)) }).build();
    let odd = ["o'brien'); drop table stock; --", "\\", "\" $$ $1", "\\' größe"].map(Sku);
    for (odd, others) in odd.iter().flat_map(|odd| [(odd, &[][..]), (odd, &[Sku("b"), Sku("'")])]) {
        let held = Locks::memory().write(odd).acquire().await.unwrap();
        let mut tx = held.begin(&pool).await.unwrap();
        let mut keys = Vec::new();
        for sku in iter::once(odd).chain(others) {
            tx.invalidate(&stocks, sku);
            keys.push(Key::of(sku).unwrap().as_str().to_owned());
        }
        tx.commit().await.unwrap();
        let sql = "with fence as (delete from stockade.fence returning resource),
            outbox as (delete from stockade.outbox returning id, resource)
            select (select resource from fence), (select array_agg(resource order by id) from outbox)";
        let (fence, outbox): (String, Vec<String>) = sqlx::query_as(sql).fetch_one(&pool).await.unwrap();
        assert_eq!((&fence, &outbox), (&keys[0], &keys));
    }
    assert_eq!(quantity(&mut pool.acquire().await.unwrap()).await, 10);
}

#[tokio::test]
async fn the_statistics_of_the_server_show_neither_owners_nor_names() {
    let (_server, pool) = database().await;
    sqlx::raw_sql("create extension pg_stat_statements").execute(&pool).await.unwrap();
    sqlx::raw_sql("select pg_stat_statements_reset()").execute(&pool).await.unwrap();
    let stocks = Cache::memory().loader(|_: Sku| async { Ok::<_, sqlx::Error>(Some(1)) }).build();
    let held = Locks::memory().write(&Sku("secretive")).acquire().await.unwrap();
    let mut tx = held.begin(&pool).await.unwrap();
    tx.invalidate(&stocks, &Sku("secretive"));
    tx.commit().await.unwrap();
    let owner = held.fence().claim_args().unwrap().owner;
    let sql = "select query from pg_stat_statements where query like '%stockade.%'";
    let texts: Vec<String> = sqlx::query_scalar(sql).fetch_all(&pool).await.unwrap();
    assert!(!texts.iter().any(|text| text.contains(&owner) || text.contains("secretive")), "{texts:?}");
    assert!(texts.iter().any(|text| text.starts_with("select stockade.claim($1")), "{texts:?}");
}
