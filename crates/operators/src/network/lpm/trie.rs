//! The table: what routes there are, by bytes of the address, and the blocks that lookups read.
//!
//! The first 16 bits of an address are looked up directly, each byte behind them in a block. A node holds the routes that
//! end within its byte and the nodes below it; its block is what these come to for each value of the byte, shorter routes
//! included. So a lookup stops at the first hop that it meets. A change rewrites the block of one node, by the values for which
//! the route shows alone, those above it only where a node comes or goes, and those below it only where a shorter route shows
//! through that they inherit. What the root's
//! slot and the node below it come to for 24 bits stands beside that in [`Direct`], which lookups ask first.

use super::block::{self, Entry};
use super::direct::{self, ASK, Direct, ROOT_BITS, SLOTS};
use super::hops::NONE;
use super::pages::{PAGE, Pages};
use super::pool::Pool;
use super::spans::Spans;
use super::values::Values;

mod spread;

/// Routes of a node from which on its block, if it is a plain table, is changed in place. With fewer, it may fit a smaller one.
const DENSE: usize = 32;

/// No node, no block, no route.
const ABSENT: u32 = u32::MAX;

/// A table from addresses to codes of hops; addresses stand in the high bits.
#[derive(Clone, Debug)]
pub(super) struct Trie {
    /// The targets of the values of the first 16 bits.
    root: Box<[Entry; SLOTS]>,
    direct: Direct,
    /// What the fourth byte comes to, where addresses end with it.
    pages: Option<Pages>,
    /// What the first six bytes come to, where addresses are longer.
    spans: Option<Spans>,
    pool: Pool,
    /// The routes of up to 16 bits: at `1 << len | bits` a code.
    root_routes: Vec<u32>,
    /// The nodes below the root.
    root_nodes: Vec<u32>,
    nodes: Vec<Node>,
    free_nodes: Vec<u32>,
    /// By code, the block all of whose values lead to that hop: what the root's slots without a node have.
    plain: Vec<Entry>,
}

#[derive(Clone, Debug, Default)]
struct Node {
    /// The routes that end here: `1 << len | bits` of this byte, and a code. Sorted, so the shorter ones come first.
    routes: Vec<(u16, u32)>,
    /// The nodes below, by value of this byte; sorted.
    children: Vec<(u8, u32)>,
    block: Option<Entry>,
    /// The code of the longest route that ends above this node.
    inherited: u32,
}

/// The place of a prefix: bits of it above a node, and a place inside.
struct Place {
    /// `1 << len | bits`, of what is left for the node.
    spot: usize,
    /// The bytes between the root's bits and the node's.
    bytes: usize,
}

impl Trie {
    /// Without routes; addresses have so many bytes.
    pub(super) fn new(bytes: usize) -> Self {
        let mut trie = Self {
            root: Box::new([0; SLOTS]),
            direct: Direct::new(),
            pages: (bytes == 4).then(Pages::new),
            spans: (bytes > 4).then(Spans::new),
            pool: Pool::new(),
            root_routes: vec![ABSENT; 2 * SLOTS],
            root_nodes: vec![ABSENT; SLOTS],
            nodes: Vec::new(),
            free_nodes: Vec::new(),
            plain: Vec::new(),
        };
        let none = trie.plain_block(NONE);
        trie.root.fill(none);
        trie
    }

    /// The tables by the first bits, the entries by the first 16, and the memory that those lead into.
    #[inline]
    pub(super) fn parts(&self) -> (&[u8; direct::BYTES], &[Entry; SLOTS], &[u8]) {
        (self.direct.tables(), &self.root, self.pool.bytes())
    }

    /// The pages of the fourth byte, if addresses end with it.
    #[inline]
    pub(super) fn pages(&self) -> Option<&Pages> {
        self.pages.as_ref()
    }

    /// The tables of the first six bytes, if addresses are longer.
    #[inline]
    pub(super) fn spans(&self) -> Option<&Spans> {
        self.spans.as_ref()
    }

