//! A shared library that may not be there, and functions in it that may have other names.
#![allow(unsafe_code)]

use std::error::Error;
use std::ffi::OsStr;
use std::fmt;
use std::mem::ManuallyDrop;

use libloading::os::unix;

/// A library in this process. It stays for as long as the process does: devices call back into it, and it into them, from
/// threads that nobody here has started.
pub(crate) struct Library {
    /// Never unloaded.
    handle: ManuallyDrop<libloading::Library>,
    name: String,
}

/// No library of these names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NotLoaded {
    /// The loader's message for each name.
    pub(crate) tried: Vec<String>,
}

/// A function that the library lacks, under all its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoSymbol {
    pub(crate) names: Vec<String>,
    pub(crate) of: String,
}

impl Library {
    /// The first that loads; the loader searches its own folders for names without a slash.
    ///
    /// # Safety
    /// Loading runs the library's initialisers. The names must be of a library that has nothing else there.
    pub(crate) unsafe fn open<S: AsRef<OsStr>>(names: &[S]) -> Result<Self, NotLoaded> {
        let mut tried = Vec::with_capacity(names.len());
        for name in names {
            let name = name.as_ref();
            // All symbols now: one that is missing is this library's fault, and not the end of the process at its first call.
            // SAFETY: the caller vouches for the library.
            match unsafe { unix::Library::open(Some(name), unix::RTLD_NOW | unix::RTLD_LOCAL) } {
                Ok(library) => {
                    return Ok(Self {
                        handle: ManuallyDrop::new(library.into()),
                        name: name.to_string_lossy().into_owned(),
                    });
                }
                // The loader's own words are the cause; the error itself says only which call failed.
                Err(error) => tried.push(error.source().unwrap_or(&error).to_string()),
            }
        }
        Err(NotLoaded { tried })
    }

    /// The name that the library was loaded by.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether the library has a symbol of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        // SAFETY: the address is only looked at.
        unsafe { self.handle.get::<*const ()>(name.as_bytes()) }.is_ok()
    }

    /// The function that has the first of these names that is there.
    ///
    /// # Safety
    /// `F` is the type of a pointer to that function, as the library declares it under each of the names.
    pub(crate) unsafe fn function<F: Copy>(&self, names: &[&str]) -> Result<F, NoSymbol> {
        let found = names.iter().find_map(|name| {
            // SAFETY: the caller vouches for the type.
            unsafe { self.handle.get::<F>(name.as_bytes()) }.ok()
        });
        found.map(|symbol| *symbol).ok_or_else(|| NoSymbol {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            of: self.name.clone(),
        })
    }
}

impl fmt::Display for NotLoaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.tried.join("; "))
    }
}

impl fmt::Display for NoSymbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} lacks {}", self.of, self.names.join(" and "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_found_and_what_is_not_is_named() {
        // SAFETY: the C library is in this process already.
        let library = unsafe { Library::open(&["libno-such-thing.so.7", "libc.so.6"]) };
        let library = library.unwrap_or_else(|missing| panic!("{missing}"));
        assert_eq!(library.name(), "libc.so.6");
        assert!(library.has("getpid") && !library.has("no_such_function"));
        // SAFETY: as POSIX declares it.
        let getpid: extern "C" fn() -> i32 =
            unsafe { library.function(&["no_such_function", "getpid"]) }.expect("there");
        assert_eq!(getpid() as u32, std::process::id());
        // SAFETY: nothing is called.
        let missing = unsafe { library.function::<extern "C" fn()>(&["no_such_function"]) };
        let missing = missing.expect_err("not there").to_string();
        assert_eq!(missing, "libc.so.6 lacks no_such_function");

        // SAFETY: nothing is loaded.
        let missing = unsafe { Library::open(&["libno-such-thing.so.7"]) };
        let missing = missing.err().expect("not there").to_string();
        assert!(missing.contains("libno-such-thing.so.7"), "{missing}");
    }
}
