//! A fence as a `bigint` of PostgreSQL.

use std::error::Error;

use bytes::BytesMut;
use postgres_types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

use super::Fence;

impl ToSql for Fence {
    accepts!(INT8);

    to_sql_checked!();

    fn to_sql(&self, of: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        i64::from(*self).to_sql(of, out)
    }
}

impl<'a> FromSql<'a> for Fence {
    accepts!(INT8);

    fn from_sql(of: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self::try_from(i64::from_sql(of, raw)?)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_a_bigint_and_one_that_cannot_be_is_refused() {
        let fence = Fence::new(1_763_713_011_000_000).unwrap();
        let mut sent = BytesMut::new();
        assert!(fence.to_sql_checked(&Type::INT4, &mut sent).is_err());
        assert!(matches!(fence.to_sql_checked(&Type::INT8, &mut sent), Ok(IsNull::No)));
        assert_eq!(*sent, 1_763_713_011_000_000_i64.to_be_bytes());
        assert_eq!(Fence::from_sql(&Type::INT8, &sent).unwrap(), fence);
        let error = Fence::from_sql(&Type::INT8, &(-1_i64).to_be_bytes()).unwrap_err().to_string();
        assert!(error.contains("-1 is not a fence"), "{error}");
    }
}