    /// Does without them from now on.
    pub(super) fn drop_spans(&mut self) {
        self.spans = None;
    }

    /// Room for so many lines of them from now on.
    #[cfg(test)]
    pub(super) fn limit_spans(&mut self, most: usize) {
        self.spans.as_mut().expect("IPv6").limit(most);
    }

    /// Room for so many pages from now on.
    #[cfg(test)]
    pub(super) fn limit_pages(&mut self, most: usize) {
        self.pages.as_mut().expect("IPv4").limit(most);
    }

    /// Bytes that lookups may read.
    pub(super) fn lookup_bytes(&self) -> usize {
        let pages = self.pages.as_ref().map_or(0, Pages::lookup_bytes);
        let spans = self.spans.as_ref().map_or(0, Spans::lookup_bytes);
        direct::BYTES + pages + spans + self.root.len() * size_of::<Entry>() + self.pool.used()
    }

    /// Bytes taken for blocks yet.
    pub(super) fn block_bytes(&self) -> usize {
        self.pool.used()
    }

    /// Whether there is no room for all blocks: the table is of no use then.
    pub(super) fn is_full(&self) -> bool {
        self.pool.is_full()
    }

    /// The code of the longest route of `address`.
    #[inline]
    pub(super) fn lookup(&self, address: u128) -> u32 {
        self.lookups()(address)
    }

    /// [`Trie::lookup`] for many addresses. Lookups that tables decide are alone in the caller's loop, so that the CPU has many of them under
    /// way.
    #[inline(always)]
    pub(super) fn lookups(&self) -> impl Fn(u128) -> u32 {
        let direct = self.direct.tables();
        move |address| {
            let mut code = direct::code(direct, address);
            if code > ASK
                && let Some(pages) = &self.pages
            {
                code = pages.code(slot(address), !code, byte(address, 1));
            }
            match code < ASK {
                true => u32::from(code),
                false => self.lookup_below(address),
            }
        }
    }

    /// [`Trie::lookup`] of an address that tables do not decide.
    #[inline(never)]
    fn lookup_below(&self, address: u128) -> u32 {
        let mut entry = self.root[(address >> 112) as usize];
        let mut rest = address << ROOT_BITS;
        loop {
            match block::find(self.pool.bytes(), entry, (rest >> 120) as u8) {
                Ok(code) => return code,
                Err(child) => entry = child,
            }
            rest <<= 8;
        }
    }

    /// The code of the route of exactly this prefix.
    pub(super) fn exact(&self, address: u128, len: u8) -> Option<u32> {
        let Some(place) = Place::below_root(address, len) else {
            let code = self.root_routes[root_spot(address, len)];
            return (code != ABSENT).then_some(code);
        };
        let mut node = self.root_nodes[slot(address)];
        for depth in 0..place.bytes {
            if node == ABSENT {
                return None;
            }
            node = self.child(node, byte(address, depth));
        }
        let node = self.nodes.get(node as usize)?;
        let at = node.find_route(place.spot).ok()?;
        Some(node.routes[at].1)
    }

    /// Sends a prefix, given by its address and length, to a code; gives the code it had. With `later`, blocks are as they
    /// were until [`Trie::compile`].
    pub(super) fn insert(&mut self, address: u128, len: u8, code: u32, later: bool) -> Option<u32> {
        let Some(place) = Place::below_root(address, len) else {
            let spot = &mut self.root_routes[root_spot(address, len)];
            let before = std::mem::replace(spot, code);
            if !later {
                self.compile_slots(address, len);
            }
            return (before != ABSENT).then_some(before);
        };
        let path = self.make_path(address, place.bytes, later);
        let node = &mut self.nodes[path[place.bytes] as usize];
        let before = match node.find_route(place.spot) {
            Ok(at) => Some(std::mem::replace(&mut node.routes[at].1, code)),
            Err(at) => {
                node.routes.insert(at, (place.spot as u16, code));
                None
            }
        };
        if !later && before != Some(code) {
            self.show(address, &path, place.spot, code);
        }
        before
    }

