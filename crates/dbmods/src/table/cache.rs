//! Verified chunks in memory, bounded, shared by threads.
//!
//! The cache holds at most its bound, or what is in use if that is more: a chunk that scans use stays, whatever comes. When
//! it is full only one in [`ADMIT_ONE_IN`] newcomers replaces a chunk that was not used since the hand of the clock
//! last passed, and the others go as soon as nobody uses them: scans of a table larger than the cache then still find most of
//! what fits, where plain LRU would find nothing.
//!
//! A scan asks for [`Room`] for what it will use at once, and reserves elsewhere what it does not get. So all chunks together
//! take no more than the bound and what scans have reserved.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::table::chunk::Chunk;

/// The number of chunks that arrive at a full cache for each one that stays.
pub(crate) const ADMIT_ONE_IN: u64 = 8;

/// A file, as it was when it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    /// Device and inode name the file while it exists.
    pub device: u64,
    /// The file's inode, see `device`.
    pub inode: u64,
    /// Time of the last change, in nanoseconds since 1970.
    pub changed_ns: i128,
    /// Checksum of its footer.
    pub crc32c: u32,
}

/// A chunk's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The file.
    pub file: FileId,
    /// The row group.
    pub group: u32,
    /// The column.
    pub column: u32,
}

/// The counts of a cache since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Chunks found.
    pub hits: u64,
    /// Chunks read.
    pub misses: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes held now.
    pub bytes_held: u64,
}

/// Verified chunks.
#[derive(Debug)]
pub struct Cache {
    bytes_max: u64,
    state: Mutex<State>,
    loaded: Condvar,
}

#[derive(Debug, Default)]
struct State {
    held: HashMap<Key, Held>,
    loading: HashSet<Key>,
    /// Keys of `held` that stay; the front is under the clock's hand.
    clock: VecDeque<Key>,
    /// The other keys of `held`, which go first.
    passing: VecDeque<Key>,
    /// Bytes of all [`Room`]s.
    room_bytes: u64,
    stats: CacheStats,
}

/// A share of a cache's bound, for chunks in use; given back when dropped.
#[derive(Debug)]
pub struct Room<'a> {
    cache: &'a Cache,
    bytes: u64,
}

#[derive(Debug)]
struct Held {
    chunk: Arc<Chunk>,
    used: bool,
}

impl Cache {
    /// A cache that holds at most so many bytes of chunks, those in use aside; 0 keeps none.
    pub fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max,
            state: Mutex::default(),
            loaded: Condvar::new(),
        }
    }

    /// The bound.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// The counts so far.
    pub fn stats(&self) -> CacheStats {
        self.lock().stats
    }

    /// Forgets all chunks; those in use live on with their users.
    pub fn clear(&self) {
        let mut state = self.lock();
        state.held.clear();
        state.clock.clear();
        state.passing.clear();
        state.stats.bytes_held = 0;
    }

    /// Room for chunks in use: so many bytes, or half of what others have left.
    pub fn room(&self, bytes: u64) -> Room<'_> {
        let mut state = self.lock();
        let bytes = bytes.min((self.bytes_max - state.room_bytes) / 2);
        state.room_bytes += bytes;
        Room { cache: self, bytes }
    }

    /// The chunk called `key`: held, or from `read`, which one thread at a time calls for a key while others wait.
    ///
    /// # Errors
    /// Those of `read`; the next to ask tries again.
    pub fn load<E>(
        &self,
        key: Key,
        read: impl FnOnce() -> Result<Chunk, E>,
    ) -> Result<Arc<Chunk>, E> {
        let mut state = self.lock();
        loop {
            if let Some(held) = state.held.get_mut(&key) {
                held.used = true;
                let chunk = held.chunk.clone();
                state.stats.hits += 1;
                return Ok(chunk);
            }
            if state.loading.insert(key) {
                break;
            }
            state = self
                .loaded
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        let loading = Loading { cache: self, key };
        let chunk = Arc::new(read()?);
        let mut state = self.lock();
        state.stats.misses += 1;
        state.stats.bytes_read += chunk.bytes().len() as u64;
        let evicted = state.hold(key, &chunk, self.bytes_max);
        drop(state);
        drop(loading);
        // Memory goes back to the system without the lock.
        drop(evicted);
        Ok(chunk)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Room<'_> {
    /// The number of bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        let mut state = self.cache.lock();
        state.room_bytes -= self.bytes;
        let evicted = state.trim(self.cache.bytes_max);
        drop(state);
        drop(evicted);
    }
}

impl State {
    /// Takes a newcomer in; gives what has to go for it.
    fn hold(&mut self, key: Key, chunk: &Arc<Chunk>, bytes_max: u64) -> Vec<Arc<Chunk>> {
        self.stats.bytes_held += chunk.bytes().len() as u64;
        let fits = self.stats.bytes_held <= bytes_max;
        if fits || self.stats.misses.is_multiple_of(ADMIT_ONE_IN) {
            self.clock.push_back(key);
        } else {
            self.passing.push_back(key);
        }
        let held = Held {
            chunk: chunk.clone(),
            used: false,
        };
        self.held.insert(key, held);
        self.trim(bytes_max)
    }

