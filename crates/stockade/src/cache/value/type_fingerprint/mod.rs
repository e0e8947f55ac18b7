use std::{any::type_name, fmt};

use serde::{
    Deserializer,
    de::{
        self, DeserializeOwned, DeserializeSeed, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, VariantAccess,
        Visitor,
    },
};

/// How much of a type is looked at: enough for what one caches, and an end to types that hold themselves.
const STEPS: u32 = 2000;
const DEPTH: u32 = 12;

/// A number for what a type looks like: its name, and the names of the fields and variants that reading one asks for.
///
/// Two versions of a program that differ in them keep values of their own. A field that was renamed is seen, a meaning
/// that changed is not.
pub(crate) fn of<V: DeserializeOwned>() -> Hash {
    let mut hash = Hash::new();
    hash.text(type_name::<V>());
    look_at::<V>(hash)
}

fn look_at<V: DeserializeOwned>(hash: Hash) -> Hash {
    let mut probe = Probe { hash, steps: STEPS };
    // It ends with an error where a type accepts no empty text or no zero; what was seen so far then has to do.
    let _ = V::deserialize(Look { probe: &mut probe, depth: 0 });
    probe.hash
}

/// FNV-1a.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hash(u64);

impl Hash {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
        self.bytes(&[0xff]);
    }

    pub(crate) fn value(self) -> u64 {
        self.0
    }
}

struct Probe {
    hash: Hash,
    steps: u32,
}

/// Answers whatever is asked for with the least there is, and notes what was.
struct Look<'a> {
    probe: &'a mut Probe,
    depth: u32,
}

impl Look<'_> {
    fn note(&mut self, what: &str) -> Result<(), Ended> {
        self.probe.hash.text(what);
        self.probe.steps = self.probe.steps.checked_sub(1).ok_or(Ended)?;
        Ok(())
    }

    fn note_all(&mut self, what: &str, names: &'static [&'static str]) -> Result<(), Ended> {
        self.note(what)?;
        names.iter().for_each(|name| self.probe.hash.text(name));
        Ok(())
    }

    fn is_deep(&self) -> bool {
        self.depth >= DEPTH
    }
}

/// The look ended before its end.
#[derive(Debug)]
struct Ended;

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the type was not looked at to its end")
    }
}

impl std::error::Error for Ended {}

impl de::Error for Ended {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

macro_rules! plain {
    ($($method:ident => $visit:ident($($value:expr)?);)+) => {
        $(fn $method<T: Visitor<'de>>(mut self, visitor: T) -> Result<T::Value, Ended> {
            self.note(stringify!($visit))?;
            visitor.$visit($($value)?)
        })+
    };
}

