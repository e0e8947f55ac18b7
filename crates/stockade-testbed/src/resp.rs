//! The part of the Redis protocol that assertions need.

use std::{io, net::SocketAddr, path::Path, pin::Pin, time::Duration};

use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    net::{TcpStream, UnixStream},
    time::timeout,
};

use crate::{Error, Result};

/// How long an answer may take by default.
pub(crate) const LIMIT: Duration = Duration::from_secs(5);

/// The address of a server.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place<'a> {
    Tcp(SocketAddr),
    Socket(&'a Path),
}

/// Sends one command on a connection of its own and gives the answer as text: an array has one element per line.
pub(crate) async fn command(
    place: Place<'_>,
    password: Option<&str>,
    limit: Duration,
    words: &[&str],
) -> Result<String> {
    let exchange = async {
        match place {
            Place::Tcp(addr) => exchange(TcpStream::connect(addr).await?, password, words).await,
            Place::Socket(path) => exchange(UnixStream::connect(path).await?, password, words).await,
        }
    };
    let answer = timeout(limit, exchange).await;
    let answer = answer.map_err(|_| Error::NoAnswer { server: "Redis", limit })?;
    answer.map_err(Error::io("ask Redis"))?.map_err(|text| Error::Refused { server: "Redis", text })
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin,
    password: Option<&str>,
    words: &[&str],
) -> io::Result<Result<String, String>> {
    let mut stream = BufReader::new(stream);
    if let Some(password) = password {
        stream.write_all(request(&["AUTH", password]).as_bytes()).await?;
        if let Err(refused) = reply(&mut stream).await? {
            return Ok(Err(refused));
        }
    }
    stream.write_all(request(words).as_bytes()).await?;
    reply(&mut stream).await
}

fn request(words: &[&str]) -> String {
    let mut request = format!("*{}\r\n", words.len());
    for word in words {
        request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    request
}

/// The inner result is the server's own refusal.
fn reply(
    stream: &mut (impl AsyncBufRead + Send + Unpin),
) -> Pin<Box<dyn Future<Output = io::Result<Result<String, String>>> + Send + '_>> {
    Box::pin(async move {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (kind, text) = line.trim_end().split_at_checked(1).ok_or(io::ErrorKind::InvalidData)?;
        match kind {
            "+" | ":" => Ok(Ok(text.to_owned())),
            "-" => Ok(Err(text.to_owned())),
            "$" => Ok(Ok(match length(text)? {
                None => String::new(),
                Some(length) => {
                    let mut bytes = vec![0; length + 2];
                    stream.read_exact(&mut bytes).await?;
                    bytes.truncate(length);
                    String::from_utf8_lossy(&bytes).into_owned()
                }
            })),
            "*" => {
                let mut items = Vec::new();
                for _ in 0..length(text)?.unwrap_or(0) {
                    items.push(reply(stream).await?.unwrap_or_else(|error| error));
                }
                Ok(Ok(items.join("\n")))
            }
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, format!("unexpected reply {line:?}"))),
        }
    })
}

/// `None` for the length −1 of a null.
fn length(text: &str) -> io::Result<Option<usize>> {
    let length: i64 = text.parse().map_err(|_| io::ErrorKind::InvalidData)?;
    Ok(usize::try_from(length).ok())
}
