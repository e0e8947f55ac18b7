use std::{process::Stdio, time::Duration};

use stockade_testbed::{PostgresServer, RedisServer};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::{sleep, timeout},
};

/// The token of the operators' port.
pub(super) const ADMIN_TOKEN: &str = "correct-horse";

/// One instance on private servers. Everything ends when it is dropped.
pub(super) struct Instance {
    pub(super) url: String,
    pub(super) ops: String,
    _process: Child,
    _stdout: Lines<BufReader<ChildStdout>>,
    _servers: (RedisServer, PostgresServer),
}

impl Instance {
    pub(super) async fn start() -> Self {
        let (redis, postgres) = tokio::try_join!(RedisServer::start(), PostgresServer::start()).unwrap();
        let command = |name: &str| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_inventory"));
            command.arg(name).env_clear().env("DATABASE_URL", postgres.url()).env("REDIS_URL", redis.url());
            command
                // On a busy machine Redis may be slow, and these tests only look at what an instance exposes.
                .env("REDIS_TIMEOUT", "2s")
                .env("LISTEN_ADDR", "127.0.0.1:0")
                .env("OPS_ADDR", "127.0.0.1:0")
                .env("ADMIN_TOKEN", ADMIN_TOKEN)
                .kill_on_drop(true);
            command.stdout(Stdio::piped());
            command
        };
        assert!(command("migrate").output().await.unwrap().status.success());
        let mut process = command("serve").spawn().unwrap();
        let mut stdout = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut address = async |prefix: &str| loop {
            let line = stdout.next_line().await.unwrap().expect("a line with the address");
            if let Some(url) = line.strip_prefix(prefix) {
                break url.to_owned();
            }
        };
        let url = address("listening on ").await;
        let ops = address("ops on ").await;
        let instance = Self { url, ops, _process: process, _stdout: stdout, _servers: (redis, postgres) };
        let ready = async {
            while !instance.is_ready().await {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(30), ready).await.expect("the instance is ready in time");
        instance
    }

    async fn is_ready(&self) -> bool {
        reqwest::get(format!("{}/readyz", self.ops)).await.is_ok_and(|answer| answer.status().is_success())
    }
}
