//! The names of side keys, which put them into the cluster slot of their key.

use leasehold_core::Key;

/// Slots of a cluster.
pub const SLOTS: u16 = 16_384;

/// The characters of tags, in the order in which the search for tags tries them.
const ALPHABET: &[u8; 64] = b"-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";

/// The key in which a member of a quorum records the run that vouches for its leases. There is one
/// for each database of a server, which belongs to no key and so to no slot; in a cluster, [one for
/// each slot](member_key_in).
pub const MEMBER_KEY: &str = "leasehold:member";

/// The same in a cluster: each slot has its own, which is in that slot and moves with it.
///
/// # Panics
///
/// If the number is not a slot.
#[must_use]
pub fn member_key_in(slot: u16) -> String {
    format!("{MEMBER_KEY}{{{}}}", tag(slot))
}

/// Where the last fence is remembered. Keys that are equal up to the first colon share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a test asks as each kind of store does")]
pub struct FenceKeys {
    /// At a member of a quorum, the fence key is a hash with a field for each [tag](tag_of): a
    /// quorum's fence is the one that it proposes, and other keys' fences must not get ahead of it.
    pub at_member: bool,
    /// In a cluster, it must be in the same slot as the key.
    pub by_slot: bool,
}

impl FenceKeys {
    /// The name of the fence key of this key.
    #[must_use]
    pub fn name(self, key: &Key) -> Vec<u8> {
        self.parts(key).concat()
    }

    pub(crate) fn parts(self, key: &Key) -> [&[u8]; 5] {
        let kind: &[u8] = if self.at_member { b"f{" } else { b"c{" };
        let tag = if self.by_slot { tag_of(key) } else { "-" };
        [Key::RESERVED.as_bytes(), kind, tag.as_bytes(), b"}", segment(key)]
    }
}

/// The part of a key up to its first colon, or nothing.
pub(crate) fn segment(key: &Key) -> &[u8] {
    let key = key.as_bytes();
    key.iter().position(|&byte| byte == b':').map_or(&[], |colon| &key[..=colon])
}

/// The kind of a side key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Side {
    /// The order of the key's waiters.
    Queue,
    /// The data of each waiter.
    Waiters,
    /// The mark of the key's job.
    Mark,
    /// The record of the last broken lease.
    Break,
    /// The holders that share the key, in the order in which their shares end.
    Holders,
    /// The data of each share.
    Shares,
}

impl Side {
    /// The letter of its kind, and the opening brace of the tag.
    const fn opening(self) -> &'static [u8] {
        match self {
            Self::Queue => b"l{",
            Self::Waiters => b"w{",
            Self::Mark => b"m{",
            Self::Break => b"b{",
            Self::Holders => b"h{",
            Self::Shares => b"i{",
        }
    }

    /// What the names of all side keys of this kind begin with.
    pub(crate) fn prefix(self) -> Vec<u8> {
        [Key::RESERVED.as_bytes(), self.opening()].concat()
    }

    /// The key of a side key's name, if it has this prefix.
    pub(crate) fn key_of(self, name: &[u8], prefix: &[u8]) -> Option<Key> {
        let tagged = name.strip_prefix(&*self.prefix())?;
        // The first braces are ours, and the key follows them.
        let key = &tagged[tagged.iter().position(|&byte| byte == b'}')? + 1..];
        if key.starts_with(prefix) { Key::new(key).ok() } else { None }
    }
}

/// The name of a side key: `leasehold:`, the letter of its kind, a tag in braces that puts it into
/// the key's slot, the key.
///
/// This works for every key and is injective: the first braces are always ours, and everything
/// after them is the key verbatim. The usual way, which puts the key itself into the braces, fails
/// for keys that contain braces.
#[must_use]
pub fn side_key(side: Side, key: &Key) -> Vec<u8> {
    Sides::of(key).parts(side).concat()
}

/// The side keys of a key, for callers that need several.
pub(crate) struct Sides<'a> {
    key: &'a Key,
    tag: &'static str,
}

impl<'a> Sides<'a> {
    pub(crate) fn of(key: &'a Key) -> Self {
        Self { key, tag: tag_of(key) }
    }

