//! The part of PostgreSQL's protocol that logs in and runs a statement.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::{Error, Result};

const LIMIT: Duration = Duration::from_secs(20);
const PROTOCOL: i32 = 3 << 16;

/// A server, and the user and database to log in with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Login<'a> {
    pub(crate) addr: SocketAddr,
    pub(crate) user: &'a str,
    pub(crate) password: &'a str,
    pub(crate) database: &'a str,
}

/// Runs statements on a connection of its own, and ignores their rows. Without statements it only logs in.
pub(crate) async fn execute(login: Login<'_>, sql: &str) -> Result<()> {
    let answer = timeout(LIMIT, exchange(login, sql)).await;
    let answer = answer.map_err(|_| Error::NoAnswer { server: "PostgreSQL", limit: LIMIT })?;
    answer.map_err(Error::io("ask PostgreSQL"))?.map_err(|text| Error::Refused { server: "PostgreSQL", text })
}

async fn exchange(login: Login<'_>, sql: &str) -> io::Result<Result<(), String>> {
    let mut stream = TcpStream::connect(login.addr).await?;
    let mut body = PROTOCOL.to_be_bytes().to_vec();
    for text in ["user", login.user, "database", login.database] {
        put_text(&mut body, text);
    }
    body.push(0);
    send(&mut stream, None, &body).await?;
    if let Err(refused) = until_ready(&mut stream, login.password).await? {
        return Ok(Err(refused));
    }
    if sql.is_empty() {
        return Ok(Ok(()));
    }
    let mut body = Vec::new();
    put_text(&mut body, sql);
    send(&mut stream, Some(b'Q'), &body).await?;
    until_ready(&mut stream, login.password).await
}

fn put_text(body: &mut Vec<u8>, text: &str) {
    body.extend_from_slice(text.as_bytes());
    body.push(0);
}

async fn send(stream: &mut TcpStream, kind: Option<u8>, body: &[u8]) -> io::Result<()> {
    let length = i32::try_from(body.len() + 4).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut message: Vec<u8> = kind.into_iter().collect();
    message.extend_from_slice(&length.to_be_bytes());
    message.extend_from_slice(body);
    stream.write_all(&message).await
}

/// Reads to `ReadyForQuery`, giving the password when asked. The inner result is the server's own refusal.
async fn until_ready(stream: &mut TcpStream, password: &str) -> io::Result<Result<(), String>> {
    let mut outcome = Ok(());
    loop {
        let kind = match stream.read_u8().await {
            // A refused login is an error message and the end of the connection.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && outcome.is_err() => return Ok(outcome),
            read => read?,
        };
        let length = usize::try_from(stream.read_i32().await? - 4).map_err(|_| io::ErrorKind::InvalidData)?;
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        match kind {
            b'Z' => return Ok(outcome),
            b'E' => outcome = Err(message_of(&body)),
            b'R' if body.starts_with(&3_i32.to_be_bytes()) => {
                let mut answer = Vec::new();
                put_text(&mut answer, password);
                send(stream, Some(b'p'), &answer).await?;
            }
            b'R' if !body.starts_with(&0_i32.to_be_bytes()) => {
                return Err(io::Error::new(io::ErrorKind::Unsupported, "unknown kind of authentication"));
            }
            _ => {}
        }
    }
}

/// The fields of an error are a letter and a text each; `M` is the message.
fn message_of(body: &[u8]) -> String {
    let mut fields = body.split(|byte| *byte == 0);
    let message = fields.find_map(|field| field.strip_prefix(b"M")).unwrap_or_default();
    String::from_utf8_lossy(message).into_owned()
}
