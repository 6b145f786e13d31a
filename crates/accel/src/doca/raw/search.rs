//! Searches for regular expressions, up to 2.2: what they report, and what is made of it.
//!
//! A search writes to no buffer. It reports matches out of a pool, which must go back there, whatever became of the job; they are
//! taken over as soon as it has ended, and written as `rxpmatch` has them when its output is due.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr::{self, NonNull};

use super::super::sys::jobs::{Report, STATUS_INVALID_JOB, STATUS_MAX_MATCH, Searching};
use super::super::sys::{Code, Engine};

/// Matches that a BlueField-2 reports of one job at most.
const MATCHES_USUAL: usize = 254;
/// Matches in a pool. One job's would do, for they go back before the next job is asked for; but when DOCA takes them out, it does
/// not say.
const POOL_MATCHES: u32 = 1 << 14;
/// Bytes that say that a rule matches: its id, and the smallest end of a match.
pub(in crate::doca) const MATCH_BYTES: usize = 8;

/// The memory that the searches of one work queue report to.
pub(super) struct Searches {
    calls: Searching,
    /// Reports by the numbers of their jobs. DOCA writes to a report until its job has ended.
    reports: Vec<UnsafeCell<Report>>,
    /// The matches of the search that ended last.
    found: Vec<Found>,
}

/// A match of a rule that ends at `end`, in the order of outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    rule: u32,
    end: u32,
}

const NOTHING: Report = Report {
    status: 0,
    detected: 0,
    count: 0,
    matches: ptr::null_mut(),
    pool: ptr::null_mut(),
};

impl Searches {
    /// Makes room for `jobs` jobs.
    pub(super) fn new(calls: Searching, jobs: u32) -> Self {
        let nothing = |_| UnsafeCell::new(NOTHING);
        Self {
            calls,
            reports: (0..jobs).map(nothing).collect(),
            found: Vec::with_capacity(MATCHES_USUAL),
        }
    }

    /// Gives an engine its rules, and says how many matches its pool is to have.
    ///
    /// # Errors
    /// The call that failed, and its code.
    ///
    /// # Safety
    /// The engine is one of this kind whose context has not started.
    pub(super) unsafe fn set_up(
        &self,
        engine: *mut Engine,
        rules: &[u8],
    ) -> Result<(), (&'static str, Code)> {
        let Searching {
            set_rules,
            set_pool_size,
            ..
        } = self.calls;
        // SAFETY: the caller vouches for the engine; it copies the rules.
        let codes = unsafe {
            [
                (
                    "doca_regex_set_hardware_uncompiled_rules",
                    set_rules(engine, rules.as_ptr().cast(), rules.len()),
                ),
                (
                    "doca_regex_set_workq_matches_memory_pool_size",
                    set_pool_size(engine, POOL_MATCHES),
                ),
            ]
        };
        match codes.into_iter().find(|(_, code)| *code != Code::SUCCESS) {
            Some(failed) => Err(failed),
            None => Ok(()),
        }
    }

    /// The report of job `number`, with nothing in it yet.
    ///
    /// # Safety
    /// The job is not in flight.
    pub(super) unsafe fn report(&self, number: u32) -> *mut Report {
        let report = self.reports[number as usize].get();
        // SAFETY: as the caller says, so that nobody else has it.
        unsafe { *report = NOTHING };
        report
    }

    /// Takes over what job `number` has reported, and says whether that is all there is.
    ///
    /// # Safety
    /// The job has ended, and has not been collected.
    pub(super) unsafe fn collect(&mut self, number: u32) -> Code {
        self.found.clear();
        // SAFETY: ended, so nobody else has the report; `report` has written it at least.
        let report = unsafe { *self.reports[number as usize].get() };
        let mut at = report.matches;
        for _ in 0..report.count {
            if at.is_null() {
                return Code::MATCHES_LOST;
            }
            // SAFETY: a list of so many, each out of that pool, which it goes back to once and is not looked at again.
            let found = unsafe {
                let found = *at;
                (self.calls.give_back)(report.pool, at.cast::<c_void>());
                found
            };
            self.found.push(Found {
                rule: found.rule,
                end: found.start.saturating_add(found.len),
            });
            at = found.next;
        }
        match report.status {
            0 if report.detected > report.count => Code::MATCHES_LOST,
            0 => Code::SUCCESS,
            STATUS_MAX_MATCH => Code::MATCHES_LOST,
            STATUS_INVALID_JOB => Code::INVALID_VALUE,
            _ => Code::GIVEN_UP,
        }
    }

    /// Writes what was collected last: of each rule the smallest end, in order of their ids. Says how many bytes that is.
    ///
    /// # Errors
    /// The room is too small for all matches.
    ///
    /// # Safety
    /// Nobody else has `room`.
    pub(super) unsafe fn write(&mut self, mut room: NonNull<[u8]>) -> Result<usize, Code> {
        self.found.sort_unstable();
        self.found.dedup_by_key(|found| found.rule);
        let len = self.found.len() * MATCH_BYTES;
        // SAFETY: the caller vouches for it.
        let room = unsafe { room.as_mut() };
        let room = room.get_mut(..len).ok_or(Code::NO_ROOM)?;
        for (found, place) in self.found.iter().zip(room.as_chunks_mut::<MATCH_BYTES>().0) {
            place[..4].copy_from_slice(&found.rule.to_le_bytes());
            place[4..].copy_from_slice(&found.end.to_le_bytes());
        }
        Ok(len)
    }
}
