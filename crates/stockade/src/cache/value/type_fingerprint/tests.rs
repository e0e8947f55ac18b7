use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;

use super::*;

/// What a type looks like, whatever its path is.
fn shape<V: DeserializeOwned>() -> u64 {
    look_at::<V>(Hash::new()).value()
}

/// One type as a version of a program has it.
macro_rules! version {
    ($name:ident: $($item:item)+) => {
        mod $name {
            #![allow(dead_code, reason = "only what reading them asks for counts")]
            use super::*;
            $(#[derive(Deserialize)] $item)+
        }
    };
}

version! {
    first:
    pub(super) struct Stock {
        quantity: u64,
        places: Vec<Option<Place>>,
        state: State,
    }
    pub(super) struct Place {
        row: u8,
    }
    pub(super) enum State {
        Open,
        Closed(Place),
    }
}
version! {
    same:
    pub(super) struct Stock {
        quantity: u64,
        places: Vec<Option<Place>>,
        state: State,
    }
    pub(super) struct Place {
        row: u8,
    }
    pub(super) enum State {
        Open,
        Closed(Place),
    }
}
version! {
    renamed:
    pub(super) struct Stock {
        amount: u64,
        places: Vec<Option<Place>>,
        state: State,
    }
    pub(super) struct Place {
        row: u8,
    }
    pub(super) enum State {
        Open,
        Closed(Place),
    }
}
version! {
    wider:
    pub(super) struct Stock {
        quantity: i64,
        places: Vec<Option<Place>>,
        state: State,
    }
    pub(super) struct Place {
        row: u8,
    }
    pub(super) enum State {
        Open,
        Closed(Place),
    }
}
version! {
    added:
    pub(super) struct Stock {
        quantity: u64,
        places: Vec<Option<Place>>,
        state: State,
        #[serde(default)]
        note: Option<String>,
    }
    pub(super) struct Place {
        row: u8,
    }
    pub(super) enum State {
        Open,
        Closed(Place),
    }
}
version! {
    inside:
    pub(super) struct Stock {
        quantity: u64,
        places: Vec<Option<Place>>,
        state: State,
    }
    pub(super) struct Place {
        column: u8,
    }
    pub(super) enum State {
        Open,
        Closed(Place),
    }
}
version! {
    variant:
    pub(super) struct Stock {
        quantity: u64,
        places: Vec<Option<Place>>,
        state: State,
    }
    pub(super) struct Place {
        row: u8,
    }
    pub(super) enum State {
        Open,
        Shut(Place),
    }
}

#[test]
fn a_type_that_changed_at_any_depth_has_another_shape() {
    assert_eq!(shape::<first::Stock>(), shape::<same::Stock>());
    let versions = [
        shape::<first::Stock>(),
        shape::<renamed::Stock>(),
        shape::<wider::Stock>(),
        shape::<added::Stock>(),
        shape::<inside::Stock>(),
        shape::<variant::Stock>(),
    ];
    for (i, version) in versions.iter().enumerate() {
        assert!(!versions[..i].contains(version), "version {i}");
    }
    assert_ne!(shape::<HashMap<String, first::Place>>(), shape::<HashMap<String, inside::Place>>());
    assert_ne!(shape::<(u8, u8)>(), shape::<(u8, u8, u8)>());
}

/// A text that reads no other than one of its own.
#[derive(Debug)]
struct Strict;

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "strict" { Ok(Self) } else { Err(de::Error::custom("not strict")) }
    }
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "only what reading it asks for counts")]
struct Wide {
    parent: Option<Box<Self>>,
    children: Vec<Self>,
    named: BTreeMap<String, Self>,
    other: Option<Box<Self>>,
}

#[test]
fn a_look_at_any_type_ends_and_repeats_itself() {
    assert_eq!(shape::<Wide>(), shape::<Wide>());
    assert_eq!(shape::<Strict>(), shape::<String>(), "what it takes is not seen");
    assert_eq!(shape::<serde_json::Value>(), shape::<serde_json::Value>());
    // Unrelated types in one place: the name of the type tells them apart.
    assert_ne!(of::<Strict>().value(), of::<String>().value());
}
