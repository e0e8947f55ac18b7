use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::{
    sale::{Sale, SaleError},
    schemes::{
        conditional_update, decrby, flash, for_update, no_lock, optimistic, redlock, script, set_nx_px, setnx_del,
        setnx_getset, stockade,
    },
    world::World,
};

/// A way to sell one unit. They are in the order in which a student meets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// Read, think, write.
    NoLock,
    /// `SETNX`, then `DEL`.
    SetnxDel,
    /// `SETNX` and `GETSET` of a time.
    SetnxGetset,
    /// `SET NX PX`, then compare and delete.
    SetNxPx,
    /// `SET NX PX`, holders stopped beyond their lease.
    StoppedSetNxPx,
    /// `SET NX PX` on the majority of five servers.
    Redlock,
    /// Stockade's lock without its fence.
    StockadeUnfenced,
    /// Stockade's lock with its fence.
    Stockade,
    /// Stockade's lock without its fence, holders stopped beyond their lease.
    StoppedUnfenced,
    /// Stockade's lock with its fence, holders stopped beyond their lease.
    Stopped,
    /// `SELECT … FOR UPDATE`.
    ForUpdate,
    /// `UPDATE … WHERE quantity > 0`.
    ConditionalUpdate,
    /// A version that the update compares, and a retry.
    Optimistic,
    /// `DECRBY` on a counter in Redis.
    Decrby,
    /// One script on a counter in Redis.
    Script,
    /// A flash sale of this service: a script that reserves, stored in Postgres afterwards.
    Flash,
}

impl Scheme {
    /// The name on the command line and in the names of tables and keys.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// The title in the table and the chart.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::NoLock => "no lock: read, think, write",
            Self::SetnxDel => "SETNX + DEL",
            Self::SetnxGetset => "SETNX + GETSET",
            Self::SetNxPx => "SET NX PX + compare and delete",
            Self::StoppedSetNxPx => "SET NX PX, holders stopped",
            Self::Redlock => "Redlock, five servers",
            Self::StockadeUnfenced => "Stockade without its fence",
            Self::Stockade => "Stockade",
            Self::StoppedUnfenced => "Stockade without its fence, holders stopped",
            Self::Stopped => "Stockade, holders stopped",
            Self::ForUpdate => "SELECT … FOR UPDATE",
            Self::ConditionalUpdate => "conditional UPDATE",
            Self::Optimistic => "version + retry",
            Self::Decrby => "DECRBY in Redis",
            Self::Script => "one Lua script in Redis",
            Self::Flash => "flash sale, stored in Postgres",
        }
    }

    /// Whether holders are stopped beyond their lease.
    pub(super) fn is_stopped(self) -> bool {
        matches!(self, Self::StoppedSetNxPx | Self::StoppedUnfenced | Self::Stopped)
    }

    /// For a scheme that the service does not sell by: the reason, and the command that plays it.
    pub(crate) fn elsewhere(self) -> Option<&'static str> {
        match self {
            Self::Redlock => Some("it needs five servers of its own, which `inventory lab --only redlock` starts"),
            Self::Flash => Some("flash sales have routes of their own: `PUT /flash/{sku}` opens one"),
            _ if self.is_stopped() => Some("it stops the holders of locks, which `inventory lab --only` does"),
            _ => None,
        }
    }

    /// The schemes that the service sells by.
    pub(crate) fn served() -> impl Iterator<Item = Self> {
        Self::value_variants().iter().copied().filter(|scheme| scheme.elsewhere().is_none())
    }

    /// The schemes that only `inventory lab` plays, on servers and in processes of its own.
    #[cfg(feature = "demo")]
    pub(crate) fn apart() -> impl Iterator<Item = Self> {
        Self::value_variants().iter().copied().filter(|scheme| scheme.elsewhere().is_some())
    }

    /// Whether its stock is a counter in Redis rather than a row in Postgres.
    pub(super) fn counts_in_redis(self) -> bool {
        matches!(self, Self::Decrby | Self::Script)
    }

    /// The commands that a buyer sends to Redis, without those that run inside a script.
    #[cfg(feature = "demo")]
    pub(super) fn commands(self) -> &'static [&'static str] {
        match self {
            Self::NoLock | Self::ForUpdate | Self::ConditionalUpdate | Self::Optimistic => &[],
            Self::SetnxDel => &["setnx", "del"],
            Self::SetnxGetset => &["setnx", "get", "getset", "del"],
            Self::SetNxPx | Self::StoppedSetNxPx | Self::Redlock => &["set", "eval"],
            Self::StockadeUnfenced | Self::Stockade | Self::StoppedUnfenced | Self::Stopped | Self::Flash => {
                &["evalsha"]
            }
            Self::Decrby => &["decrby", "incrby"],
            Self::Script => &["eval"],
        }
    }

    /// Buys one unit.
    pub(super) async fn sell(self, world: &World) -> Result<Sale, SaleError> {
        match self {
            Self::NoLock => no_lock::sell(world).await,
            Self::SetnxDel => setnx_del::sell(world).await,
            Self::SetnxGetset => setnx_getset::sell(world).await,
            Self::SetNxPx | Self::StoppedSetNxPx => set_nx_px::sell(world).await,
            Self::Redlock => redlock::sell(world).await,
            Self::StockadeUnfenced | Self::StoppedUnfenced => stockade::sell_unfenced(world).await,
            Self::Stockade | Self::Stopped => stockade::sell(world).await,
            Self::ForUpdate => for_update::sell(world).await,
            Self::ConditionalUpdate => conditional_update::sell(world).await,
            Self::Optimistic => optimistic::sell(world).await,
            Self::Decrby => decrby::sell(world).await,
            Self::Script => script::sell(world).await,
            Self::Flash => Ok(flash::sell(world).await?),
        }
    }
}
