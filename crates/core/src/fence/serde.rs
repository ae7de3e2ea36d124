//! A fence as a number, in whatever format serde writes.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::Fence;

impl Serialize for Fence {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.get())
    }
}

impl<'de> Deserialize<'de> for Fence {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::try_from(u64::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_a_number_in_json_and_one_that_cannot_be_is_refused() {
        let fence = Fence::new(1_763_713_011_000_000).unwrap();
        assert_eq!(serde_json::to_string(&fence).unwrap(), "1763713011000000");
        assert_eq!(serde_json::from_str::<Fence>("1763713011000000").unwrap(), fence);
        let error = serde_json::from_str::<Fence>("9007199254740992").unwrap_err().to_string();
        assert!(error.contains("9007199254740992 is not a fence"), "{error}");
        assert!(serde_json::from_str::<Fence>("-1").is_err());
    }
}