    /// Evicts what can go until the bound holds; gives it.
    fn trim(&mut self, bytes_max: u64) -> Vec<Arc<Chunk>> {
        let mut evicted = Vec::new();
        for queue in [&mut self.passing, &mut self.clock] {
            // Twice around: once to take the marks of use away, once to find one without.
            for _ in 0..2 * queue.len() {
                if self.stats.bytes_held <= bytes_max {
                    return evicted;
                }
                let Some(key) = queue.pop_front() else { break };
                let held = self
                    .held
                    .get_mut(&key)
                    .expect("the queues have the keys that are held");
                if held.used || Arc::strong_count(&held.chunk) > 1 {
                    held.used = false;
                    queue.push_back(key);
                } else if let Some(held) = self.held.remove(&key) {
                    self.stats.bytes_held -= held.chunk.bytes().len() as u64;
                    evicted.push(held.chunk);
                }
            }
        }
        evicted
    }
}

/// Takes the mark of loading away, also when `read` fails or panics.
struct Loading<'a> {
    cache: &'a Cache,
    key: Key,
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        self.cache.lock().loading.remove(&self.key);
        self.cache.loaded.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use dpb_core::Buf;

    use super::*;
    use crate::table::encode::{Values, encode};

    fn key(group: u32) -> Key {
        let file = FileId {
            device: 1,
            inode: 2,
            changed_ns: 3,
            crc32c: 4,
        };
        Key {
            file,
            group,
            column: 0,
        }
    }

    /// All of the same length.
    fn chunk(group: u32) -> Chunk {
        let encoded = encode(0, group, &Values::Numbers((0..1024).collect()));
        let mut bytes = Buf::zeroed(encoded.bytes.len()).unwrap();
        bytes.copy_from_slice(&encoded.bytes);
        Chunk::parse(bytes).unwrap()
    }

    fn load(cache: &Cache, group: u32) -> Arc<Chunk> {
        let Ok(found) = cache.load(key(group), || Ok::<_, Infallible>(chunk(group)));
        assert_eq!(found.group(), group as usize);
        found
    }

    #[test]
    fn the_bound_holds_and_chunks_in_use_stay() {
        let len = chunk(0).bytes().len() as u64;
        let cache = Cache::new(4 * len + len / 2);
        let pinned = load(&cache, 0);
        for round in 0..40 {
            for group in 1..12 {
                load(&cache, group);
                assert!(
                    cache.stats().bytes_held <= cache.bytes_max(),
                    "round {round}"
                );
            }
        }
        let before = cache.stats();
        assert!(
            Arc::ptr_eq(&pinned, &load(&cache, 0)),
            "a chunk in use is not evicted"
        );
        assert_eq!(cache.stats().hits, before.hits + 1);
        assert!(
            before.hits > 0,
            "a scan larger than the cache finds some of it"
        );
        assert_eq!(before.bytes_read, before.misses * len);
    }

    #[test]
    fn new_chunks_replace_those_that_nobody_asks_for() {
        let len = chunk(0).bytes().len() as u64;
        let cache = Cache::new(4 * len);
        (0..4).for_each(|group| drop(load(&cache, group)));
        for _ in 0..64 {
            (10..14).for_each(|group| drop(load(&cache, group)));
        }
        let before = cache.stats().hits;
        (10..14).for_each(|group| drop(load(&cache, group)));
        assert_eq!(cache.stats().hits, before + 4);
    }

    #[test]
    fn a_cache_of_nothing_still_gives_chunks() {
        let cache = Cache::new(0);
        for misses in 1..4 {
            drop(load(&cache, 1));
            drop(cache.room(1));
            let stats = cache.stats();
            assert_eq!((stats.hits, stats.misses, stats.bytes_held), (0, misses, 0));
        }
    }

    #[test]
    fn chunks_in_use_are_held_beyond_the_bound_and_no_longer() {
        let len = chunk(0).bytes().len() as u64;
        let cache = Cache::new(4 * len);
        let mut used: Vec<Arc<Chunk>> = (0..20).map(|group| load(&cache, group)).collect();
        assert_eq!(cache.stats().bytes_held, 20 * len);
        // Others share them.
        let again: Vec<Arc<Chunk>> = (0..20).map(|group| load(&cache, group)).collect();
        assert!(used.iter().zip(&again).all(|(a, b)| Arc::ptr_eq(a, b)));
        drop(again);
        let room = cache.room(len);
        used.truncate(6);
        drop(load(&cache, 30));
        assert_eq!(
            cache.stats().bytes_held,
            7 * len,
            "six in use, one just read"
        );
        used.clear();
        drop(room);
        assert!(cache.stats().bytes_held <= 4 * len);
    }

    #[test]
    fn rooms_together_are_no_more_than_the_bound() {
        let cache = Cache::new(1000);
        let first = cache.room(400);
        assert_eq!(first.bytes(), 400);
        let rest: Vec<Room<'_>> = (0..20).map(|_| cache.room(400)).collect();
        assert_eq!((rest[0].bytes(), rest[1].bytes()), (300, 150));
        assert!(rest.iter().map(Room::bytes).sum::<u64>() <= 600);
        drop((first, rest));
        assert_eq!(cache.room(500).bytes(), 500);
    }

    #[test]
    fn many_threads_read_a_chunk_once() {
        let cache = Cache::new(1 << 20);
        let (reads, barrier) = (AtomicUsize::new(0), Barrier::new(8));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    barrier.wait();
                    for group in 0..20 {
                        let read = || {
                            reads.fetch_add(1, Ordering::Relaxed);
                            Ok::<_, Infallible>(chunk(group))
                        };
                        let Ok(found) = cache.load(key(group), read);
                        assert_eq!(found.group(), group as usize);
                    }
                });
            }
        });
        assert_eq!(reads.into_inner(), 20);
    }

    #[test]
    fn a_failed_read_is_tried_again() {
        let cache = Cache::new(1 << 20);
        assert_eq!(cache.load(key(1), || Err("no")).unwrap_err(), "no");
        load(&cache, 1);
    }
}
