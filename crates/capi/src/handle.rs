//! Handles. To C they are pointers to types it knows nothing of; here they are numbers that name a
//! place in a table, so that one that is null, closed, of another kind or made up is recognised
//! (rather than followed), and closing in one thread waits for no call in another.
//!
//! ```text
//!   63      56 55            32 31            8 7    0
//!   |  0x6a   |   generation   |    place     | kind |   never an address on x86-64 or aarch64
//! ```

use crate::error::{Refusal, refuse};
use std::io;
use std::marker::PhantomData;
use std::sync::{Arc, PoisonError, RwLock};

const MARK: u64 = 0x6a;
const PLACES_MAX: usize = 1 << 24;
const GENERATIONS: u32 = 1 << 24;
const _: () = assert!(usize::BITS == 64, "a handle takes 64 bits");

/// What a handle stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Builder = 1,
    Host,
    Tcp,
    Listener,
    Udp,
    Poller,
    SendBlock,
    RecvBlock,
}

impl Kind {
    /// Of a handle of any kind.
    pub(crate) fn of<C>(handle: *const C) -> Option<Kind> {
        let value = handle.addr() as u64;
        let all = [
            Kind::Builder,
            Kind::Host,
            Kind::Tcp,
            Kind::Listener,
            Kind::Udp,
            Kind::Poller,
            Kind::SendBlock,
            Kind::RecvBlock,
        ];
        let kind = all.into_iter().find(|&k| k as u64 == value & 0xff);
        kind.filter(|_| value >> 56 == MARK)
    }
}

/// All objects of one kind; `C` is what C calls them.
pub(crate) struct Table<T, C> {
    kind: Kind,
    places: RwLock<Places<T>>,
    name: PhantomData<fn(C)>,
}

struct Places<T> {
    list: Vec<Place<T>>,
    free: Vec<u32>,
}

struct Place<T> {
    generation: u32,
    object: Option<Arc<T>>,
}

impl<T, C> Table<T, C> {
    pub(crate) const fn new(kind: Kind) -> Self {
        Table {
            kind,
            places: RwLock::new(Places {
                list: Vec::new(),
                free: Vec::new(),
            }),
            name: PhantomData,
        }
    }

    /// Takes `object` in; its handle.
    pub(crate) fn insert(&self, object: T) -> io::Result<*mut C> {
        let mut places = self.places.write().unwrap_or_else(PoisonError::into_inner);
        let Places { list, free } = &mut *places;
        let index = match free.pop() {
            Some(index) => index,
            None if list.len() >= PLACES_MAX => return Err(refuse(Refusal::TOO_MANY_HANDLES)),
            None => {
                list.push(Place {
                    generation: 0,
                    object: None,
                });
                (list.len() - 1) as u32
            }
        };
        let Some(place) = list.get_mut(index as usize) else {
            return Err(refuse(Refusal::TOO_MANY_HANDLES));
        };
        place.object = Some(Arc::new(object));
        let place = u64::from(place.generation) << 32 | u64::from(index) << 8;
        let value = MARK << 56 | place | self.kind as u64;
        Ok(std::ptr::without_provenance_mut(value as usize))
    }

    /// What `handle` stands for. It lives on while the caller has it, closed or not.
    pub(crate) fn get(&self, handle: *const C) -> io::Result<Arc<T>> {
        let (index, generation) = self.decode(handle)?;
        let places = self.places.read().unwrap_or_else(PoisonError::into_inner);
        let place = places
            .list
            .get(index)
            .filter(|p| p.generation == generation);
        let object = place.and_then(|p| p.object.clone());
        object.ok_or_else(|| refuse(Refusal::CLOSED))
    }

    /// As [`Table::get`]; the handle stands for nothing any more.
    pub(crate) fn remove(&self, handle: *const C) -> io::Result<Arc<T>> {
        let (index, generation) = self.decode(handle)?;
        let mut places = self.places.write().unwrap_or_else(PoisonError::into_inner);
        let Places { list, free } = &mut *places;
        let place = list.get_mut(index).filter(|p| p.generation == generation);
        let place = place.ok_or_else(|| refuse(Refusal::CLOSED))?;
        let object = place.object.take().ok_or_else(|| refuse(Refusal::CLOSED))?;
        place.generation = (place.generation + 1) % GENERATIONS;
        free.push(index as u32);
        Ok(object)
    }

    fn decode(&self, handle: *const C) -> io::Result<(usize, u32)> {
        if handle.is_null() {
            return Err(refuse(Refusal::NULL));
        }
        if Kind::of(handle) != Some(self.kind) {
            return Err(refuse(Refusal::NO_HANDLE));
        }
        let value = handle.addr();
        let generation = (value >> 32) as u32 & (GENERATIONS - 1);
        Ok((value >> 8 & (PLACES_MAX - 1), generation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::code_of;

    enum Thing {}

    #[test]
    fn only_what_is_there_is_found() {
        let table: Table<u32, Thing> = Table::new(Kind::Tcp);
        let other: Table<u32, Thing> = Table::new(Kind::Udp);
        let (one, two) = (table.insert(1).unwrap(), table.insert(2).unwrap());
        assert_eq!((*table.get(one).unwrap(), *table.get(two).unwrap()), (1, 2));
        assert_eq!(Kind::of(one), Some(Kind::Tcp));

        let kept = table.get(one).unwrap();
        table.remove(one).unwrap();
        assert_eq!(*kept, 1, "a call that is under way goes on");
        let again = table.insert(3).unwrap();
        assert_ne!(one, again, "the same place has another handle");
        let made_up: *mut Thing = std::ptr::without_provenance_mut(0x7fff_0000_1000);
        let code = |handle| code_of(&table.get(handle).unwrap_err());
        for bad in [one, made_up, other.insert(9).unwrap()] {
            assert_eq!(code(bad), libc::EBADF);
        }
        assert_eq!(code(std::ptr::null_mut()), libc::EINVAL);
        assert_eq!(code_of(&table.remove(one).unwrap_err()), libc::EBADF);
        assert_eq!(*table.get(again).unwrap(), 3);
    }
}
