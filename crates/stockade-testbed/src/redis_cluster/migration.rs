//! Moving slots while clients use them.

use super::RedisCluster;
use crate::{Error, RedisServer, Result, until::until};

/// How many keys one `MIGRATE` takes along.
const BATCH: &str = "100";

impl RedisCluster {
    /// Moves a slot with its keys to another primary, in all the steps below.
    ///
    /// # Errors
    ///
    /// The errors of the steps.
    pub async fn migrate(&self, slot: u16, to: &RedisServer) -> Result<()> {
        self.begin_migration(slot, to).await?;
        self.move_keys(slot).await?;
        self.finish_migration(slot).await
    }

    /// First step: from here on the old primary answers for keys that it has, sends clients to `to` for the others
    /// (`-ASK`), and refuses commands that need keys of both kinds (`-TRYAGAIN`).
    ///
    /// # Errors
    ///
    /// When nobody serves the slot, or one of the two nodes refuses.
    pub async fn begin_migration(&self, slot: u16, to: &RedisServer) -> Result<()> {
        let from = self.primary_of(slot).await?;
        let (from_id, to_id) = (id_of(from).await?, id_of(to).await?);
        let slot = slot.to_string();
        // In this order: no client may be sent to a node that would send it back.
        to.command(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]).await?;
        from.command(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]).await?;
        Ok(())
    }

    /// Second step: moves the keys that the old primary has now, and says how many. Can be repeated.
    ///
    /// # Errors
    ///
    /// When the slot is not on the move, or a key is on both nodes.
    pub async fn move_keys(&self, slot: u16) -> Result<usize> {
        let (from, to, _) = self.ends_of(slot).await?;
        let (slot, port) = (slot.to_string(), to.port().to_string());
        let mut moved = 0;
        loop {
            let listed = from.command(&["CLUSTER", "GETKEYSINSLOT", &slot, BATCH]).await?;
            let keys: Vec<&str> = listed.lines().collect();
            if keys.is_empty() {
                return Ok(moved);
            }
            let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000"];
            words.extend(to.password().into_iter().flat_map(|password| ["AUTH", password]));
            words.push("KEYS");
            words.extend(&keys);
            from.command(&words).await?;
            moved += keys.len();
        }
    }

    /// Last step: gives the slot to the new primary and waits until all running nodes know.
    ///
    /// # Errors
    ///
    /// When the slot is not on the move, keys of it are left behind, or that takes longer than 60 s.
    pub async fn finish_migration(&self, slot: u16) -> Result<()> {
        let (from, to, to_id) = self.ends_of(slot).await?;
        let text = slot.to_string();
        let told = ["CLUSTER", "SETSLOT", &text, "NODE", &to_id];
        // The new primary claims the slot with an epoch one above the newest that it has heard of. If it had not heard
        // of the last claim, both claims would have the same epoch, and a node that heard of the last claim first would
        // never accept the new one.
        let heard = async || {
            let views = self.views().await;
            let newest = views.first().and_then(|(_, view)| view.newest_epoch);
            newest.is_some() && views.iter().all(|(_, view)| view.newest_epoch == newest)
        };
        until("all nodes know the newest epoch", heard).await?;
        // The new primary first: if the old one forgot the slot earlier, nobody would have it for a moment.
        to.command(&told).await?;
        from.command(&told).await?;
        let known = async || self.views().await.iter().all(|(_, view)| view.primary_of(slot) == Some(to.port()));
        until(format!("all nodes know who serves slot {slot}"), known).await
    }

    /// The primary that a slot leaves, the primary that it goes to, and the id of the second.
    async fn ends_of(&self, slot: u16) -> Result<(&RedisServer, &RedisServer, String)> {
        let still = || Error::NotReached { what: format!("slot {slot} is on the move"), limit: crate::until::ASK };
        let views = self.views().await;
        let leaving = views.iter().find_map(|(node, view)| {
            let (_, to) = view.myself()?.migrating.iter().find(|(moving, _)| *moving == slot)?;
            Some((*node, to.clone()))
        });
        let (from, id) = leaving.ok_or_else(still)?;
        let to = views.iter().find(|(_, view)| view.myself().is_some_and(|myself| myself.id == id));
        Ok((from, to.ok_or_else(still)?.0, id))
    }
}

async fn id_of(node: &RedisServer) -> Result<String> {
    node.command(&["CLUSTER", "MYID"]).await
}
