use std::collections::BTreeSet;

use crate::{RedisServer, Result, port::BUS};

/// The cluster as one node knows it.
#[derive(Debug)]
pub(super) struct View {
    /// `cluster_state:ok`.
    pub(super) is_ok: bool,
    /// The newest epoch that it has heard of.
    pub(super) newest_epoch: Option<u64>,
    nodes: Vec<Known>,
}

/// A node as one node knows it: a line of `CLUSTER NODES`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) id: String,
    pub(super) is_primary: bool,
    pub(super) epoch: u64,
    /// The id of its primary.
    pub(super) replicates: Option<String>,
    /// Slots that it sends elsewhere, with the id of the node that gets them.
    pub(super) migrating: Vec<(u16, String)>,
    is_myself: bool,
    /// Introduced, connected and not suspected.
    is_well: bool,
    port: u16,
    /// The slots that it serves, as ranges of first and last.
    slots: Vec<(u16, u16)>,
}

impl View {
    pub(super) async fn of(node: &RedisServer) -> Result<Self> {
        let nodes = node.ask(&["CLUSTER", "NODES"]).await?;
        let info = node.ask(&["CLUSTER", "INFO"]).await?;
        let newest_epoch = info.lines().find_map(|line| line.strip_prefix("cluster_current_epoch:"));
        Ok(Self {
            is_ok: info.contains("cluster_state:ok"),
            newest_epoch: newest_epoch.and_then(|epoch| epoch.trim().parse().ok()),
            nodes: nodes.lines().filter_map(Known::parse).collect(),
        })
    }

    pub(super) fn myself(&self) -> Option<&Known> {
        self.nodes.iter().find(|node| node.is_myself)
    }

    /// The port of the node that serves the slot.
    pub(super) fn primary_of(&self, slot: u16) -> Option<u16> {
        self.nodes.iter().find(|node| node.is_primary && node.serves(slot)).map(|node| node.port)
    }

    /// True when both know the same roles and slots.
    pub(super) fn agrees_with(&self, other: &Self) -> bool {
        let roles = |view: &Self| -> BTreeSet<_> {
            let known = view.nodes.iter().filter(|node| node.is_well);
            known.map(|node| (node.port, node.is_primary, node.replicates.clone(), node.slots.clone())).collect()
        };
        roles(self) == roles(other)
    }

    /// True when it knows all of these nodes as they know themselves, and finds them well.
    pub(super) fn is_complete(&self, views: &[(&RedisServer, Self)]) -> bool {
        views.iter().filter_map(|(_, view)| view.myself()).all(|node| {
            let known = self.nodes.iter().find(|known| known.id == node.id);
            known.is_some_and(|known| known.is_well && known.replicates == node.replicates && known.slots == node.slots)
        })
    }
}

impl Known {
    /// `id ip:port@bus flags primary ping pong epoch link slots…`, where a slot that is on the move is `[slot->-id]` or
    /// `[slot-<-id]`. The port is computed from the port of the bus, because nodes with TLS name their port
    /// only to clients that ask over TLS.
    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [id, addr, flags, primary, _, _, epoch, link, slots @ ..] = fields.as_slice() else { return None };
        let flags: Vec<&str> = flags.split(',').collect();
        let has = |flag: &str| flags.contains(&flag);
        let range = |text: &str| {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            Some((first.parse().ok()?, last.parse().ok()?))
        };
        let leaving = |text: &str| {
            let (slot, to) = text.strip_prefix('[')?.strip_suffix(']')?.split_once("->-")?;
            Some((slot.parse().ok()?, to.to_owned()))
        };
        Some(Self {
            id: (*id).to_owned(),
            is_primary: has("master"),
            epoch: epoch.parse().ok()?,
            replicates: (*primary != "-").then(|| (*primary).to_owned()),
            migrating: slots.iter().filter_map(|text| leaving(text)).collect(),
            is_myself: has("myself"),
            is_well: *link == "connected" && !["fail", "fail?", "handshake", "noaddr"].into_iter().any(has),
            port: addr.split(',').next()?.rsplit('@').next()?.parse::<u16>().ok()?.checked_sub(BUS)?,
            slots: slots.iter().filter_map(|text| range(text)).collect(),
        })
    }

    pub(super) fn serves(&self, slot: u16) -> bool {
        self.slots.iter().any(|(first, last)| (*first..=*last).contains(&slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_line_with_ranges_single_slots_and_slots_on_the_move() {
        let line = "07c3 127.0.0.1:0@30004,host myself,master - 0 1426238317239 4 connected 0-5460 7000 [77->-292f] [78-<-e7d1]";
        let node = Known::parse(line).unwrap();
        assert_eq!((node.id.as_str(), node.port, node.epoch), ("07c3", 20_004, 4));
        assert!(node.is_primary && node.is_myself && node.is_well);
        assert_eq!(node.slots, [(0, 5460), (7000, 7000)]);
        assert_eq!(node.migrating, [(77, "292f".to_owned())]);
        assert!(node.serves(5460) && node.serves(7000) && !node.serves(5461));
    }

    #[test]
    fn a_replica_names_its_primary_and_a_suspected_node_is_not_well() {
        let node = Known::parse("6ec2 127.0.0.1:20001@30001 slave,fail? 67ed 0 1 3 connected").unwrap();
        assert_eq!(node.replicates.as_deref(), Some("67ed"));
        assert!(!node.is_primary && !node.is_well);
    }
}
