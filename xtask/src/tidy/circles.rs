//! Files that need each other in a loop.
//!
//! An arrow goes from a file to each file of its crate whose names it uses, wherever they were re-exported on the way. What a file takes
//! from the modules that it lies in makes no arrow: Rust lets a child see all of its parents, so that a module and what lies in
//! its folder are one thing to a reader. Everything else that runs in a loop is wrong: none of its files can be read, tested or
//! moved without all the others.

use std::collections::{BTreeMap, BTreeSet};

use super::source;

/// A module's place in its crate: `["scan", "kernels"]`.
type Place = Vec<String>;

/// The modules of one crate.
#[derive(Default)]
struct Tree {
    modules: BTreeMap<Place, Module>,
}

struct Module {
    path: String,
    /// Names that `use` brings in, with what they stand for.
    imports: Vec<(String, Vec<String>)>,
    /// Paths that its code goes by besides.
    paths: Vec<Vec<String>>,
    /// Names that it defines itself.
    defined: BTreeSet<String>,
}

/// The circles among `files`, each a path from the root and what is in it.
pub(super) fn find<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let files: Vec<(&str, &str)> = files.into_iter().collect();
    let mut roots: Vec<&str> = files.iter().filter_map(|(path, _)| root(path)).collect();
    // The longest first: a program may lie in the folder of a library.
    roots.sort_by_key(|root| std::cmp::Reverse(root.len()));
    let mut trees: BTreeMap<&str, Tree> = BTreeMap::new();
    for (path, text) in &files {
        let root = roots.iter().find(|root| path.starts_with(**root));
        if let Some(root) = root {
            let tree = trees.entry(root).or_default();
            tree.modules
                .insert(place(&path[root.len()..]), Module::read(path, text));
        }
    }
    trees.values().flat_map(Tree::circles).collect()
}

/// The folder whose crate `path` is the root of.
fn root(path: &str) -> Option<&str> {
    ["lib.rs", "main.rs"]
        .iter()
        .find_map(|name| path.strip_suffix(name))
        .filter(|folder| folder.ends_with('/'))
}

/// Where the file lies in its crate: `scan/kernels.rs` is `scan::kernels`.
fn place(path: &str) -> Place {
    match path.trim_end_matches(".rs") {
        "lib" | "main" => Vec::new(),
        path => path.split('/').map(str::to_owned).collect(),
    }
}

impl Module {
    fn read(path: &str, text: &str) -> Self {
        let code = source::code_before_tests(text);
        let mut imports = Vec::new();
        let mut rest = String::with_capacity(code.len());
        let mut at = 0;
        while let Some(start) = source::find_word(&code[at..], "use").map(|start| at + start) {
            let end = code[start..]
                .find(';')
                .map_or(code.len(), |end| start + end);
            rest.push_str(&code[at..start]);
            let tree: String = code[start + "use".len()..end]
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ");
            read_tree(&[], &tree, &mut imports);
            at = end;
        }
        rest.push_str(&code[at..]);
        Self {
            path: path.to_owned(),
            imports,
            paths: paths(&rest),
            defined: defined(&rest),
        }
    }
}

/// The names behind a keyword that defines something.
fn defined(code: &str) -> BTreeSet<String> {
    const KEYWORDS: [&str; 9] = [
        "fn",
        "struct",
        "enum",
        "trait",
        "type",
        "const",
        "static",
        "union",
        "macro_rules",
    ];
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let words: Vec<&str> = code
        .split(|c: char| !is_name(c))
        .filter(|word| !word.is_empty())
        .collect();
    let pairs = words.windows(2).filter(|pair| KEYWORDS.contains(&pair[0]));
    pairs.map(|pair| pair[1].to_owned()).collect()
}

/// What `tree` imports, behind `prefix`: `a::{b, c as d}` is `a::b` as `b`, `a::c` as `d`.
fn read_tree(prefix: &[String], tree: &str, imports: &mut Vec<(String, Vec<String>)>) {
    let tree = tree.trim();
    let (head, list) = match tree.split_once('{') {
        Some((head, list)) => (head, Some(list.trim_end().trim_end_matches('}'))),
        None => (tree, None),
    };
    let (head, alias) = match head.split_once(" as ") {
        Some((head, alias)) => (head, Some(alias.trim())),
        None => (head, None),
    };
    let names = head
        .split("::")
        .map(str::trim)
        .filter(|name| !name.is_empty());
    // What begins with `::` is another crate's.
    if head.trim_start().starts_with("::") {
        return;
    }
    let path: Vec<String> = prefix
        .iter()
        .cloned()
        .chain(names.map(str::to_owned))
        .collect();
    if let Some(list) = list {
        for part in split(list) {
            read_tree(&path, part, imports);
        }
        return;
    }
    let path = match path.split_last() {
        Some((last, before)) if last == "self" && !before.is_empty() => before.to_vec(),
        _ => path,
    };
    if let Some(last) = path.last() {
        let name = alias.unwrap_or(last).to_owned();
        imports.push((name, path));
    }
}

