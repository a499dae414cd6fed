//! The bytes of one ring.

use crate::guarded;
use rustix::fd::AsFd;
use rustix::io::Errno;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// See the module. Another process may write or read at any time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring<'a> {
    first: NonNull<u8>,
    len: usize,
    writable: bool,
    mapping: PhantomData<&'a ()>,
}

impl<'a> Ring<'a> {
    /// # Safety
    /// `first` is mapped for `len` bytes as long as `'a` lasts, for writing if `writable` says so,
    /// and reached in no other way than through rings.
    pub(super) unsafe fn new(first: NonNull<u8>, len: usize, writable: bool) -> Ring<'a> {
        Ring {
            first,
            len,
            writable,
            mapping: PhantomData,
        }
    }

    /// Copies `len` bytes from `from` to byte `at`.
    ///
    /// # Errors
    /// `FAULT` when they cannot be read: see [`guarded`].
    ///
    /// # Safety
    /// The bytes are this process's, and change in no way that matters meanwhile.
    ///
    /// # Panics
    /// When the place is outside or not writable: a mistake of this crate.
    pub(crate) unsafe fn write(self, at: usize, from: *const u8, len: usize) -> Result<(), Errno> {
        assert!(
            self.writable && at <= self.len && len <= self.len - at,
            "a place inside"
        );
        // SAFETY: inside, checked above; the caller vouches for the source. The two cannot overlap
        // in a way that matters: the memory is no Rust object's.
        unsafe { guarded::copy(self.first.as_ptr().add(at), from, len) }
    }

    /// Copies `len` bytes from byte `at` to `to`.
    ///
    /// # Errors
    /// `FAULT` when they cannot be written: see [`guarded`].
    ///
    /// # Safety
    /// What can be written of `to` is no other's.
    ///
    /// # Panics
    /// When the place is outside: a mistake of this crate.
    pub(crate) unsafe fn read(self, at: usize, to: *mut u8, len: usize) -> Result<(), Errno> {
        assert!(at <= self.len && len <= self.len - at, "a place inside");
        // SAFETY: inside, checked above; the caller vouches for the target.
        unsafe { guarded::copy(to, self.first.as_ptr().add(at), len) }
    }

    /// The `len` bytes at byte `at`, to be written.
    ///
    /// # Safety
    /// The mapping is alone, so that no other process writes here, and this one does not reach
    /// these bytes otherwise while the slice is in use.
    ///
    /// # Panics
    /// When the place is outside or not writable: a mistake of this crate.
    pub(crate) unsafe fn place(self, at: usize, len: usize) -> &'a mut [u8] {
        assert!(
            self.writable && at <= self.len && len <= self.len - at,
            "a place inside"
        );
        // SAFETY: inside; the caller vouches for the rest.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr().add(at), len) }
    }

    /// Reads up to `len` bytes of `file` (at `offset`, or where it stands) to byte `at`, without a
    /// copy in between.
    ///
    /// # Panics
    /// When the place is outside or not writable: a mistake of this crate.
    pub(crate) fn fill(
        self,
        at: usize,
        len: usize,
        file: impl AsFd,
        offset: Option<u64>,
    ) -> Result<usize, Errno> {
        assert!(
            self.writable && at <= self.len && len <= self.len - at,
            "a place inside"
        );
        // SAFETY: inside, checked above; only the kernel writes through this slice, and what it
        // held before is not looked at.
        let place = unsafe {
            std::slice::from_raw_parts_mut(
                self.first
                    .as_ptr()
                    .add(at)
                    .cast::<std::mem::MaybeUninit<u8>>(),
                len,
            )
        };
        let (filled, _) = match offset {
            Some(offset) => rustix::io::pread(file, place, offset)?,
            None => rustix::io::read(file, place)?,
        };
        Ok(filled.len())
    }
}
