//! A transfer token as a text, in whatever format serde writes.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::TransferToken;

impl Serialize for TransferToken {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TransferToken {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl de::Visitor<'_> for Text {
            type Value = TransferToken;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the text of a transfer token")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<TransferToken, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Claim, Fence, Holder, Key};

    #[test]
    fn a_token_is_its_text_in_json_and_any_other_text_is_refused() {
        let claim = Claim::exclusive(Key::new("k").unwrap());
        let token = TransferToken::new(claim, Holder::from_bits(1), Fence::new(7).unwrap());
        let json = serde_json::to_string(&token).unwrap();
        assert_eq!(json, format!("\"{token}\""));
        assert_eq!(serde_json::from_str::<TransferToken>(&json).unwrap(), token);
        let error = serde_json::from_str::<TransferToken>("\"k\"").unwrap_err().to_string();
        assert!(error.contains("not a transfer token"), "{error}");
    }
}