/// The parts of a list between commas that stand in no inner list.
fn split(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// The paths of two names or more that stand in `code`, those of other crates aside.
fn paths(code: &str) -> Vec<Vec<String>> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let words = code.split(|c: char| !is_name(c) && c != ':');
    let words = words.filter(|word| word.contains("::") && !word.starts_with("::"));
    words
        .map(|word| {
            let names = word.split("::").filter(|name| !name.is_empty());
            names.map(str::to_owned).collect()
        })
        .filter(|path: &Vec<String>| path.len() > 1)
        .collect()
}

impl Tree {
    /// Each loop among the tree's files, in words.
    fn circles(&self) -> Vec<String> {
        let arrows = self.arrows();
        let reach: BTreeMap<&Place, BTreeSet<&Place>> = arrows
            .keys()
            .map(|from| (from, reached(from, &arrows)))
            .collect();
        let mut seen: BTreeSet<&Place> = BTreeSet::new();
        let mut circles = Vec::new();
        for (&from, there) in &reach {
            if !there.contains(from) || seen.contains(from) {
                continue;
            }
            let is_in =
                |other: &&&Place| reach.get(**other).is_some_and(|back| back.contains(from));
            let circle: BTreeSet<&Place> = there.iter().filter(is_in).copied().collect();
            circles.push(self.describe(&circle, &arrows));
            seen.extend(circle);
        }
        circles
    }

    fn describe(&self, circle: &BTreeSet<&Place>, arrows: &Arrows) -> String {
        let mut lines = vec![format!("{} files need each other in a loop:", circle.len())];
        for from in circle {
            for (to, names) in &arrows[*from] {
                if circle.contains(to) {
                    let names: Vec<&str> = names.iter().map(String::as_str).collect();
                    let (from, to) = (&self.modules[*from].path, &self.modules[to].path);
                    lines.push(format!("    {from} -> {to}: {}", names.join(", ")));
                }
            }
        }
        lines.join("\n")
    }

    fn arrows(&self) -> Arrows {
        let mut arrows = Arrows::new();
        for (here, module) in &self.modules {
            let imported = module.imports.iter().map(|(_, path)| path.clone());
            let named = module.paths.iter().map(|path| module.spelled_out(path));
            let to = arrows.entry(here.clone()).or_default();
            for path in imported.chain(named) {
                let Some(path) = self.absolute(here, &path) else {
                    continue;
                };
                for (place, name) in self.defined_at(&path, 0) {
                    if !here.starts_with(&place) {
                        to.entry(place).or_default().insert(name);
                    }
                }
            }
        }
        arrows
    }

    /// `path`, as the module at `here` has it, from the crate's root; `None` if it leads out of the crate.
    fn absolute(&self, here: &Place, path: &[String]) -> Option<Place> {
        let mut at = here.clone();
        let mut names = path.iter().peekable();
        match names.peek()?.as_str() {
            "crate" => {
                names.next();
                at.clear();
            }
            "self" => drop(names.next()),
            "super" => {
                while names.next_if(|name| *name == "super").is_some() {
                    at.pop()?;
                }
            }
            child => {
                let mut place = here.clone();
                place.push(child.to_owned());
                self.modules.get(&place)?;
            }
        }
        at.extend(names.cloned());
        Some(at)
    }

    /// The modules that define what `path` names, and the name; re-exports are followed. A function and a macro can share a name,
    /// so there may be several.
    fn defined_at(&self, path: &[String], followed: usize) -> Vec<(Place, String)> {
        const FOLLOWED_MAX: usize = 8;
        let mut at = Place::new();
        for (i, name) in path.iter().enumerate() {
            at.push(name.clone());
            if self.modules.contains_key(&at) {
                continue;
            }
            at.pop();
            let Some(module) = self.modules.get(&at) else {
                break;
            };
            let follow = |import: &[String]| {
                let mut target = self.absolute(&at, import)?;
                target.extend_from_slice(&path[i + 1..]);
                (followed < FOLLOWED_MAX).then(|| self.defined_at(&target, followed + 1))
            };
            let named = module.imports.iter().filter(|(known, _)| known == name);
            let mut found: Vec<_> = named
                .filter_map(|(_, import)| follow(import))
                .flatten()
                .collect();
            if found.is_empty() && !module.defined.contains(name) {
                let everything = module.imports.iter().filter(|(known, _)| known == "*");
                let behind = everything.filter_map(|(_, import)| {
                    let (_, folder) = import.split_last()?;
                    follow(&[folder, std::slice::from_ref(name)].concat())
                });
                let is_there = |(place, name): &(Place, String)| {
                    let module = self.modules.get(place);
                    module.is_some_and(|module| module.defined.contains(name))
                };
                found.extend(behind.flatten().filter(is_there));
            }
            if found.is_empty() || module.defined.contains(name) {
                found.push((at, name.clone()));
            }
            return found;
        }
        Vec::new()
    }
}