    /// Takes a prefix out; gives the code it had.
    pub(super) fn remove(&mut self, address: u128, len: u8) -> Option<u32> {
        let before = self.exact(address, len)?;
        let Some(place) = Place::below_root(address, len) else {
            self.root_routes[root_spot(address, len)] = ABSENT;
            self.compile_slots(address, len);
            return Some(before);
        };
        let mut path = self.make_path(address, place.bytes, false);
        let node = &mut self.nodes[path[place.bytes] as usize];
        let at = node.find_route(place.spot).expect("looked up above");
        node.routes.remove(at);
        let is_in_use = !node.routes.is_empty() || !node.children.is_empty();
        if is_in_use {
            let code = node.above(place.spot);
            self.show(address, &path, place.spot, code);
            return Some(before);
        }
        while let Some(&last) = path.last() {
            let node = &self.nodes[last as usize];
            if !node.routes.is_empty() || !node.children.is_empty() {
                break;
            }
            path.pop();
            self.unhook(address, path.last().copied(), path.len());
            self.free_node(last);
        }
        self.compile_path(address, &path);
        // What is gone stood below one value of the last node.
        let values = path.len().checked_sub(1).map_or(Values::ALL, |depth| {
            Values::block(usize::from(byte(address, depth)), 1)
        });
        self.span_path(address, &path, values);
        Some(before)
    }

    /// Every route, shorter ones first within a byte: address, length, code.
    pub(super) fn routes(&self, mut each: impl FnMut(u128, u8, u32)) {
        for (spot, code) in self.root_routes.iter().enumerate().skip(1) {
            if *code != ABSENT {
                let len = spot.ilog2() as u8;
                let bits = (spot - (1 << len)) as u128;
                each(bits << 112 << (ROOT_BITS - len), len, *code);
            }
        }
        for (slot, node) in self.root_nodes.iter().enumerate() {
            if *node != ABSENT {
                self.node_routes(*node, (slot as u128) << 112, ROOT_BITS, &mut each);
            }
        }
    }

    /// All blocks anew.
    pub(super) fn compile(&mut self) {
        self.compile_slots(0, 0);
    }

    fn node_routes(&self, node: u32, above: u128, depth: u8, each: &mut impl FnMut(u128, u8, u32)) {
        let node = &self.nodes[node as usize];
        // A node's byte ends `depth + 8` bits into the address.
        let place = |byte: usize| above | (byte as u128) << (120 - depth);
        for (spot, code) in &node.routes {
            let (len, values) = spread(*spot);
            each(place(values.start), depth + len, *code);
        }
        for (byte, child) in &node.children {
            self.node_routes(*child, place(usize::from(*byte)), depth + 8, each);
        }
    }

    /// The nodes from the root's down, `bytes` of them below the first; makes those that are missing. With `later`, pages are as they were
    /// until [`Trie::compile`].
    fn make_path(&mut self, address: u128, bytes: usize, later: bool) -> Vec<u32> {
        let mut path = Vec::with_capacity(bytes + 1);
        let mut node = self.root_nodes[slot(address)];
        if node == ABSENT {
            node = self.new_node();
            self.root_nodes[slot(address)] = node;
        }
        path.push(node);
        for depth in 0..bytes {
            let byte = byte(address, depth);
            let mut child = self.child(node, byte);
            if child == ABSENT {
                child = self.new_node();
                let children = &mut self.nodes[node as usize].children;
                let at = children.partition_point(|(other, _)| *other < byte);
                children.insert(at, (byte, child));
                self.drop_block(node, 1);
                if let (Some(pages), 0, false) = (&mut self.pages, depth, later) {
                    pages.insert(slot(address), at);
                }
            }
            node = child;
            path.push(node);
        }
        path
    }

