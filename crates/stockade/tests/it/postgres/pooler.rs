//! A pooler between a program and Postgres, which gives up the server's connection and says so in its place.

use std::net::SocketAddr;

use stockade::{Locks, postgres::CommitError};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

use super::{
    Sku,
    cached::{World, release},
    pool, quantity, until,
};

/// As PgBouncer does after its `query_timeout`, and when a person ends the client.
const CODES: [&str; 2] = ["08P01", "57P01"];

struct Pooler {
    at: SocketAddr,
    gives_up: watch::Sender<Option<&'static str>>,
    _tasks: JoinSet<()>,
}

impl Pooler {
    async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let (gives_up, told) = watch::channel(None);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut clients = JoinSet::new();
            loop {
                let (client, _) = listener.accept().await.unwrap();
                clients.spawn(serve(client, server, told.clone()));
            }
        });
        Self { at, gives_up, _tasks: tasks }
    }
}

async fn serve(mut client: TcpStream, server: SocketAddr, mut told: watch::Receiver<Option<&'static str>>) {
    let mut server = TcpStream::connect(server).await.unwrap();
    let code = tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => return,
        code = told.wait_for(Option::is_some) => code.unwrap().unwrap(),
    };
    let fields = format!("SFATAL\0VFATAL\0C{code}\0Mthe server was given up\0\0");
    client.write_u8(b'E').await.unwrap();
    client.write_u32(u32::try_from(fields.len()).unwrap() + 4).await.unwrap();
    client.write_all(fields.as_bytes()).await.unwrap();
    client.shutdown().await.unwrap();
    drop(server);
    // Closed with bytes unread, the connection would be reset, and the client might not read the error.
    while client.read(&mut [0; 64]).await.is_ok_and(|read| read > 0) {}
}

#[tokio::test]
async fn a_pooler_that_gives_up_the_server_while_it_commits_leaves_the_outcome_unknown() {
    for code in CODES {
        let world = World::start().await;
        let holder = world.hold_commits().await;
        let pooler = Pooler::start(world.postgres.addr()).await;
        let url = world.postgres.url().replace(&world.postgres.addr().to_string(), &pooler.at.to_string());
        let pool = pool(&url).await;
        let held = Locks::memory().write(&Sku("a")).acquire().await.unwrap();
        let mut tx = held.begin(&pool).await.unwrap();
        sqlx::query("set local lock_timeout = '20s'").execute(&mut *tx).await.unwrap();
        sqlx::query("update stock set quantity = 9").execute(&mut *tx).await.unwrap();
        let mut commits = JoinSet::new();
        commits.spawn(tx.commit());
        world.committing().await;
        pooler.gives_up.send(Some(code)).unwrap();
        let unknown = commits.join_next().await.unwrap().unwrap().unwrap_err();
        release(holder).await;
        until(async || quantity(&mut world.pool.acquire().await.unwrap()).await == 9).await;
        assert!(matches!(unknown, CommitError::Unknown(_)), "{code}: {unknown:?}");
        drop((held, pool));
        world.end_behind(pooler).await;
    }
}