    /// The parts of the name of one side key.
    pub(crate) fn parts(&self, side: Side) -> [&'a [u8]; 5] {
        let Self { key, tag } = *self;
        [Key::RESERVED.as_bytes(), side.opening(), tag.as_bytes(), b"}", key.as_bytes()]
    }
}

/// The slot of a name: of the part between the first `{` and the next `}` if that is not empty,
/// otherwise of the whole name.
#[must_use]
pub fn slot_of(name: &[u8]) -> u16 {
    let tagged = name.iter().position(|&byte| byte == b'{').and_then(|open| {
        let rest = &name[open + 1..];
        let len = rest.iter().position(|&byte| byte == b'}')?;
        (len > 0).then(|| &rest[..len])
    });
    crc16(tagged.unwrap_or(name)) % SLOTS
}

/// The tag of the slot of a key.
#[must_use]
pub fn tag_of(key: &Key) -> &'static str {
    tag(slot_of(key.as_bytes()))
}

/// The tag of a slot: the first of the shortest strings whose slot it is.
///
/// # Panics
///
/// If the number is not a slot, that is, [`SLOTS`] or more.
#[must_use]
pub fn tag(slot: u16) -> &'static str {
    let tag = &TAGS[usize::from(slot)];
    let len = tag.iter().position(|&byte| byte == 0).unwrap_or(TAG_LEN);
    std::str::from_utf8(&tag[..len]).expect("the alphabet is ASCII")
}

/// Every slot has a tag of at most this many characters.
const TAG_LEN: usize = 3;

/// A part of the wire protocol: two processes with different tables would count the fences of a key
/// separately. Shorter tags are padded with zeros. The compiler computes it, so that no process
/// spends its first milliseconds on it.
static TAGS: [[u8; TAG_LEN]; SLOTS as usize] = tags();

const fn tags() -> [[u8; TAG_LEN]; SLOTS as usize] {
    let mut tags = [[0; TAG_LEN]; SLOTS as usize];
    let base = ALPHABET.len();
    let mut len = 0;
    let mut prefixes = 1;
    while len < TAG_LEN {
        // The prefixes of one length, in order: the digits of 0, 1, 2 … in the alphabet.
        let mut nth = 0;
        while nth < prefixes {
            let (mut string, mut crc, mut weight) = ([0; TAG_LEN], 0, prefixes);
            let mut at = 0;
            while at < len {
                weight /= base;
                string[at] = ALPHABET[nth / weight % base];
                crc = crc16_step(crc, string[at]);
                at += 1;
            }
            // The checksum is linear, so the last character changes it by a number of its own. A
            // call of `crc16_step` for each of a quarter of a million strings would take the
            // compiler some seconds.
            let zero_last = crc16_step(crc, 0);
            let mut last = 0;
            while last < base {
                let slot = ((zero_last ^ CRC16[ALPHABET[last] as usize]) % SLOTS) as usize;
                if tags[slot][0] == 0 {
                    string[len] = ALPHABET[last];
                    tags[slot] = string;
                }
                last += 1;
            }
            nth += 1;
        }
        prefixes *= base;
        len += 1;
    }
    tags
}

/// CRC-16/XMODEM, as the cluster specification says.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| crc16_step(crc, byte))
}

const fn crc16_step(crc: u16, byte: u8) -> u16 {
    (crc << 8) ^ CRC16[((crc >> 8) as u8 ^ byte) as usize]
}

