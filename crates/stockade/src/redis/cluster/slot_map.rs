use std::{collections::HashMap, sync::Arc};

use redis::Value;

use crate::{
    redis::{Node, text},
    resource::Bucket,
};

/// One node's view of the cluster.
#[derive(Debug, Default)]
pub(super) struct View {
    myself: String,
    nodes: HashMap<String, Known>,
    /// First and last slot of each range, and the id of its primary.
    ranges: Vec<(u16, u16, String)>,
    /// The ids of primaries that announce no host name, although clients are to use host names.
    nameless: Vec<String>,
}

#[derive(Debug, Default)]
struct Known {
    /// The node's epoch. A node that takes over slots gets a higher one.
    epoch: u64,
    has_failed: bool,
    at: Option<Node>,
}

impl View {
    /// Reads the replies to `CLUSTER SLOTS` and `CLUSTER NODES`. `SLOTS` has the addresses that clients are to use, and
    /// `NODES` has the epochs. `asked` is the host that answered.
    pub(super) fn read(slots: &Value, nodes: &str, asked: &str) -> Option<Self> {
        let mut view = Self::default();
        for line in nodes.lines() {
            // `id ip:port@bus flags primary ping pong epoch link slots…`
            let fields: Vec<_> = line.split_whitespace().collect();
            let [id, _, flags, _, _, _, epoch, ..] = fields.as_slice() else { continue };
            let has = |wanted: &str| flags.split(',').any(|flag| flag == wanted);
            if has("myself") {
                (*id).clone_into(&mut view.myself);
            }
            let known = Known { epoch: epoch.parse().ok()?, has_failed: has("fail"), at: None };
            view.nodes.insert((*id).to_owned(), known);
        }
        let Value::Array(ranges) = slots else { return None };
        for range in ranges {
            let Value::Array(range) = range else { return None };
            let [Value::Int(first), Value::Int(last), Value::Array(primary), ..] = range.as_slice() else {
                return None;
            };
            let [host, Value::Int(port), id, ..] = primary.as_slice() else { return None };
            let id = text(id)?;
            // A node that does not know its own address leaves it out. The address is then the one it was asked at.
            let host = text(host).filter(|host| !host.is_empty()).unwrap_or(asked);
            if host != "?" {
                let at = Node { host: host.into(), port: u16::try_from(*port).ok()? };
                view.nodes.entry(id.to_owned()).or_default().at = Some(at);
            } else if !view.nameless.iter().any(|known| known == id) {
                view.nameless.push(id.to_owned());
            }
            view.ranges.push((u16::try_from(*first).ok()?, u16::try_from(*last).ok()?, id.to_owned()));
        }
        Some(view)
    }

    /// Whether the node knows of no slot that is served: it has not joined the cluster, or has left it.
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Why some slots can't be reached. `None` if each node that serves slots has an address.
    pub(super) fn unfit(&self) -> Option<Arc<str>> {
        if self.nameless.is_empty() {
            return None;
        }
        let ids = self.nameless.join(", ");
        Some(format!("these nodes announce no host name: {ids}; set cluster-announce-hostname on each").into())
    }