    /// Takes the child of `parent` on the way to `address` out, or the root's node if there is no parent.
    fn unhook(&mut self, address: u128, parent: Option<u32>, depth: usize) {
        let Some(parent) = parent else {
            self.root_nodes[slot(address)] = ABSENT;
            return;
        };
        let byte = byte(address, depth - 1);
        let children = &mut self.nodes[parent as usize].children;
        let number = children.partition_point(|(other, _)| *other < byte);
        children.remove(number);
        let left = children.len();
        self.drop_block_of(parent, left + 1);
        if let (Some(pages), 1) = (&mut self.pages, depth) {
            pages.remove(slot(address), number, left);
        }
    }

    fn new_node(&mut self) -> u32 {
        match self.free_nodes.pop() {
            Some(node) => node,
            None => {
                self.nodes.push(Node::default());
                self.nodes.len() as u32 - 1
            }
        }
    }

    fn free_node(&mut self, node: u32) {
        self.drop_block(node, 0);
        self.nodes[node as usize] = Node::default();
        self.free_nodes.push(node);
    }

    fn child(&self, node: u32, byte: u8) -> u32 {
        let children = &self.nodes[node as usize].children;
        match children.binary_search_by_key(&byte, |(byte, _)| *byte) {
            Ok(at) => children[at].1,
            Err(_) => ABSENT,
        }
    }

    /// Gives the block of a node back, which was written when it had `more` children less than now.
    fn drop_block(&mut self, node: u32, more: usize) {
        let children = self.nodes[node as usize].children.len() - more;
        self.drop_block_of(node, children);
    }

    fn drop_block_of(&mut self, node: u32, children: usize) {
        if let Some(entry) = self.nodes[node as usize].block.take() {
            block::release(&mut self.pool, entry, children);
        }
    }

    /// The slots of the root that a short prefix covers.
    fn compile_slots(&mut self, address: u128, len: u8) {
        let first = slot(address);
        for slot in first..first + (SLOTS >> len) {
            let code = self.root_code(slot);
            self.root[slot] = match self.root_nodes[slot] {
                ABSENT => self.plain_block(code),
                node => self.compile_node(node, code),
            };
            self.set_direct(slot);
            self.set_pages(slot);
            self.span_slot(slot);
        }
    }

    /// Writes all pages of a slot of the root, whose nodes are final.
    fn set_pages(&mut self, slot: usize) {
        let node = self.root_nodes[slot];
        let Some(pages) = &mut self.pages else {
            return;
        };
        let children = match node {
            ABSENT => 0,
            node => self.nodes[node as usize].children.len(),
        };
        pages.reset(slot, children);
        for number in 0..children {
            let (_, child) = self.nodes[node as usize].children[number];
            self.set_page(slot, number, child);
        }
    }

    /// Writes the page of a child of a slot's node.
    fn set_page(&mut self, slot: usize, number: usize, child: u32) {
        let leaves: [u32; PAGE] = self.painted(child);
        if let Some(pages) = &mut self.pages {
            pages.write(slot, number, &leaves);
        }
    }

    /// Sets what the first 24 bits decide in a slot of the root, whose blocks are final.
    fn set_direct(&mut self, slot: usize) {
        let node = self.root_nodes[slot];
        if node == ABSENT {
            let code = self.root_code(slot);
            self.direct.fill(slot, code);
            return;
        }
        let mut leaves = self.painted(node);
        for (number, (byte, _)) in self.nodes[node as usize].children.iter().enumerate() {
            leaves[usize::from(*byte)] = block::child(number);
        }
        self.direct.set(slot, &leaves);
    }

