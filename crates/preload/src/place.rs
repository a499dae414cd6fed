//! Places in the program's memory that a call names. Where there is no memory the call answers
//! `EFAULT`, as the kernel does: see [`gannet_local::guarded`]. (Where the border is not raised no
//! handler comes back from the fault, and only the lowest page is told from others.)

use crate::errno::Outcome;
use gannet_local::guarded;
use libc::c_char;
use std::ffi::CStr;
use std::mem::MaybeUninit;

/// Whether `count` values can be read there.
pub(crate) fn can_read<T>(place: *const T, count: usize) -> bool {
    let len = size_of::<T>().checked_mul(count);
    len.is_some_and(|len| guarded::check_to_read(place.cast(), len).is_ok())
}

/// Whether `count` values can be written there.
pub(crate) fn can_write<T>(place: *mut T, count: usize) -> bool {
    let len = size_of::<T>().checked_mul(count);
    len.is_some_and(|len| guarded::check_to_write(place.cast(), len).is_ok())
}

/// A value of the program's.
///
/// # Errors
/// `EFAULT`.
///
/// # Safety
/// Whatever bytes are there are a `T`.
pub(crate) unsafe fn read<T: Copy>(place: *const T) -> Outcome<T> {
    let mut value = MaybeUninit::<T>::uninit();
    if place.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: a place of our own; all of it is written where that succeeds, and is a `T` as the
    // caller says.
    unsafe {
        guarded::copy(value.as_mut_ptr().cast(), place.cast(), size_of::<T>())
            .map_err(|_| libc::EFAULT)?;
        Ok(value.assume_init())
    }
}

/// A value of the program's that can be read and written where it is.
///
/// # Errors
/// `EFAULT`.
///
/// # Safety
/// Whatever bytes are there are a `T`, which no other thread uses as long as this does.
pub(crate) unsafe fn borrow<'a, T>(place: *mut T) -> Outcome<&'a mut T> {
    let there = can_write(place, 1).then_some(place);
    // SAFETY: it is there, and the caller's.
    let there = there.and_then(|place| unsafe { place.as_mut() });
    there.ok_or(libc::EFAULT)
}

/// Gives the program a value.
///
/// # Errors
/// `EFAULT`.
///
/// # Safety
/// The program named the place for it.
pub(crate) unsafe fn write<T>(place: *mut T, value: &T) -> Outcome<()> {
    // SAFETY: as the caller says.
    unsafe { write_first(place.cast(), value, size_of::<T>()) }
}

/// Gives the program the first `len` bytes of a value.
///
/// # Errors
/// `EFAULT`.
///
/// # Safety
/// As [`write`].
pub(crate) unsafe fn write_first<T: ?Sized>(place: *mut u8, value: &T, len: usize) -> Outcome<()> {
    let len = len.min(size_of_val(value));
    if len > 0 && place.is_null() {
        return Err(libc::EFAULT);
    }
    let from = std::ptr::from_ref(value).cast::<u8>();
    // SAFETY: within the value; the place is as the caller says.
    unsafe { guarded::copy(place, from, len) }.map_err(|_| libc::EFAULT)
}

/// A string of the program's, unless its end is nowhere, or it is longer than any path.
///
/// # Safety
/// No other thread changes it as long as the result is used.
pub(crate) unsafe fn string<'a>(first: *const c_char) -> Option<&'a CStr> {
    let mut at = first.cast::<u8>();
    while at.addr() - first.addr() < STRING_MAX {
        let in_page = PAGE - at.addr() % PAGE;
        if !can_read(at, in_page) {
            return None;
        }
        // SAFETY: there, as was just seen.
        let bytes = unsafe { std::slice::from_raw_parts(at, in_page) };
        if bytes.contains(&0) {
            // SAFETY: its end was found.
            return Some(unsafe { CStr::from_ptr(first) });
        }
        at = at.wrapping_add(in_page);
    }
    None
}

/// How many strings a list has that ends with a null pointer; `None` where one of them, or the end,
/// is nowhere.
///
/// # Safety
/// As [`string`].
pub(crate) unsafe fn strings(list: *const *const c_char) -> Option<usize> {
    for count in 0..STRINGS_MAX {
        // SAFETY: any bytes are an address.
        let text = unsafe { read(list.wrapping_add(count)) }.ok()?;
        if text.is_null() {
            return Some(count);
        }
        // SAFETY: as the caller says.
        unsafe { string(text) }?;
    }
    None
}

const PAGE: usize = 4096;
/// `MAX_ARG_STRLEN` of the kernel, and more strings than its memory for them has room for.
const STRING_MAX: usize = 128 << 10;
const STRINGS_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_counted_and_their_ends_found() {
        let text = [b'x'; 3 * PAGE].map(|byte| byte as c_char);
        let mut long = text.to_vec();
        long.push(0);
        // SAFETY: strings of this test.
        unsafe {
            assert_eq!(string(long.as_ptr()).unwrap().count_bytes(), text.len());
            let list = [long.as_ptr(), c"".as_ptr(), std::ptr::null()];
            assert_eq!(strings(list.as_ptr()), Some(2));
            assert_eq!(string(std::ptr::null()), None);
            assert_eq!(strings(std::ptr::null()), None);
        }
    }

    #[test]
    fn values_are_read_and_written_in_part() {
        let mut place = [0u8; 6];
        // SAFETY: places of this test.
        unsafe {
            write(place.as_mut_ptr().cast::<u32>(), &0x0403_0201u32).unwrap();
            assert_eq!(read(place.as_ptr().add(1).cast::<u16>()), Ok(0x0302));
            write_first(place.as_mut_ptr().add(4), &[9u8, 9, 9][..], 1).unwrap();
            assert_eq!(place, [1, 2, 3, 4, 9, 0]);
            let nowhere = std::ptr::null_mut::<u32>();
            assert_eq!(read(nowhere), Err(libc::EFAULT));
            assert_eq!(write(nowhere, &1), Err(libc::EFAULT));
            assert_eq!(write_first(nowhere.cast(), &1u32, 0), Ok(()));
        }
        assert!(can_read(std::ptr::null::<u32>(), 0));
        assert!(!can_write(std::ptr::null_mut::<u64>(), usize::MAX));
    }
}
