//! `inventory health`: asks the instance on this host whether it is ready, for the health check of a container.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    process::ExitCode,
    time::Duration,
};

use serde::Deserialize;

use crate::{
    config::{ConfigError, parse},
    console,
};

/// Arguments of `inventory health`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The operators' port of the instance. An address such as 0.0.0.0 stands for this host.
    #[arg(long, env = "OPS_ADDR", value_name = "ADDR", default_value = "127.0.0.1:9464")]
    ops_addr: String,

    /// How long the answer may take.
    #[arg(long, env = "HEALTH_TIMEOUT", value_name = "DURATION", default_value = "2s")]
    timeout: String,
}

#[derive(Debug, thiserror::Error)]
enum HealthError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("no answer from {0}: does `inventory serve` run there with this OPS_ADDR?")]
    NoAnswer(SocketAddr, #[source] reqwest::Error),
    #[error("what answers at {0} is no instance: does `inventory serve` run there with this OPS_ADDR?")]
    Foreign(SocketAddr),
    #[error("not ready: {0}")]
    NotReady(String),
}

/// The members of a problem document that a person wants to see.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Problem {
    title: String,
    detail: String,
}

#[derive(Deserialize)]
struct Ready {
    status: String,
}

/// Asks once. Status 0 if the instance is ready, 1 in every other case. It is ready without Redis too.
pub async fn run(args: Args) -> ExitCode {
    match ask(&args).await {
        Ok(status) => {
            console::out(&status);
            ExitCode::SUCCESS
        }
        Err(error) => console::failed(&error),
    }
}

async fn ask(args: &Args) -> Result<String, HealthError> {
    let address = of_this_host(parse::address("OPS_ADDR", &args.ops_addr)?);
    let limits = Duration::from_millis(1)..=Duration::from_secs(60);
    let limit = parse::duration("HEALTH_TIMEOUT", &args.timeout, limits)?;
    let no_answer = |error| HealthError::NoAnswer(address, error);
    // A proxy named by the environment would lead away from this host.
    let client = reqwest::Client::builder().no_proxy().timeout(limit).build().map_err(no_answer)?;
    let answer = client.get(format!("http://{address}/readyz")).send().await.map_err(no_answer)?;
    let status = answer.status();
    let body = answer.bytes().await.map_err(no_answer)?;
    if status.is_success() {
        let Ready { status } = serde_json::from_slice(&body).map_err(|_| HealthError::Foreign(address))?;
        return Ok(status);
    }
    let Problem { title, detail } = serde_json::from_slice(&body).unwrap_or_default();
    let said = [title, detail].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(": ");
    Err(HealthError::NotReady(if said.is_empty() { status.to_string() } else { said }))
}

/// An instance that listens on all addresses is asked on the loopback.
fn of_this_host(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_addresses_are_asked_on_the_loopback_and_one_stays() {
        let asked = |text: &str| of_this_host(text.parse().unwrap()).to_string();
        assert_eq!(asked("0.0.0.0:9464"), "127.0.0.1:9464");
        assert_eq!(asked("[::]:9464"), "[::1]:9464");
        assert_eq!(asked("10.0.0.7:1"), "10.0.0.7:1");
    }
}
