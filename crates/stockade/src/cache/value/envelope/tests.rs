use std::{collections::BTreeMap, fmt::Debug};

use proptest::{collection, prelude::*};
use serde::Deserialize;

use super::*;

const MAX: usize = 1 << 20;

/// Every way to write values that this build has.
fn envelopes<V: DeserializeOwned>() -> Vec<Envelope> {
    let codecs = [
        Codec::Json,
        #[cfg(feature = "msgpack")]
        Codec::MessagePack,
    ];
    let compressions = [
        None,
        #[cfg(feature = "lz4")]
        Some(Compression::lz4()),
        #[cfg(feature = "lz4")]
        Some(Compression::lz4().above(0)),
    ];
    let each = |codec| compressions.map(|compression| Envelope::of::<V>(0, codec, compression, MAX));
    codecs.into_iter().flat_map(each).collect()
}

fn json<V: DeserializeOwned>(schema: u32) -> Envelope {
    Envelope::of::<V>(schema, Codec::Json, None, MAX)
}

fn comes_back<V: Serialize + DeserializeOwned + PartialEq + Debug>(value: &V) {
    for envelope in envelopes::<V>() {
        let encoded = envelope.encode(Some(value)).unwrap();
        let (found, weight) = envelope.decode::<V>(&encoded.bytes, false).unwrap();
        assert_eq!((found.as_ref(), weight), (Some(value), encoded.weight), "{envelope:?}");
        assert_eq!(envelope.decode::<V>(&encoded.bytes, true), Err(Unreadable), "a value is no absence");
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Leaf {
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    maybe: Option<i64>,
    ratio: f64,
    bytes: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Tree {
    Nothing,
    Leaf(Leaf),
    Named { by: BTreeMap<String, Self> },
    Row(Vec<Self>),
    Pair(Box<(Self, Option<Self>)>),
}

fn leaf() -> impl Strategy<Value = Leaf> {
    let ratio = any::<f64>().prop_filter("JSON has no such number", |ratio| ratio.is_finite());
    (".*", any::<Option<i64>>(), ratio, any::<Vec<u8>>()).prop_map(|(text, maybe, ratio, bytes)| Leaf {
        text,
        maybe,
        ratio,
        bytes,
    })
}

fn tree() -> impl Strategy<Value = Tree> {
    let end = prop_oneof![Just(Tree::Nothing), leaf().prop_map(Tree::Leaf)];
    end.prop_recursive(6, 64, 6, |inner| {
        prop_oneof![
            collection::vec(inner.clone(), 0..6).prop_map(Tree::Row),
            collection::btree_map(".*", inner.clone(), 0..4).prop_map(|by| Tree::Named { by }),
            (inner.clone(), proptest::option::of(inner)).prop_map(|pair| Tree::Pair(Box::new(pair))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_stored_comes_back(value in tree()) {
        comes_back(&value);
    }

    #[test]
    fn every_float_comes_back_as_it_was(value in any::<f64>().prop_filter("finite", |value| value.is_finite())) {
        comes_back(&value);
    }

    #[test]
    fn a_payload_that_lost_or_changed_a_byte_is_unreadable(value in tree(), at in any::<proptest::sample::Index>(), flip in 1_u8..) {
        for envelope in envelopes::<Tree>() {
            let mut bytes = envelope.encode(Some(&value)).unwrap().bytes;
            let at = at.index(bytes.len());
            prop_assert_eq!(envelope.decode::<Tree>(&bytes[..at], false), Err(Unreadable));
            bytes[at] ^= flip;
            prop_assert_eq!(envelope.decode::<Tree>(&bytes, false), Err(Unreadable));
        }
    }

    #[test]
    fn bytes_of_anybody_are_unreadable(bytes in any::<Vec<u8>>(), null in any::<bool>()) {
        for envelope in envelopes::<Tree>() {
            prop_assert_eq!(envelope.decode::<Tree>(&bytes, null), Err(Unreadable));
        }
    }
}

#[test]
fn nothing_an_empty_text_and_null_stay_apart() {
    for envelope in envelopes::<String>() {
        let absent = envelope.encode::<String>(None).unwrap().bytes;
        let empty = envelope.encode(Some(&String::new())).unwrap().bytes;
        assert_eq!(envelope.decode::<String>(&absent, true).unwrap().0, None);
        assert_eq!(envelope.decode::<String>(&absent, false), Err(Unreadable));
        assert_eq!(envelope.decode::<String>(&empty, false).unwrap().0, Some(String::new()));
        assert_eq!(envelope.decode::<String>(&empty, true), Err(Unreadable));
    }
    for envelope in envelopes::<Option<u8>>() {
        let null = envelope.encode(Some(&None::<u8>)).unwrap().bytes;
        assert_eq!(envelope.decode::<Option<u8>>(&null, false).unwrap().0, Some(None));
        assert_eq!(envelope.decode::<Option<u8>>(&null, true), Err(Unreadable));
    }
    comes_back(&serde_json::json!({ "null": null, "empty": "", "list": [null, [], {}] }));
    comes_back(&());
}

#[test]
fn large_and_deep_values_come_back() {
    comes_back(&"x".repeat(MAX - 100));
    comes_back(&(0..50_000_u32).collect::<Vec<_>>());
    let deep = (0..60).fold(Tree::Nothing, |inner, _| Tree::Row(vec![inner]));
    comes_back(&deep);
}

#[test]
fn a_number_that_lost_its_last_digit_is_not_another_number() {
    for envelope in envelopes::<u64>() {
        let bytes = envelope.encode(Some(&1_234_567_u64)).unwrap().bytes;
        assert_eq!(envelope.decode::<u64>(&bytes[..bytes.len() - 1], false), Err(Unreadable));
    }
}

#[test]
fn what_is_over_the_limit_is_not_encoded_to_its_end() {
    struct Endless<'a>(&'a std::cell::Cell<u32>);
    impl Serialize for Endless<'_> {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_seq((0..1_000_000).inspect(|_| self.0.set(self.0.get() + 1)))
        }
    }

    let envelope = Envelope::of::<Vec<u32>>(0, Codec::Json, None, 100);
    let written = std::cell::Cell::new(0);
    assert!(matches!(envelope.encode(Some(&Endless(&written))), Err(Unstorable::TooLarge(100))));
    assert!(written.get() < 100, "{written:?} elements");
    let fits = envelope.encode(Some(&"x".repeat(98))).unwrap();
    assert_eq!(fits.bytes.len(), HEADER + 100);
    assert!(matches!(envelope.encode(Some(&"x".repeat(99))), Err(Unstorable::TooLarge(_))));
    let unwritable = BTreeMap::from([((1, 2), 3)]);
    let envelope = Envelope::of::<()>(0, Codec::Json, None, 100);
    assert!(matches!(envelope.encode(Some(&unwritable)), Err(Unstorable::NoEncoding(_))));
}

#[test]
#[cfg(feature = "lz4")]
fn a_small_payload_that_would_become_a_large_one_is_unreadable() {
    let roomy = Envelope::of::<String>(0, Codec::Json, Some(Compression::lz4()), 64 << 20);
    let bomb = roomy.encode(Some(&"x".repeat(60 << 20))).unwrap();
    assert!(bomb.bytes.len() < 300_000, "{} bytes", bomb.bytes.len());
    assert!(roomy.decode::<String>(&bomb.bytes, false).is_ok());
    let strict = Envelope::of::<String>(0, Codec::Json, Some(Compression::lz4()), MAX);
    assert_eq!(strict.decode::<String>(&bomb.bytes, false), Err(Unreadable));
    // A payload whose stated size is wrong gets no more memory than the stated size.
    let mut lies = bomb.bytes;
    lies[HEADER..HEADER + 4].copy_from_slice(&1000_u32.to_le_bytes());
    let sum = checksum(&lies[..HEAD], &lies[HEADER..]);
    lies[HEAD..HEADER].copy_from_slice(&sum);
    assert_eq!(strict.decode::<String>(&lies, false), Err(Unreadable));
}

#[test]
fn the_checksum_is_crc_32() {
    // The check value of CRC-32/ISO-HDLC. With another checksum, all stored values would be unreadable.
    assert_eq!(checksum(b"1234", b"56789"), 0xcbf4_3926_u32.to_be_bytes());
}

#[test]
fn other_layouts_codecs_forms_and_schemas_are_unreadable() {
    let envelope = json::<u64>(0);
    let bytes = envelope.encode(Some(&7_u64)).unwrap().bytes;
    assert_eq!(envelope.decode::<u64>(&bytes, false).unwrap().0, Some(7));
    assert_eq!(json::<u64>(1).decode::<u64>(&bytes, false), Err(Unreadable));
    assert_eq!(json::<u32>(0).decode::<u64>(&bytes, false), Err(Unreadable));
    for (at, what) in [(0, "layout"), (1, "codec"), (2, "form")] {
        let mut other = bytes.clone();
        other[at] = 99;
        let sum = checksum(&other[..HEAD], &other[HEADER..]);
        other[HEAD..HEADER].copy_from_slice(&sum);
        assert_eq!(envelope.decode::<u64>(&other, false), Err(Unreadable), "{what}");
    }
}

/// The name of a type in a block has the name of its function and not of the block, so these are versions of one type.
#[test]
fn a_type_that_changed_under_its_name_is_told_apart_by_its_schema_only() {
    let old = {
        #[derive(Serialize, Deserialize)]
        struct Stock {
            quantity: u64,
        }
        assert_eq!(json::<Stock>(0).fingerprint(), json::<Stock>(0).fingerprint());
        json::<Stock>(0).encode(Some(&Stock { quantity: 7 })).unwrap().bytes
    };
    {
        #[derive(Debug, PartialEq, Deserialize)]
        struct Stock {
            quantity: u64,
            #[serde(default)]
            reserved: u64,
        }
        let read = |schema| json::<Stock>(schema).decode::<Stock>(&old, false);
        assert_eq!(read(0).unwrap().0, Some(Stock { quantity: 7, reserved: 0 }));
        assert_eq!(read(1), Err(Unreadable));
        assert_ne!(json::<Stock>(1).fingerprint(), json::<Stock>(0).fingerprint());
    }
    {
        #[derive(Debug, PartialEq, Deserialize)]
        struct Stock {
            amount: u64,
        }
        assert_eq!(json::<Stock>(0).decode::<Stock>(&old, false), Err(Unreadable));
    }
}
