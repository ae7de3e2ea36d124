//! The map from slots to nodes, as far as it is known.

use std::borrow::Cow;
use std::collections::BTreeSet;

use redis::Value;

use crate::redirect::Node;
use crate::reply::text_of;
use crate::slot::SLOTS;

#[derive(Clone, Debug, Default)]
pub(crate) struct Map {
    /// By slot, as indices of `masters`; slots without an owner have none.
    owners: Vec<Option<u16>>,
    masters: Vec<Node>,
}

impl Map {
    /// Reads the answer to `CLUSTER SLOTS` of the node at this host; `None` if it is not valid.
    pub(crate) fn read(value: &Value, asked: &str) -> Option<Self> {
        let Value::Array(ranges) = value else { return None };
        if ranges.len() > usize::from(SLOTS) {
            return None;
        }
        let mut map = Self { owners: vec![None; usize::from(SLOTS)], masters: Vec::new() };
        for range in ranges {
            let Value::Array(fields) = range else { return None };
            let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = fields.as_slice() else {
                return None;
            };
            let (first, last) = (usize::try_from(*first).ok()?, usize::try_from(*last).ok()?);
            let [host, Value::Int(port), ..] = master.as_slice() else { return None };
            let host = match host {
                Value::Nil => Cow::default(),
                host => text_of(host)?,
            };
            // A node that does not know another's host name says so; then that node's slots count
            // as slots without an owner.
            let port = u16::try_from(*port).ok().filter(|port| *port != 0 && host != "?");
            let host = if host.is_empty() { asked } else { &*host };
            let owner = port.and_then(|port| map.number(Node { host: host.to_owned(), port }));
            map.owners.get_mut(first..=last)?.fill(owner);
        }
        Some(map)
    }

    pub(crate) fn owner(&self, slot: u16) -> Option<&Node> {
        let owner = self.owners.get(usize::from(slot)).copied().flatten()?;
        self.masters.get(usize::from(owner))
    }

    pub(crate) fn slots_of(&self, node: &Node) -> Vec<u16> {
        let slots = (0..).zip(&self.owners);
        let owner = |number: &Option<u16>| number.and_then(|number| self.masters.get(usize::from(number)));
        slots.filter(|(_, number)| owner(number) == Some(node)).map(|(slot, _)| slot).collect()
    }

    /// The number of slots without an owner.
    pub(crate) fn unserved(&self) -> usize {
        (0..SLOTS).filter(|slot| self.owner(*slot).is_none()).count()
    }

    /// Notes that a node named this owner of a slot.
    pub(crate) fn put(&mut self, slot: u16, owner: Node) {
        self.owners.resize(usize::from(SLOTS), None);
        self.owners[usize::from(slot)] = self.number(owner);
    }

    /// The nodes that own slots.
    pub(crate) fn masters(&self) -> BTreeSet<Node> {
        let owners: BTreeSet<_> = self.owners.iter().flatten().collect();
        owners.into_iter().filter_map(|owner| self.masters.get(usize::from(*owner)).cloned()).collect()
    }

    /// `None` for more nodes than there can be.
    fn number(&mut self, node: Node) -> Option<u16> {
        let known = self.masters.iter().position(|master| *master == node);
        let number = known.unwrap_or_else(|| {
            self.masters.push(node);
            self.masters.len() - 1
        });
        u16::try_from(number).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: &str, port: u16) -> Node {
        Node { host: host.into(), port }
    }

    fn range(first: i64, last: i64, host: Value, port: i64) -> Value {
        let id = Value::BulkString(b"0123456789abcdef".into());
        Value::Array(vec![
            Value::Int(first),
            Value::Int(last),
            Value::Array(vec![host, Value::Int(port), id]),
        ])
    }

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn every_slot_has_the_owner_of_its_range_and_those_between_have_none() {
        let answer = Value::Array(vec![
            range(0, 99, text("a"), 1),
            range(101, 16_383, text("b"), 2),
            range(100, 100, text("?"), 3),
        ]);
        let map = Map::read(&answer, "seed").unwrap();
        assert_eq!(map.owner(0), Some(&node("a", 1)));
        assert_eq!(map.owner(99), Some(&node("a", 1)));
        assert_eq!(map.owner(100), None);
        assert_eq!(map.owner(16_383), Some(&node("b", 2)));
        assert_eq!(map.masters(), [node("a", 1), node("b", 2)].into());
    }

    #[test]
    fn a_node_that_knows_no_name_of_its_own_is_where_it_was_asked() {
        for nameless in [Value::Nil, text("")] {
            let map = Map::read(&Value::Array(vec![range(0, 1, nameless, 7)]), "seed").unwrap();
            assert_eq!(map.owner(1), Some(&node("seed", 7)));
        }
    }

    #[test]
    fn a_master_whose_last_slot_went_is_none_any_more() {
        let mut map = Map::read(&Value::Array(vec![range(5, 5, text("a"), 1)]), "seed").unwrap();
        map.put(5, node("b", 2));
        assert_eq!((map.owner(5), map.masters()), (Some(&node("b", 2)), [node("b", 2)].into()));
        let mut empty = Map::default();
        assert_eq!(empty.owner(5), None);
        empty.put(16_383, node("c", 3));
        assert_eq!(empty.owner(16_383), Some(&node("c", 3)));
    }

    #[test]
    fn an_unexpected_reply_is_none_and_not_a_panic() {
        let reversed = range(7, 5, text("a"), 1);
        let far = range(0, 16_384, text("a"), 1);
        let below = range(-1, 5, text("a"), 1);
        for strange in [
            Value::Nil,
            Value::Okay,
            Value::Array(vec![Value::Nil]),
            Value::Array(vec![far]),
            Value::Array(vec![below]),
        ] {
            assert!(Map::read(&strange, "seed").is_none(), "{strange:?}");
        }
        let _ = Map::read(&Value::Array(vec![reversed]), "seed");
        let too_many = (0..=65_536).map(|n| range(0, 0, text(&format!("h{n}")), 1)).collect();
        assert!(Map::read(&Value::Array(too_many), "seed").is_none());
    }
}
