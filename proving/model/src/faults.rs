//! How often each fault may happen in a world.

/// Makes the counts of faults, and a method of `Scope` for each that sets it in `Scope::left_mut`.
macro_rules! faults {
    ($($(#[$doc:meta])* $fault:ident,)*) => {
        /// How often each fault may still happen.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub(super) struct Left {
            $($(#[$doc])* pub(super) $fault: u8,)*
        }

        impl Scope {
            $(
                $(#[$doc])*
                #[must_use]
                pub const fn $fault(mut self, times: u8) -> Self {
                    self.left_mut().$fault = times;
                    self
                }
            )*
        }
    };
}

pub(crate) use faults;
