use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::contender::Failure;

/// One connection that asks and reads the answer to its end. It does as little as a load generator can, since it shares
/// the machine with what is measured.
pub(super) struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Wire {
    pub(super) async fn connect(address: &str) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(4096) })
    }

    /// Returns the head of the answer, in small letters. Fails unless the answer is a success.
    pub(super) async fn exchange(&mut self, request: &[u8]) -> Result<String, Failure> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        let head = loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err("the service closed the connection".into());
            }
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                break end + 4;
            }
        };
        let text = std::str::from_utf8(&self.buffer[..head])?.to_ascii_lowercase();
        if !text.starts_with("http/1.1 2") {
            return Err(format!("refused: {text}").into());
        }
        let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
        let whole = head + length.ok_or("an answer without a length")?.trim().parse::<usize>()?;
        while self.buffer.len() < whole {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err("the service closed the connection within an answer".into());
            }
        }
        Ok(text)
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

pub(super) fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: bench\r\n\r\n").into_bytes()
}

pub(super) fn post(path: &str, body: &str) -> Vec<u8> {
    with_body("POST", path, body)
}

pub(super) fn put(path: &str, body: &str) -> Vec<u8> {
    with_body("PUT", path, body)
}

fn with_body(method: &str, path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}
