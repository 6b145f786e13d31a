//! What both versions of DuckDB's C API have alike: how they are declared here and looked up, and the layouts of texts and large integers.

/// Opaque pointers, each of a name of its own, so that they do not mix. Each is declared in the module that names it.
macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) struct $name(pub(super) *mut std::ffi::c_void);

        impl $name {
            /// No object.
            #[allow(dead_code, reason = "some are only ever given by DuckDB")]
            pub(super) const NULL: Self = Self(std::ptr::null_mut());
        }
    )*};
}
pub(super) use handles;

/// `Functions`, the table of all functions that dpb calls; `Functions::load`, which fills it; and `DECLARED`, the declarations for the
/// tests, which compare them with DuckDB's header. Functions under `optional` are not in every library. `or_linked if CONDITION;` before
/// the first adds `Functions::linked`, for builds into which DuckDB is linked.
macro_rules! functions {
    (or_linked if $condition:meta; $($functions:tt)*) => {
        $crate::duckdb::abi::functions! { $($functions)* }
        $crate::duckdb::abi::linked! { $condition; $($functions)* }
    };
    (
        $(fn $name:ident($($ty:ty),*) $(-> $ret:ty)?;)*
        $(optional { $(fn $late:ident($($late_ty:ty),*) $(-> $late_ret:ty)?;)* })?
    ) => {
        /// Every function that dpb calls, under its C name; those that not every library has may be absent.
        #[derive(Clone)]
        pub(super) struct Functions {
            $(pub(super) $name: unsafe extern "C" fn($($ty),*) $(-> $ret)?,)*
            $($(pub(super) $late: Option<unsafe extern "C" fn($($late_ty),*) $(-> $late_ret)?>,)*)?
        }

        /// Names, arguments and results of all functions, as they are declared here.
        #[cfg(test)]
        const DECLARED: &[(&str, &[&str], &str)] = &[
            $((stringify!($name), &[$(stringify!($ty)),*], concat!($(stringify!($ret))?)),)*
            $($((stringify!($late), &[$(stringify!($late_ty)),*], concat!($(stringify!($late_ret))?)),)*)?
        ];

        impl Functions {
            /// Looks every function up in `library`, whose version has been made sure of where the API is not stable.
            ///
            /// # Errors
            /// The name of the first that is missing.
            pub(super) fn load(library: &libloading::Library) -> Result<Self, &'static str> {
                // SAFETY: each type is the function's declaration in DuckDB's header, with which the tests compare it, and whose meaning
                // DuckDB keeps between the versions that the caller takes; the copied pointers stay good because the library is never
                // unloaded.
                unsafe {
                    Ok(Self {
                        $($name: *library
                            .get::<unsafe extern "C" fn($($ty),*) $(-> $ret)?>(stringify!($name).as_bytes())
                            .map_err(|_| stringify!($name))?,)*
                        $($($late: library
                            .get::<unsafe extern "C" fn($($late_ty),*) $(-> $late_ret)?>(stringify!($late).as_bytes())
                            .ok()
                            .map(|symbol| *symbol),)*)?
                    })
                }
            }
        }
    };
}
pub(super) use functions;

/// `Functions::linked`, of the same list of functions.
macro_rules! linked {
    (
        $condition:meta;
        $(fn $name:ident($($ty:ty),*) $(-> $ret:ty)?;)*
        optional { $(fn $late:ident($($late_ty:ty),*) $(-> $late_ret:ty)?;)* }
    ) => {
        #[cfg($condition)]
        impl Functions {
            /// The functions that the bundled build linked into this program.
            pub(super) fn linked() -> Self {
                use libduckdb_sys as _;
                unsafe extern "C" {
                    $(fn $name($(_: $ty),*) $(-> $ret)?;)*
                    $(fn $late($(_: $late_ty),*) $(-> $late_ret)?;)*
                }
                Self { $($name,)* $($late: Some($late),)* }
            }
        }
    };
}
pub(super) use linked;

/// `idx_t`.
pub(super) type Index = u64;

/// `duckdb_string_t` and `duckdb_v2_bytes`: a length, then twelve bytes of text, or four and a pointer to all of it.
#[repr(C, align(8))]
#[derive(Clone, Copy, Default)]
pub(super) struct Text {
    pub(super) len: u32,
    pub(super) inlined: [u8; 12],
}

/// Texts up to this length lie inside [`Text`].
pub(super) const INLINE_MAX: usize = 12;

/// `duckdb_hugeint` and `duckdb_v2_hugeint_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Huge {
    pub(super) lower: u64,
    pub(super) upper: i64,
}
