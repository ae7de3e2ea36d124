//! The manual: what locks promise, and how to use them rightly the first time.
//!
//! Begin with [`first_steps`]. Whoever answers for a system in production reads [`guarantees`], [`stores`] and [`fences`] as well; whoever is called at
//! night, [`stuck`].
//!
//! Each of these pages is text with examples, which the tests compile, and run where they need no server.

macro_rules! pages {
    ($($page:ident)*) => {$(
        #[doc = include_str!(concat!("../manual/", stringify!($page), ".md"))]
        pub mod $page {}
    )*};
}

pages! { first_steps guarantees stores defaults cancelling fences running testing stuck lock_delay coming_from }
