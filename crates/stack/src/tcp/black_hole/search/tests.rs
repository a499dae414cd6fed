//! Which sizes are tried.

use super::{SIZES, next_size};

const V4: u32 = 40;

/// Tries sizes until none is left where packets of `widest` bytes pass; the last that did, and how
/// many were tried.
fn search(low: u32, widest: u32, most: u32) -> (u32, u32) {
    let (mut low, mut high, mut tried) = (low - V4, u32::MAX, 0);
    while let Some(size) = next_size(low, high, most - V4, V4) {
        assert!(low < size && size < high && size <= most - V4);
        tried += 1;
        match size + V4 <= widest {
            true => low = size,
            false => high = size,
        }
    }
    (low + V4, tried)
}

/// RFC 4821 section 7.3: it converges, at the largest common size that passes.
#[test]
fn the_largest_common_size_is_found_in_a_few_steps() {
    for (widest, found, tried) in [
        (1500, 1500, 1),
        (1492, 1492, 4),
        (1450, 1450, 5),
        (1420, 1420, 4),
        (1280, 1280, 5),
        (1064, 1064, 5),
    ] {
        assert_eq!(search(1064, widest, 1500), (found, tried), "{widest}");
    }
    for widest in 1064..=9000 {
        let (found, tried) = search(1064, widest, 9000);
        let next = SIZES.into_iter().find(|&size| size > found);
        assert!(found <= widest && next.is_none_or(|n| n > widest || found == 9000));
        assert!(tried <= 6, "{widest}: {tried}");
    }
}

#[test]
fn an_interface_of_no_common_size_is_used_up() {
    assert_eq!(search(1064, 1337, 1337), (1337, 1));
    assert_eq!(search(1064, 1336, 1337), (1280, 2));
    assert_eq!(next_size(1460, u32::MAX, 1460, V4), None);
}
