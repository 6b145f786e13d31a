//! Sort keys put words in the order in which another implementation of the Unicode Collation Algorithm has them.

use dpb_core::CollationLocale;
use dpb_operators::primitive::strxfrm::Strxfrm;

/// Words of several scripts, with accents, ligatures and digits, sorted by pyuca 1.2 with the default weights of Unicode 8. CLDR's
/// root orders letters and digits as they do; punctuation and symbols, where it does not, are left out.
const SORTED: &str = include_str!("data/collation.txt");

#[test]
fn words_sort_as_another_implementation_has_them() {
    let strxfrm = Strxfrm::best(CollationLocale::Root);
    let words: Vec<&str> = SORTED.lines().collect();
    assert!(words.len() > 80);
    for pair in words.windows(2) {
        let [a, b] = [pair[0], pair[1]].map(|word| strxfrm.key(word.as_bytes()));
        assert!(a < b, "{} before {}", pair[0], pair[1]);
    }
}

/// The alphabets' own rules: Swedish ends in å, ä, ö; a German telephone book reads ä as ae.
#[test]
fn locales_have_their_own_order() {
    assert_sorted(CollationLocale::Swedish, &["ab", "o", "z", "å", "ä", "ö"]);
    assert_sorted(CollationLocale::Root, &["a", "å", "ab", "o", "ö", "z"]);
    assert_sorted(
        CollationLocale::GermanPhonebook,
        &["Adam", "Ärger", "Afrika"],
    );
    assert_sorted(CollationLocale::Root, &["Adam", "Afrika", "Ärger"]);
}

fn assert_sorted(locale: CollationLocale, words: &[&str]) {
    let strxfrm = Strxfrm::best(locale);
    let keys: Vec<Vec<u8>> = words
        .iter()
        .map(|word| strxfrm.key(word.as_bytes()))
        .collect();
    assert!(keys.is_sorted_by(|a, b| a < b), "{locale:?}: {words:?}");
}
