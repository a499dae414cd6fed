//! `getifaddrs`, and the `ioctl` requests of netdevice(7) that ask for addresses.

use crate::interfaces::{self, Own, name_of};
use crate::place;
use crate::state::{self, State};
use crate::{errno, real};
use libc::{c_char, c_int, c_ulong, c_void, ifaddrs, ifconf, ifreq, sockaddr_storage};
use std::net::IpAddr;
use std::ptr::null_mut;

/// Marks the entries of this library in a list: `ifa_data` of addresses is not used otherwise.
static MARK: u8 = 0;

/// An entry of the list with everything that it points to.
#[repr(C)]
struct Entry {
    list: ifaddrs,
    address: sockaddr_storage,
    mask: sockaddr_storage,
    broadcast: sockaddr_storage,
    name: [c_char; libc::IFNAMSIZ],
}

fn is_own(entry: &ifaddrs) -> bool {
    entry.ifa_data.addr() == (&raw const MARK).addr()
}

/// The entries of a list.
///
/// # Safety
/// A list of `getifaddrs`, which stays as it is meanwhile.
unsafe fn entries<'a>(list: *mut ifaddrs) -> impl Iterator<Item = &'a mut ifaddrs> {
    let mut next = list;
    std::iter::from_fn(move || {
        // SAFETY: null at the end.
        let entry = unsafe { next.as_mut() }?;
        next = entry.ifa_next;
        Some(entry)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getifaddrs(list: *mut *mut ifaddrs) -> c_int {
    // SAFETY: passed on.
    let outcome = unsafe { real::getifaddrs(list) };
    if outcome == 0
        && let Some(state) = state::get()
    {
        // SAFETY: the list that was made just now.
        unsafe { append(state, &mut *list) };
    }
    outcome
}

/// Adds the program's addresses that are not in the list.
///
/// # Safety
/// A list of `getifaddrs`.
unsafe fn append(state: &State, list: &mut *mut ifaddrs) {
    let name = name_of(&state.settings().interface);
    let (mut flags, mut last) = (0, null_mut::<ifaddrs>());
    let mut there: Vec<IpAddr> = Vec::new();
    // SAFETY: as the caller says.
    for entry in unsafe { entries(*list) } {
        // SAFETY: of the C library's making.
        let (address, own) = unsafe {
            let own = std::ffi::CStr::from_ptr(entry.ifa_name);
            (interfaces::read(entry.ifa_addr), own)
        };
        there.extend(address);
        if name_of(own) == name {
            flags = entry.ifa_flags;
        }
        last = entry;
    }
    let missing: Vec<Own> = interfaces::own(state)
        .filter(|own| !there.contains(&own.address))
        .collect();
    if missing.is_empty() {
        return;
    }
    // One block, as the C library's list is one; given back by `freeifaddrs`.
    // SAFETY: all zeros are an entry; the block is as long as the entries that are written.
    unsafe {
        let block = libc::calloc(missing.len(), size_of::<Entry>()).cast::<Entry>();
        if block.is_null() {
            return;
        }
        for (n, own) in missing.iter().enumerate() {
            let entry = block.add(n);
            fill(&mut *entry, *own, name, flags);
            if n + 1 < missing.len() {
                (*entry).list.ifa_next = block.add(n + 1).cast();
            }
        }
        match last.as_mut() {
            Some(last) => last.ifa_next = block.cast(),
            None => *list = block.cast(),
        }
    }
}

fn fill(entry: &mut Entry, own: Own, name: [c_char; libc::IFNAMSIZ], flags: libc::c_uint) {
    entry.name = name;
    interfaces::write(own.address, &mut entry.address);
    interfaces::write(own.mask(), &mut entry.mask);
    let up = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_uint;
    entry.list.ifa_flags = flags | up;
    entry.list.ifa_name = (&raw mut entry.name).cast();
    entry.list.ifa_addr = (&raw mut entry.address).cast();
    entry.list.ifa_netmask = (&raw mut entry.mask).cast();
    entry.list.ifa_data = (&raw const MARK).cast_mut().cast::<c_void>();
    if flags & libc::IFF_BROADCAST as libc::c_uint != 0
        && let Some(broadcast) = own.broadcast()
    {
        interfaces::write(broadcast, &mut entry.broadcast);
        entry.list.ifa_ifu = (&raw mut entry.broadcast).cast();
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn freeifaddrs(list: *mut ifaddrs) {
    let (mut before, mut block) = (null_mut::<ifaddrs>(), null_mut::<ifaddrs>());
    // SAFETY: as the caller says.
    for entry in unsafe { entries(list) } {
        if is_own(entry) {
            block = entry;
            break;
        }
        before = entry;
    }
    // SAFETY: the entries of this library are one block, behind those of the C library.
    unsafe {
        if let Some(before) = before.as_mut() {
            before.ifa_next = if block.is_null() {
                before.ifa_next
            } else {
                null_mut()
            };
            real::freeifaddrs(list);
        }
        libc::free(block.cast());
    }
}

/// An `ioctl` request that asks for addresses; `None`: it asks for something else.
///
/// # Safety
/// As `ioctl`.
pub(super) unsafe fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> Option<c_int> {
    let state = state::get()?;
    // SAFETY: as the caller says, once the kernel has found the place good.
    unsafe {
        match request {
            libc::SIOCGIFCONF => Some(list(state, fd, argument)),
            libc::SIOCGIFADDR | libc::SIOCGIFNETMASK | libc::SIOCGIFBRDADDR => {
                let outcome = real::ioctl(fd, request, argument);
                let unknown = outcome < 0 && errno::get() == libc::EADDRNOTAVAIL;
                let found = unknown && tell(state, request, &mut *(argument as *mut ifreq));
                Some(if found { 0 } else { outcome })
            }
            _ => None,
        }
    }
}

/// The address of the program's interface where the kernel has none there; whether it was that.
fn tell(state: &State, request: c_ulong, answer: &mut ifreq) -> bool {
    let mut own = interfaces::own(state);
    let Some(own) = own.find(|own| own.address.is_ipv4()) else {
        return false;
    };
    if answer.ifr_name != name_of(&state.settings().interface) {
        return false;
    }
    let address = match request {
        libc::SIOCGIFADDR => Some(own.address),
        libc::SIOCGIFNETMASK => Some(own.mask()),
        _ => own.broadcast(),
    };
    if let Some(address) = address {
        put(answer, address);
    }
    address.is_some()
}

fn put(answer: &mut ifreq, address: IpAddr) {
    // SAFETY: all zeros are an address of no family.
    let mut storage: sockaddr_storage = unsafe { std::mem::zeroed() };
    interfaces::write(address, &mut storage);
    // SAFETY: an address of IPv4 is as long as `sockaddr`, whatever it is called.
    answer.ifr_ifru.ifru_addr = unsafe { (&raw const storage).cast::<libc::sockaddr>().read() };
}

/// `SIOCGIFCONF`: the addresses of IPv4, as many as there is room for.
///
/// # Safety
/// As `ioctl`.
unsafe fn list(state: &State, fd: c_int, argument: usize) -> c_int {
    let place = argument as *mut ifconf;
    if !place::can_write(place, 1) {
        errno::set(libc::EFAULT);
        return -1;
    }
    // SAFETY: as the caller says.
    unsafe {
        let room = (*place).ifc_len.max(0) as usize;
        let outcome = real::ioctl(fd, libc::SIOCGIFCONF, argument);
        if outcome < 0 {
            return outcome;
        }
        let first = (*place).ifc_ifcu.ifcu_req;
        let mut used = (*place).ifc_len.max(0) as usize / size_of::<ifreq>();
        let kernels = used;
        for own in interfaces::own(state).filter(|own| own.address.is_ipv4()) {
            let mut answer: ifreq = std::mem::zeroed();
            answer.ifr_name = name_of(&state.settings().interface);
            put(&mut answer, own.address);
            if first.is_null() {
                used += 1;
                continue;
            }
            let is_there = (0..kernels).any(|n| {
                let other = first.add(n);
                interfaces::read(&raw const (*other).ifr_ifru.ifru_addr) == Some(own.address)
            });
            if !is_there && (used + 1) * size_of::<ifreq>() <= room {
                first.add(used).write(answer);
                used += 1;
            }
        }
        (*place).ifc_len = (used * size_of::<ifreq>()) as c_int;
        outcome
    }
}