    fn owner(&self, slot: u16) -> Option<Owner> {
        let (_, _, id) = self.ranges.iter().find(|(first, last, _)| (*first..=*last).contains(&slot))?;
        let known = self.nodes.get(id)?;
        Some(Owner { node: known.at.clone()?, id: id.as_str().into(), epoch: known.epoch })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Owner {
    node: Node,
    id: Arc<str>,
    epoch: u64,
}

/// Which node serves each bucket, as far as is known.
#[derive(Debug)]
pub(super) struct SlotMap([Option<Owner>; 256]);

impl Default for SlotMap {
    fn default() -> Self {
        Self([const { None }; 256])
    }
}

impl SlotMap {
    pub(super) fn owner(&self, bucket: Bucket) -> Option<&Node> {
        self.0[usize::from(bucket.index())].as_ref().map(|owner| &owner.node)
    }

    /// Every node that serves a bucket, once.
    pub(super) fn nodes(&self) -> Vec<Node> {
        let mut nodes: Vec<Node> = Vec::new();
        for owner in self.0.iter().flatten() {
            if !nodes.contains(&owner.node) {
                nodes.push(owner.node.clone());
            }
        }
        nodes
    }

    /// Takes over newer facts. Returns whether a bucket moved to another node.
    ///
    /// A node that was frozen or cut off still names itself or an earlier owner until it has heard from the others. So
    /// a claim counts only if it has a newer epoch, if it comes from the known owner itself, or if the known owner has
    /// failed or left the cluster.
    pub(super) fn learn(&mut self, view: &View) -> bool {
        let mut changed = false;
        for bucket in (0..=u8::MAX).map(Bucket::from_index) {
            let Some(claim) = view.owner(bucket.slot()) else { continue };
            let known = &mut self.0[usize::from(bucket.index())];
            let counts = known.as_ref().is_none_or(|known| {
                known.id == claim.id
                    || known.epoch < claim.epoch
                    || *known.id == *view.myself
                    || view.nodes.get(&*known.id).is_none_or(|node| node.has_failed)
            });
            if counts {
                changed |= known.as_ref().is_none_or(|known| known.node != claim.node);
                *known = Some(claim);
            }
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    /// The view of the node `myself`: three nodes with these epochs. `first_half` has the first half of the slots.
    fn view(myself: &str, epochs: [u64; 3], first_half: &str) -> View {
        let nodes: String = ["a", "b", "c"]
            .iter()
            .zip(epochs)
            .map(|(id, epoch)| {
                let me = if *id == myself { "myself," } else { "" };
                format!("{id} 127.0.0.1:1@2,host {me}master - 0 1426238317239 {epoch} connected 0-8191\n")
            })
            .collect();
        let range = |first, last, id: &str| {
            let port = i64::from(id.as_bytes()[0]);
            let primary = Value::Array(vec![bulk("127.0.0.1"), Value::Int(port), bulk(id), Value::Map(vec![])]);
            Value::Array(vec![Value::Int(first), Value::Int(last), primary])
        };
        let slots = Value::Array(vec![range(0, 8191, first_half), range(8192, 16_383, "c")]);
        View::read(&slots, &nodes, "127.0.0.1").unwrap()
    }

    #[test]
    fn a_node_that_slept_through_a_failover_does_not_get_its_slots_back() {
        let first = Bucket::from_index(0);
        let mut map = SlotMap::default();
        assert!(map.learn(&view("c", [1, 2, 3], "a")));
        assert_eq!(map.owner(first).unwrap().port, u16::from(b'a'));
        // b was promoted, then a wakes up and says what it knew.
        assert!(map.learn(&view("c", [1, 4, 3], "b")));
        assert!(!map.learn(&view("a", [1, 2, 3], "a")));
        assert_eq!(map.owner(first).unwrap().port, u16::from(b'b'));
        // An owner's statement about its own slots counts without a newer epoch.
        assert!(map.learn(&view("b", [1, 4, 3], "a")));
    }

    #[test]
    fn a_node_without_a_name_is_where_it_was_found() {
        let primary = Value::Array(vec![Value::Nil, Value::Int(7000), bulk("a")]);
        let slots = Value::Array(vec![Value::Array(vec![Value::Int(0), Value::Int(16_383), primary])]);
        let nodes = "a :7000@17000 myself,master - 0 0 1 connected 0-16383";
        let mut map = SlotMap::default();
        map.learn(&View::read(&slots, nodes, "10.0.0.7").unwrap());
        assert_eq!(map.nodes().len(), 1);
        assert_eq!(map.owner(Bucket::from_index(255)).unwrap().to_string(), "10.0.0.7:7000");
    }
}
