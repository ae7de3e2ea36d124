//! A lock in JSON, the same for `show` and `ls`, as `leasehold show --help` describes it.

use std::time::Duration;

use leasehold::{BreakRecord, Fence, HolderInfo, KeyState, Marked, Mode, Owner, Waiter};
use serde::Serialize;

use crate::json::{self, KeyText, millis};
use crate::mark::{BreakJson, MarkJson};

#[derive(Debug, Serialize)]
pub(crate) struct LockJson {
    #[serde(flatten)]
    key: KeyText,
    held: bool,
    holders: Vec<HolderJson>,
    waiters: Vec<WaiterJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    damaged: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct HolderJson {
    #[serde(flatten)]
    owner: OwnerJson,
    #[serde(flatten)]
    mode: ModeJson,
    fence: Option<u64>,
    granted_at: Option<u64>,
    held_ms: Option<u64>,
    remaining_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum OwnerJson {
    Lease { holder: String, label: Option<String> },
    Foreign { value: String },
    NotALock,
}

#[derive(Debug, Serialize)]
pub(crate) struct WaiterJson {
    place: usize,
    holder: String,
    label: Option<String>,
    #[serde(flatten)]
    mode: ModeJson,
    waited_ms: u64,
}

impl LockJson {
    pub(crate) fn line(state: &KeyState) -> String {
        json::line(&Self::from(state))
    }

    /// One line of JSON, with the mark and the break record of the key.
    pub(crate) fn line_with(
        state: &KeyState,
        marked: Option<&Marked>,
        broken: Option<&BreakRecord>,
    ) -> String {
        #[derive(Serialize)]
        struct Remembered {
            #[serde(flatten)]
            seen: LockJson,
            mark: Option<MarkJson>,
            last_break: Option<BreakJson>,
        }
        let (mark, last_break) = (marked.and_then(MarkJson::of), broken.map(Into::into));
        json::line(&Remembered { seen: state.into(), mark, last_break })
    }
}

impl From<&KeyState> for LockJson {
    fn from(state: &KeyState) -> Self {
        Self {
            key: (&state.key).into(),
            held: !state.holders.is_empty(),
            holders: state
                .holders
                .iter()
                .map(|holding| HolderJson::of(holding, state.held_for(holding)))
                .collect(),
            waiters: state.waiters.iter().zip(1..).map(WaiterJson::of).collect(),
            damaged: state.damage.as_deref().map(str::to_owned),
        }
    }
}

/// When a holding of a known duration began: milliseconds since 1970 by the store's clock, its fence.
pub(crate) fn granted_at(holding: &HolderInfo, held_for: Option<Duration>) -> Option<u64> {
    held_for.and(holding.fence).map(|fence| fence.get() / 1000)
}

impl HolderJson {
    pub(crate) fn of(holding: &HolderInfo, held_for: Option<Duration>) -> Self {
        Self {
            owner: OwnerJson::from(&holding.owner),
            mode: holding.mode.into(),
            fence: holding.fence.map(Fence::get),
            granted_at: granted_at(holding, held_for),
            held_ms: held_for.map(millis),
            remaining_ms: holding.remaining.map(millis),
        }
    }
}

impl From<&Owner> for OwnerJson {
    fn from(owner: &Owner) -> Self {
        match owner {
            Owner::Holder { holder, label } => {
                Self::Lease { holder: holder.to_string(), label: label.as_ref().map(ToString::to_string) }
            }
            Owner::Foreign { value } => Self::Foreign { value: readable(value) },
            _ => Self::NotALock,
        }
    }
}

impl WaiterJson {
    pub(crate) fn of((waiter, place): (&Waiter, usize)) -> Self {
        Self {
            place,
            holder: waiter.holder.to_string(),
            label: waiter.label.as_ref().map(ToString::to_string),
            mode: waiter.mode.into(),
            waited_ms: millis(waiter.waited),
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
enum ModeJson {
    Exclusive,
    Shared,
    Permits { permits: u32, of: u32 },
    Unknown,
}

impl From<Mode> for ModeJson {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Exclusive => Self::Exclusive,
            Mode::Shared => Self::Shared,
            Mode::Permits { weight, of } => Self::Permits { permits: weight, of },
            _ => Self::Unknown,
        }
    }
}

/// A waiter for people, named as it will be as a holder.
pub(crate) fn name_of(waiter: &Waiter) -> String {
    Owner::Holder { holder: waiter.holder, label: waiter.label.clone() }.to_string()
}

pub(crate) fn mode(mode: Mode) -> String {
    match mode {
        Mode::Permits { weight, of } => format!("{weight} of {of} permits"),
        mode => mode.to_string(),
    }
}

/// Another program's value: JSON escapes control characters, and this what is not text.
fn readable(value: &[u8]) -> String {
    let mut text = String::new();
    for chunk in value.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use leasehold::{Holder, Key, Label, Stamp};

    use super::*;

    const HOLDER: Holder = Holder::from_bits(0x0123_4567 << 96);

    #[test]
    fn each_kind_of_owner_and_a_waiter_have_these_fields() {
        let key = Key::new(b"k\xff\"").unwrap();
        let label = Label::new("web \"3\"").ok();
        let ours = Owner::Holder { holder: HOLDER, label: label.clone() };
        let foreign = Owner::Foreign { value: b"x\n\xff".as_slice().into() };
        let holders = vec![
            HolderInfo::exclusive(
                key.clone(),
                ours,
                Fence::new(7_999_999),
                Some(Duration::from_millis(1500)),
            ),
            HolderInfo::exclusive(key.clone(), foreign, None, None),
            HolderInfo::exclusive(key.clone(), Owner::NotALock, None, None),
        ];
        let waiter = Waiter::exclusive(HOLDER, None, Duration::from_secs(2)).in_mode(Mode::Shared);
        let state = KeyState::new(key, holders, vec![waiter]).at(Stamp::from_micros(70_000_000));
        assert_eq!(
            LockJson::line(&state),
            concat!(
                r#"{"key":"k\\xff\"","key_hex":"6bff22","held":true,"holders":["#,
                r#"{"kind":"lease","holder":"01234567","label":"web \"3\"","mode":"exclusive","fence":7999999,"granted_at":7999,"held_ms":62000,"remaining_ms":1500},"#,
                r#"{"kind":"foreign","value":"x\n\\xff","mode":"exclusive","fence":null,"granted_at":null,"held_ms":null,"remaining_ms":null},"#,
                r#"{"kind":"not_a_lock","mode":"exclusive","fence":null,"granted_at":null,"held_ms":null,"remaining_ms":null}],"#,
                r#""waiters":[{"place":1,"holder":"01234567","label":null,"mode":"shared","waited_ms":2000}]}"#,
                "\n"
            )
        );
    }
}
