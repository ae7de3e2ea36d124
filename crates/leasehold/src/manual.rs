//! The manual: what locks guarantee, and how to use them correctly the first time.
//!
//! Begin with [`first_steps`]. If you are responsible for a system in production, also read
//! [`guarantees`], [`stores`] and [`fences`]. If you are called because a lock is stuck, read
//! [`stuck`].
//!
//! The tests compile the examples on these pages, and run those that need no server.

macro_rules! pages {
    ($($page:ident)*) => {$(
        #[doc = include_str!(concat!("../manual/", stringify!($page), ".md"))]
        pub mod $page {}
    )*};
}

pages! { first_steps guarantees stores defaults cancelling fences running testing stuck lock_delay coming_from }