impl<'de> Deserializer<'de> for Look<'_> {
    type Error = Ended;

    plain! {
        deserialize_bool => visit_bool(false);
        deserialize_i8 => visit_i8(0);
        deserialize_i16 => visit_i16(0);
        deserialize_i32 => visit_i32(0);
        deserialize_i64 => visit_i64(0);
        deserialize_i128 => visit_i128(0);
        deserialize_u8 => visit_u8(0);
        deserialize_u16 => visit_u16(0);
        deserialize_u32 => visit_u32(0);
        deserialize_u64 => visit_u64(0);
        deserialize_u128 => visit_u128(0);
        deserialize_f32 => visit_f32(0.0);
        deserialize_f64 => visit_f64(0.0);
        deserialize_char => visit_char(' ');
        deserialize_str => visit_str("");
        deserialize_string => visit_str("");
        deserialize_bytes => visit_bytes(&[]);
        deserialize_byte_buf => visit_bytes(&[]);
        deserialize_unit => visit_unit();
        deserialize_identifier => visit_str("");
        deserialize_ignored_any => visit_unit();
        deserialize_any => visit_unit();
    }

    fn deserialize_option<T: Visitor<'de>>(mut self, visitor: T) -> Result<T::Value, Ended> {
        self.note("option")?;
        if self.is_deep() {
            return visitor.visit_none();
        }
        visitor.visit_some(Look { probe: self.probe, depth: self.depth + 1 })
    }

    fn deserialize_unit_struct<T: Visitor<'de>>(mut self, name: &'static str, visitor: T) -> Result<T::Value, Ended> {
        self.note(name)?;
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<T: Visitor<'de>>(
        mut self,
        name: &'static str,
        visitor: T,
    ) -> Result<T::Value, Ended> {
        self.note(name)?;
        visitor.visit_newtype_struct(Look { probe: self.probe, depth: self.depth + 1 })
    }

    fn deserialize_seq<T: Visitor<'de>>(mut self, visitor: T) -> Result<T::Value, Ended> {
        self.note("seq")?;
        let left = usize::from(!self.is_deep());
        visitor.visit_seq(Each { look: self, names: &[], left })
    }

    fn deserialize_tuple<T: Visitor<'de>>(mut self, len: usize, visitor: T) -> Result<T::Value, Ended> {
        self.note("tuple")?;
        self.probe.hash.bytes(&len.to_be_bytes());
        visitor.visit_seq(Each { look: self, names: &[], left: len })
    }

    fn deserialize_tuple_struct<T: Visitor<'de>>(
        mut self,
        name: &'static str,
        len: usize,
        visitor: T,
    ) -> Result<T::Value, Ended> {
        self.note(name)?;
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_map<T: Visitor<'de>>(mut self, visitor: T) -> Result<T::Value, Ended> {
        self.note("map")?;
        let left = usize::from(!self.is_deep());
        visitor.visit_map(Each { look: self, names: &[], left })
    }

    fn deserialize_struct<T: Visitor<'de>>(
        mut self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: T,
    ) -> Result<T::Value, Ended> {
        self.note_all(name, fields)?;
        visitor.visit_map(Each { look: self, names: fields, left: fields.len() })
    }

    fn deserialize_enum<T: Visitor<'de>>(
        mut self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: T,
    ) -> Result<T::Value, Ended> {
        self.note_all(name, variants)?;
        match variants.first() {
            Some(first) if !self.is_deep() => visitor.visit_enum(First { look: self, name: first }),
            _ => Err(Ended),
        }
    }
}

/// The elements of a sequence, the fields of a struct by their names, or the one entry of a map.
struct Each<'a> {
    look: Look<'a>,
    names: &'static [&'static str],
    left: usize,
}

impl Each<'_> {
    fn next(&mut self) -> Look<'_> {
        Look { depth: self.look.depth + 1, probe: self.look.probe }
    }
}

impl<'de> SeqAccess<'de> for Each<'_> {
    type Error = Ended;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Ended> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        seed.deserialize(self.next()).map(Some)
    }
}

impl<'de> MapAccess<'de> for Each<'_> {
    type Error = Ended;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Ended> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        match self.names.split_first() {
            Some((name, rest)) => {
                self.names = rest;
                seed.deserialize((*name).into_deserializer()).map(Some)
            }
            None => seed.deserialize(self.next()).map(Some),
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Ended> {
        seed.deserialize(self.next())
    }
}

/// The first variant of an enum.
struct First<'a> {
    look: Look<'a>,
    name: &'static str,
}

impl<'de, 'a> EnumAccess<'de> for First<'a> {
    type Error = Ended;
    type Variant = Look<'a>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Look<'a>), Ended> {
        let variant = seed.deserialize(self.name.into_deserializer())?;
        Ok((variant, Look { depth: self.look.depth + 1, probe: self.look.probe }))
    }
}

impl<'de> VariantAccess<'de> for Look<'_> {
    type Error = Ended;

    fn unit_variant(self) -> Result<(), Ended> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Ended> {
        seed.deserialize(self)
    }

    fn tuple_variant<T: Visitor<'de>>(self, len: usize, visitor: T) -> Result<T::Value, Ended> {
        self.deserialize_tuple(len, visitor)
    }

    fn struct_variant<T: Visitor<'de>>(self, fields: &'static [&'static str], visitor: T) -> Result<T::Value, Ended> {
        self.deserialize_struct("variant", fields, visitor)
    }
}

#[cfg(test)]
mod tests;