    /// The nodes of a path, whose last one changed, and its slot of the root.
    fn compile_path(&mut self, address: u128, path: &[u32]) {
        let slot = slot(address);
        let mut code = self.root_code(slot);
        let Some((first, _)) = path.split_first() else {
            self.root[slot] = self.plain_block(code);
            self.set_direct(slot);
            return;
        };
        // What the last node inherits, by the routes above it. A node made for this path was told nothing yet.
        let last = path.len() - 1;
        for (depth, node) in path[..last].iter().enumerate() {
            self.nodes[*node as usize].inherited = code;
            code = self.painted(*node)[usize::from(byte(address, depth))];
        }
        let mut entry = self.write_node(path[last], code);
        for depth in (0..last).rev() {
            let node = path[depth];
            entry = match self.nodes[node as usize].block {
                Some(block) => {
                    let byte = byte(address, depth);
                    let children = &self.nodes[node as usize].children;
                    let number = children.partition_point(|(other, _)| *other < byte);
                    block::set_child(&mut self.pool, block, number, entry);
                    block
                }
                None => self.write_node(node, self.nodes[node as usize].inherited),
            };
        }
        debug_assert_eq!(self.root_nodes[slot], *first);
        self.root[slot] = entry;
        self.set_direct(slot);
        match path.get(1) {
            Some(child) => {
                let byte = byte(address, 0);
                let children = &self.nodes[*first as usize].children;
                let number = children.partition_point(|(other, _)| *other < byte);
                self.set_page(slot, number, *child);
            }
            // The node itself changed, and what its children inherit.
            None => self.set_pages(slot),
        }
    }

    /// The last node of a path where its route at `spot` came or went, and `code` is for what it covers and no longer route does.
    fn show(&mut self, address: u128, path: &[u32], spot: usize, code: u32) {
        let depth = path.len() - 1;
        let node = path[depth];
        let Some(block) = self.nodes[node as usize].block else {
            // New, or the parent of a new one.
            self.compile_path(address, path);
            return self.span_path(address, path, Values::ALL);
        };
        let shown = self.nodes[node as usize].shown(spot);
        let mut values = shown;
        let count = self.nodes[node as usize].children.len();
        for number in 0..count {
            let (byte, child) = self.nodes[node as usize].children[number];
            if values.has(byte) {
                values = values.without(Values::block(usize::from(byte), 1));
                let entry = self.compile_node(child, code);
                block::set_child(&mut self.pool, block, number, entry);
                if depth == 0 {
                    self.set_page(slot(address), number, child);
                }
            }
        }
        let is_dense = self.nodes[node as usize].routes.len() >= DENSE;
        let entry = block::repaint(&mut self.pool, block, count, values, code, is_dense);
        self.nodes[node as usize].block = Some(entry);
        let Some(above) = depth.checked_sub(1) else {
            let slot = slot(address);
            self.root[slot] = entry;
            self.direct.repaint(slot, values, code);
            return self.span_path(address, path, shown);
        };
        let parent = &self.nodes[path[above] as usize];
        let byte = byte(address, above);
        let number = parent.children.partition_point(|(other, _)| *other < byte);
        if let (Some(pages), 0) = (&mut self.pages, above) {
            pages.repaint(slot(address), number, values, code);
        }
        if entry != block {
            let block = parent.block.expect("its child is not new");
            block::set_child(&mut self.pool, block, number, entry);
        }
        self.span_path(address, path, shown);
    }

    /// The block of a node below which `inherited` shows through: as it is if that is what it was written with.
    fn compile_node(&mut self, node: u32, inherited: u32) -> Entry {
        match self.nodes[node as usize].block {
            Some(entry) if self.nodes[node as usize].inherited == inherited => entry,
            _ => self.write_node(node, inherited),
        }
    }

    /// Writes the block of a node, and those below it that inherit something new.
    fn write_node(&mut self, node: u32, inherited: u32) -> Entry {
        self.drop_block(node, 0);
        self.nodes[node as usize].inherited = inherited;
        let codes = self.painted(node);
        let mut leaves = codes;
        let mut entries = [0; 256];
        let count = self.nodes[node as usize].children.len();
        for (number, entry) in entries[..count].iter_mut().enumerate() {
            let (byte, child) = self.nodes[node as usize].children[number];
            let at = usize::from(byte);
            *entry = self.compile_node(child, codes[at]);
            leaves[at] = block::child(number);
        }
        let entry = block::write(&mut self.pool, &leaves, &entries[..count]);
        self.nodes[node as usize].block = Some(entry);
        entry
    }