impl Module {
    /// `path` with its first name replaced by what an import says that it is.
    fn spelled_out(&self, path: &[String]) -> Vec<String> {
        match self.imports.iter().find(|(name, _)| *name == path[0]) {
            Some((_, import)) if !["crate", "self", "super"].contains(&path[0].as_str()) => {
                import.iter().chain(&path[1..]).cloned().collect()
            }
            _ => path.to_vec(),
        }
    }
}

/// From each module to others, with the names that it takes.
type Arrows = BTreeMap<Place, BTreeMap<Place, BTreeSet<String>>>;

/// Every module that can be reached from `from`.
fn reached<'a>(from: &Place, arrows: &'a Arrows) -> BTreeSet<&'a Place> {
    let mut there = BTreeSet::new();
    let mut pending: Vec<&Place> = arrows[from].keys().collect();
    while let Some(place) = pending.pop() {
        if there.insert(place) {
            pending.extend(arrows.get(place).into_iter().flat_map(BTreeMap::keys));
        }
    }
    there
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        find(files.iter().copied())
    }

    const ROOT: (&str, &str) = ("crates/x/src/lib.rs", "mod a;\nmod b;\nmod c;");
    const A: &str = "crates/x/src/a.rs";
    const B: &str = "crates/x/src/b.rs";
    const C: &str = "crates/x/src/c.rs";

    #[test]
    fn a_chain_is_none_and_a_loop_is_one() {
        let chain = [
            ROOT,
            (A, "use crate::b::B;"),
            (B, "use super::c::C;"),
            (C, "pub struct C;"),
        ];
        assert_eq!(circles(&chain), Vec::<String>::new());
        let looped = [
            ROOT,
            (A, "use crate::b::B;"),
            (B, "use super::c::C;"),
            (C, "use super::{a::{A, f}};"),
        ];
        let [circle] = &circles(&looped)[..] else {
            panic!("one circle");
        };
        assert!(circle.contains("3 files"), "{circle}");
        assert!(circle.contains(&format!("{C} -> {A}: A, f")), "{circle}");
    }

    #[test]
    fn every_way_to_name_something_is_an_arrow() {
        for back in [
            "use crate::a::A;",
            "use crate::a as other;\nfn f() { other::A }",
            "use crate::{a::A as Other, c};",
            "fn f() -> crate::a::A {}",
            "fn f() { super::a::g() }",
            "use super::a;\nfn f() { a::g() }",
            // By a re-export at the root, of one name and of all.
            "use crate::FromA;",
            "use crate::OnlyInA;",
            // A macro of another file has the same name.
            "use crate::c::g;\nfn f() { super::a::g() }",
        ] {
            let root = (
                ROOT.0,
                "mod a;\nmod b;\nmod c;\npub use a::*;\npub use a::A as FromA;",
            );
            let a = "use crate::b::B;\nuse crate::c::g;\npub struct A;\npub struct OnlyInA;\npub fn g() {}";
            let c = (C, "macro_rules! g { () => {} }");
            let found = circles(&[root, (A, a), (B, back), c]);
            assert_eq!(found.len(), 1, "{back}");
        }
    }

    #[test]
    fn parents_other_crates_tests_and_words_are_no_arrows() {
        let child = "crates/x/src/a/child.rs";
        let parent = [
            ROOT,
            (A, "mod child;\nuse child::Child;"),
            (child, "use super::A;\nuse crate::Root;"),
        ];
        assert_eq!(circles(&parent), Vec::<String>::new());
        for back in [
            "use ::a::A;",
            "fn f() { ::a::g() }",
            "// use crate::a::A;",
            "const S: &str = \"crate::a::A\";",
            "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n",
        ] {
            let found = circles(&[ROOT, (A, "use crate::b::B;"), (B, back)]);
            assert_eq!(found, Vec::<String>::new(), "{back}");
        }
        // The same names in two crates.
        let other = [
            (A, "use crate::b::B;"),
            ("crates/y/src/lib.rs", "mod a; mod b;"),
            ("crates/y/src/b.rs", "use crate::a::A;"),
        ];
        assert_eq!(
            circles(&[&[ROOT][..], &other].concat()),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_child_that_its_uncle_needs_can_close_a_loop() {
        let child = "crates/x/src/a/child.rs";
        let files = [
            ROOT,
            (A, "mod child;"),
            (child, "use crate::b::B;"),
            (B, "use crate::a::child::Child;"),
        ];
        assert_eq!(circles(&files).len(), 1);
    }
}
