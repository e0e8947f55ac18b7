use super::{Args, ConfigError, Secret, error::Findings, parse::secret, shown_url};

/// The scheme of the URL of a quorum.
const REDLOCK: &str = "redlock://";

/// The servers of the locks and of the cache.
pub(super) fn redis(args: &Args, found: &mut Findings) -> (Option<Secret>, Option<Secret>) {
    let common = found.note(secret("REDIS_URL", args.redis_url.as_ref(), args.redis_url_file.as_deref()));
    let mut one = |variable: &str, given: Option<&Secret>, file: Option<&str>| {
        let own = found.note(secret(variable, given, file))?;
        let (named, url) = match own {
            Some(url) => (variable, url),
            None => ("REDIS_URL", found.note(common.clone()?.ok_or_else(no_redis))?),
        };
        found.note(redis_url(named, &url))?;
        if variable == "CACHE_REDIS_URL" && quorum(&url).is_some() {
            let remedy = "set CACHE_REDIS_URL to one server, or sentinels";
            return found.note(Err(ConfigError::new(variable, "a quorum of servers keeps locks only", remedy)));
        }
        Some(url)
    };
    (
        one("LOCK_REDIS_URL", args.lock_redis_url.as_ref(), args.lock_redis_url_file.as_deref()),
        one("CACHE_REDIS_URL", args.cache_redis_url.as_ref(), args.cache_redis_url_file.as_deref()),
    )
}

/// The URL of each server of `redlock://[USER:PASSWORD@]HOST:PORT,HOST:PORT,…`; `None` for another URL.
pub(crate) fn quorum(url: &Secret) -> Option<Vec<Secret>> {
    let rest = url.expose().strip_prefix(REDLOCK)?;
    let (user, hosts) = rest.split_at(rest.rfind('@').map_or(0, |at| at + 1));
    Some(hosts.split(',').map(|host| format!("redis://{user}{host}").into()).collect())
}

fn no_redis() -> ConfigError {
    let remedy = "set it to redis://HOST:PORT, or set both LOCK_REDIS_URL and CACHE_REDIS_URL";
    ConfigError::new("REDIS_URL", "not set", remedy)
}

fn redis_url(variable: &str, url: &Secret) -> Result<(), ConfigError> {
    const SCHEMES: [&str; 11] = [
        "redis",
        "rediss",
        "redis-sentinel",
        "rediss-sentinel",
        "redis-cluster",
        "rediss-cluster",
        "redis+unix",
        "unix",
        "valkey",
        "valkeys",
        "redlock",
    ];
    const FORMS: &str = "use redis://[USER:PASSWORD@]HOST:PORT, redis-sentinel://HOST,HOST/NAME or \
                         redis-cluster://HOST,HOST, with rediss for TLS, or redlock://HOST,HOST,HOST for locks";
    match url.expose().split_once("://") {
        Some((scheme, _)) if SCHEMES.contains(&scheme) => Ok(()),
        _ => Err(ConfigError::new(variable, "not the URL of a Redis server", FORMS).with_value(&shown_url(url))),
    }
}
