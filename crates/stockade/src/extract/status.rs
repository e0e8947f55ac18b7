use std::{fmt, time::Duration};

use crate::cache::{CacheInfo, Source};

/// The `Cache-Status` of an answer (RFC 9211). The key is never in it.
pub(super) struct Status<'a>(pub(super) &'a CacheInfo);

impl fmt::Display for Status<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(info) = self;
        let (hit, detail) = match info.source {
            // This includes a read that waited for a load that failed.
            _ if info.stale.is_some() => (true, info.absent.then_some("negative")),
            _ if info.collapsed => (false, None),
            Source::Load => (false, None),
            _ if info.absent => (true, Some("negative")),
            Source::Local => (true, Some("local")),
            Source::Redis => (true, Some("redis")),
            // The filter only knows about absences.
            Source::Filter => (true, Some("negative")),
        };
        f.write_str(if hit { "stockade; hit" } else { "stockade; fwd=uri-miss" })?;
        if hit && !info.absent {
            match info.stale {
                Some(stale) => write!(f, "; ttl=-{}", whole_up(stale)),
                None => write!(f, "; ttl={}", info.ttl.as_secs()),
            }?;
        }
        if info.collapsed && !hit {
            f.write_str("; collapsed")?;
        } else if info.stored {
            f.write_str("; stored")?;
        }
        let detail = match info {
            CacheInfo { degraded: true, .. } => Some("degraded"),
            CacheInfo { unlocked: true, .. } => Some("unlocked"),
            _ => detail,
        };
        match detail {
            Some(detail) => write!(f, "; detail={detail}"),
            None => Ok(()),
        }
    }
}

/// The `Cache-Status` of a read that was refused to protect the database.
pub(super) const SHED: &str = "stockade; fwd=uri-miss; detail=shed";

/// The `Cache-Status` of a refused read while a store is down.
pub(super) const DEGRADED: &str = "stockade; fwd=uri-miss; detail=degraded";

/// Whole seconds, at least 1: an expired value must not look like one that is fresh for 0 s.
pub(super) fn whole_up(duration: Duration) -> u64 {
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(source: Source) -> CacheInfo {
        CacheInfo {
            source,
            absent: false,
            age: Duration::from_secs(3),
            ttl: Duration::from_millis(42_900),
            stale: None,
            degraded: false,
            unlocked: false,
            collapsed: false,
            stored: false,
            version: None,
        }
    }

    #[test]
    fn each_way_to_an_answer_has_its_form() {
        let local = info(Source::Local);
        let redis = info(Source::Redis);
        let load = info(Source::Load);
        let stale = CacheInfo { stale: Some(Duration::from_millis(1500)), ..redis };
        let absent = CacheInfo { absent: true, ..redis };
        let stored = CacheInfo { stored: true, ..load };
        let forms = [
            (local, "stockade; hit; ttl=42; detail=local"),
            (redis, "stockade; hit; ttl=42; detail=redis"),
            (stale, "stockade; hit; ttl=-2"),
            (absent, "stockade; hit; detail=negative"),
            (load, "stockade; fwd=uri-miss"),
            (stored, "stockade; fwd=uri-miss; stored"),
            (CacheInfo { collapsed: true, ..stored }, "stockade; fwd=uri-miss; collapsed"),
            (CacheInfo { collapsed: true, ..redis }, "stockade; fwd=uri-miss; collapsed"),
            (CacheInfo { collapsed: true, ..stale }, "stockade; hit; ttl=-2"),
            (CacheInfo { collapsed: true, absent: true, ..stale }, "stockade; hit; detail=negative"),
            (CacheInfo { degraded: true, ..local }, "stockade; hit; ttl=42; detail=degraded"),
            (CacheInfo { degraded: true, ..redis }, "stockade; hit; ttl=42; detail=degraded"),
            (CacheInfo { degraded: true, ..stale }, "stockade; hit; ttl=-2; detail=degraded"),
            (CacheInfo { degraded: true, ..absent }, "stockade; hit; detail=degraded"),
            (CacheInfo { degraded: true, ..load }, "stockade; fwd=uri-miss; detail=degraded"),
            (CacheInfo { unlocked: true, ..redis }, "stockade; hit; ttl=42; detail=unlocked"),
            (CacheInfo { unlocked: true, degraded: true, ..redis }, "stockade; hit; ttl=42; detail=degraded"),
        ];
        for (info, form) in forms {
            assert_eq!(Status(&info).to_string(), form);
        }
    }
}