/// The effect of each byte on the checksum.
const CRC16: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc << 1) ^ if crc >> 15 == 1 { 0x1021 } else { 0 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    #[test]
    fn slots_are_those_of_the_cluster_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b"foo"), 12_182);
        assert_eq!(slot_of(b"{user1000}.following"), slot_of(b"user1000"));
        assert_eq!(slot_of(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS);
        assert_eq!(slot_of(b"foo{{bar}}zap"), slot_of(b"{bar"));
        assert_eq!(slot_of(b"foo{bar}{zap}"), slot_of(b"bar"));
    }

    #[test]
    fn every_slot_has_a_tag_of_at_most_three_characters() {
        for slot in 0..SLOTS {
            assert_eq!(crc16(tag(slot).as_bytes()) % SLOTS, slot);
            assert!((1..=3).contains(&tag(slot).len()));
        }
    }

    /// With a changed table, two versions of a program could grant the same fence twice.
    #[test]
    fn the_table_of_tags_is_the_same_for_ever() {
        let table: Vec<_> = (0..SLOTS).map(tag).collect();
        let hash = redis::Script::new(&table.join("\n")).get_hash().to_owned();
        assert_eq!(hash, "7e0e4c7e41059a5bd57ece4f2e9f9ef79d5a3bc2");
    }

    #[test]
    fn awkward_keys_have_these_side_keys() {
        let golden: [(&[u8], &[u8]); 12] = [
            (b"a", b"leasehold:l{a}a"),
            (b"invoice:42", b"leasehold:l{1ps}invoice:42"),
            (b"{}", b"leasehold:l{2ml}{}"),
            (b"a{b}c", b"leasehold:l{b}a{b}c"),
            (b"{a", b"leasehold:l{0M2}{a"),
            (b"}{", b"leasehold:l{9s}}{"),
            (b"a}", b"leasehold:l{23d}a}"),
            (b"{a}{b}", b"leasehold:l{a}{a}{b}"),
            (b"{{a}}", b"leasehold:l{0M2}{{a}}"),
            (b"{}{a}", b"leasehold:l{4e}{}{a}"),
            (b"a b\n", b"leasehold:l{2hb}a b\n"),
            (b"\xff\0{", b"leasehold:l{-cT}\xff\0{"),
        ];
        for (key, side) in golden {
            let made = side_key(Side::Queue, &Key::new(key).unwrap());
            assert_eq!(made.escape_ascii().to_string(), side.escape_ascii().to_string());
        }
    }

    #[test]
    fn sides_have_these_letters() {
        let sides = [Side::Queue, Side::Waiters, Side::Holders, Side::Shares, Side::Mark, Side::Break];
        let key = Key::new("a").unwrap();
        let names = sides.map(|side| side_key(side, &key).escape_ascii().to_string());
        assert_eq!(names, ["l", "w", "h", "i", "m", "b"].map(|letter| format!("leasehold:{letter}{{a}}a")));
        let fences = [(false, "leasehold:c{a}"), (true, "leasehold:f{a}")];
        for (at_member, name) in fences {
            assert_eq!(FenceKeys { at_member, by_slot: true }.name(&key), name.as_bytes());
        }
    }

    #[test]
    fn only_the_name_of_a_side_key_of_the_kind_leads_to_its_key() {
        let key = |name: &[u8], prefix: &[u8]| {
            let [mark, queue] = [Side::Mark, Side::Queue].map(|side| side.key_of(name, prefix));
            [mark, queue].map(|key| key.map(|key| key.to_string()))
        };
        assert_eq!(key(b"leasehold:m{1ps}invoice:42", b"inv"), [Some("invoice:42".into()), None]);
        assert_eq!(key(b"leasehold:l{1ps}invoice:42", b"inv"), [None, Some("invoice:42".into())]);
        assert_eq!(key(b"leasehold:l{2ml}{}", b""), [None, Some("{}".into())]);
        assert_eq!(key(b"leasehold:b{1ps}invoice:42", b""), [None, None]);
        // The pattern matches it, because the prefix follows some brace.
        assert_eq!(key(b"leasehold:l{x}other}inv", b"inv"), [None, None]);
        for name in ["leasehold:l{x}", "leasehold:l{x", "leasehold:member{x}"] {
            assert_eq!(key(name.as_bytes(), b""), [None, None], "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_side_key_lies_in_the_slot_of_its_key(name in vec(select(&b"{}ab\0\xff"[..]), 1..12)) {
            let key = Key::new(&name).unwrap();
            prop_assert_eq!(slot_of(&side_key(Side::Queue, &key)), slot_of(&name));
        }

        #[test]
        fn different_keys_have_different_side_keys(
            a in vec(select(&b"{}a-"[..]), 1..6),
            b in vec(select(&b"{}a-"[..]), 1..6),
        ) {
            let [left, right] = [&a, &b].map(|name| side_key(Side::Queue, &Key::new(name).unwrap()));
            prop_assert_eq!(left == right, a == b);
        }
    }
}
