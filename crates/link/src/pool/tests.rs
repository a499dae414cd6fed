//! The pool's bookkeeping against a naive count of references.

use super::*;
use crate::segment::HeapMemory;
use crate::segment::Memory;
use gannet_base::Rng;

pub(super) fn pool(blocks: u32, reserve: u32) -> Pool {
    let memory: Arc<dyn Memory> = Arc::new(HeapMemory::new(blocks as usize * 4096));
    let bytes = OwnBlocks::new(memory, 0, blocks as usize * 4096).unwrap();
    Pool::new(bytes, 4096, reserve)
}

#[test]
fn memory_can_be_claimed_once() {
    let memory: Arc<dyn Memory> = Arc::new(HeapMemory::new(8192));
    assert!(OwnBlocks::new(memory.clone(), 0, 8193).is_none());
    assert!(OwnBlocks::new(memory.clone(), 0, 4096).is_some());
    assert!(OwnBlocks::new(memory, 4096, 4096).is_none());
}

#[test]
fn the_reserve_is_for_receiving() {
    let mut pool = pool(8, 2);
    let taken: Vec<_> = core::iter::from_fn(|| pool.alloc()).collect();
    assert_eq!(taken.len(), 6);
    assert!(pool.alloc_for_receive().is_some());
}

#[test]
fn s2_completions_of_blocks_not_in_flight_are_counted() {
    let mut pool = pool(4, 0);
    let id = pool.alloc().unwrap();
    let range = pool.range(id, 0, 10);
    assert!(pool.pin(range));
    pool.completed(range.offset + 5);
    for lie in [range.offset, 4096, 4096 * 4, u32::MAX] {
        pool.completed(lie);
    }
    assert_eq!(pool.bad_completions(), 4);
    pool.release(range);
    assert_eq!(pool.free_blocks(), 4);
    pool.invariants();
}

#[test]
fn append_shares_one_block_and_each_piece_lives_on_its_own() {
    let mut pool = pool(4, 0);
    let mut arena = Arena::new();
    let pieces: Vec<Range> = (0..40u8)
        .map(|i| pool.append(&mut arena, &[i; 100]).unwrap())
        .collect();
    assert_eq!(pool.free_blocks(), 3);
    assert_eq!(
        pool.append(&mut arena, &[9; 100]).unwrap().len,
        96,
        "to the end of the block"
    );
    pool.close(&mut arena);
    for (i, piece) in pieces.iter().enumerate() {
        assert!(pool.bytes(*piece).unwrap().iter().all(|&b| b == i as u8));
        assert_eq!(pool.free_blocks(), 3);
        pool.release(*piece);
    }
    pool.release(Range {
        offset: pieces[0].offset,
        ..pieces[0]
    });
    assert_eq!(pool.free_blocks(), 4);
}

#[test]
fn reserve_whole_never_splits() {
    let mut pool = pool(4, 0);
    let mut arena = Arena::new();
    let a = pool.reserve_whole(&mut arena, 3000).unwrap();
    let b = pool.reserve_whole(&mut arena, 3000).unwrap();
    assert_eq!((a.len, b.len), (3000, 3000));
    assert_ne!(pool.block_of(a), pool.block_of(b));
    assert!(pool.reserve_whole(&mut arena, 4097).is_none());
}

#[test]
fn a_detached_block_is_out_of_reach_and_comes_back() {
    let mut pool = pool(2, 0);
    let mut block = pool.detach().unwrap();
    let id = block.id;
    block[..5].copy_from_slice(b"hello");
    assert!(
        pool.bytes(pool.range(id, 0, 5)).is_none(),
        "no aliasing with the owner"
    );
    let range = pool.attach(block, 5).unwrap();
    assert_eq!(pool.bytes(range).unwrap(), b"hello");
    pool.release(range);
    let (a, b) = (pool.detach().unwrap(), pool.detach().unwrap());
    assert!(pool.detach().is_none());
    drop(a);
    assert!(pool.detach().is_some(), "an abandoned block is collected");
    let other = self::pool(2, 0).detach().unwrap();
    assert!(
        pool.attach(other, 5).is_none(),
        "another pool's block is refused"
    );
    drop(b);
}

/// Random operations; a naive list of references must always agree with the pool.
#[test]
fn random_operations_agree_with_a_naive_count() {
    let mut rng = Rng::new(3);
    let mut pool = pool(16, 2);
    let mut held: Vec<Range> = Vec::new();
    let mut flying: Vec<Range> = Vec::new();
    // The interpreter that looks for undefined behaviour takes a thousand times as long.
    let rounds = if cfg!(miri) { 300 } else { 20_000 };
    for _ in 0..rounds {
        match rng.below(5) {
            0 => held.extend(pool.alloc().map(|id| pool.range(id, 0, 100))),
            1 if !held.is_empty() => {
                let r = held[rng.below(held.len() as u64) as usize];
                assert!(pool.retain(r));
                held.push(r);
            }
            2 if !held.is_empty() => {
                pool.release(held.swap_remove(rng.below(held.len() as u64) as usize));
            }
            3 if !held.is_empty() => {
                let r = held[rng.below(held.len() as u64) as usize];
                assert!(pool.pin(r));
                flying.push(r);
            }
            4 if !flying.is_empty() => {
                pool.completed(
                    flying
                        .swap_remove(rng.below(flying.len() as u64) as usize)
                        .offset,
                );
            }
            _ => {}
        }
        let mut used: Vec<u32> = held
            .iter()
            .chain(&flying)
            .map(|r| r.offset / 4096)
            .collect();
        used.sort_unstable();
        used.dedup();
        assert_eq!(pool.free_blocks(), 16 - used.len());
    }
    pool.invariants();
    held.iter().for_each(|r| pool.release(*r));
    pool.complete_all();
    assert_eq!((pool.free_blocks(), pool.bad_completions()), (16, 0));
}