    /// The code of the longest route for each value of a node's byte, of the node's routes and those above.
    fn painted(&self, node: u32) -> [u32; 256] {
        let node = &self.nodes[node as usize];
        let mut codes = [node.inherited; 256];
        for (spot, code) in &node.routes {
            let (_, values) = spread(*spot);
            codes[values].fill(*code);
        }
        codes
    }

    /// The code of the longest of the short routes that cover a slot of the root.
    fn root_code(&self, slot: usize) -> u32 {
        let spots = (0..=ROOT_BITS).map(|shorter| (SLOTS + slot) >> shorter);
        let mut codes = spots.map(|spot| self.root_routes[spot]);
        codes.find(|code| *code != ABSENT).unwrap_or(NONE)
    }

    fn plain_block(&mut self, code: u32) -> Entry {
        let at = code as usize;
        if self.plain.len() <= at {
            self.plain.resize(at + 1, ABSENT);
        }
        if self.plain[at] == ABSENT {
            self.plain[at] = block::write(&mut self.pool, &[code; 256], &[]);
        }
        self.plain[at]
    }
}

impl Node {
    /// The values that the route at `spot` covers and no longer route of this node does.
    fn shown(&self, spot: usize) -> Values {
        let (len, values) = spread(spot as u16);
        let mut shown = Values::block(values.start, values.len());
        for longer in len + 1..=8 {
            let first = spot << (longer - len);
            let end = first + (1 << (longer - len));
            let from = self
                .routes
                .partition_point(|route| usize::from(route.0) < first);
            let inside = self.routes[from..].iter();
            for (spot, _) in inside.take_while(|route| usize::from(route.0) < end) {
                let (_, values) = spread(*spot);
                shown = shown.without(Values::block(values.start, values.len()));
            }
        }
        shown
    }

    /// The code of the longest route above the one at `spot`.
    fn above(&self, spot: usize) -> u32 {
        let shorter = std::iter::successors(Some(spot >> 1), |spot| Some(spot >> 1));
        let mut inside = shorter.take_while(|spot| *spot > 1);
        let route = inside.find_map(|spot| self.find_route(spot).ok());
        route.map_or(self.inherited, |at| self.routes[at].1)
    }

    fn find_route(&self, spot: usize) -> Result<usize, usize> {
        let spot_of = |route: &(u16, u32)| usize::from(route.0);
        self.routes.binary_search_by_key(&spot, spot_of)
    }
}

impl Place {
    /// `None` if the root itself has a place for it.
    fn below_root(address: u128, len: u8) -> Option<Self> {
        let below = len.checked_sub(ROOT_BITS + 1)?;
        let (bytes, within) = (usize::from(below / 8), below % 8 + 1);
        let bits = usize::from(byte(address, bytes) >> (8 - within));
        Some(Self {
            spot: 1 << within | bits,
            bytes,
        })
    }
}

/// The length of the part of a prefix within a byte, and the values that it covers.
fn spread(spot: u16) -> (u8, std::ops::Range<usize>) {
    let len = spot.ilog2() as u8;
    let first = (usize::from(spot) - (1 << len)) << (8 - len);
    (len, first..first + (256 >> len))
}

fn slot(address: u128) -> usize {
    (address >> 112) as usize
}

fn root_spot(address: u128, len: u8) -> usize {
    1 << len | slot(address) >> (ROOT_BITS - len)
}

/// The byte that lies `depth` bytes behind the root's bits.
fn byte(address: u128, depth: usize) -> u8 {
    (address << ROOT_BITS << (8 * depth) >> 120) as u8
}
