//! What a host is made of.
#![allow(unsafe_code)]

use crate::error::{Refusal, guarded, refuse};
use crate::handle::{Kind, Table};
use crate::host::{HOSTS, gannet_host};
use crate::memory::{bytes, patience, text, texts};
use gannet::HostBuilder;
use gannet::settings::{Assignment, Settings, Sources};
use std::ffi::{c_char, c_int, c_uint};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What a host is to be made of. Texts are looked at when it is built.
pub enum gannet_builder {}

static BUILDERS: Table<Whole, gannet_builder> = Table::new(Kind::Builder);

/// What was said so far; `None` when it is being built.
type Whole = Mutex<Option<Plan>>;

struct Plan {
    host: HostBuilder,
    /// By name, in the order in which they were set.
    settings: Vec<Assignment>,
    /// The file and the variables count, too.
    environment: bool,
    /// Set by functions of their own: over everything else.
    spin: Option<Duration>,
    mtu: Option<u32>,
}

impl Plan {
    /// All settings.
    ///
    /// # Errors
    /// An unknown name, or a value that cannot be.
    fn settings(&self) -> io::Result<Settings> {
        let settings = match self.environment {
            true => Settings::load(&Sources {
                environment: std::env::vars_os().collect(),
                options: self.settings.clone(),
                file: None,
            }),
            false => Settings::of(&self.settings),
        };
        Ok(settings?)
    }

    fn build(self) -> io::Result<gannet::Host> {
        let settings = match self.environment || !self.settings.is_empty() {
            true => Some(self.settings()?),
            false => None,
        };
        let mut host = match settings {
            Some(settings) => settings.apply(self.host),
            None => self.host,
        };
        if let Some(spin) = self.spin {
            host = host.spin(spin);
        }
        if let Some(mtu) = self.mtu {
            host = host.mtu(mtu);
        }
        host.build()
    }
}

fn lock(builder: &Whole) -> MutexGuard<'_, Option<Plan>> {
    builder.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One more thing that is said of the host. Nothing of it has changed when it fails.
fn say(builder: *mut gannet_builder, what: impl FnOnce(&mut Plan) -> io::Result<()>) -> c_int {
    guarded(-1, || {
        let builder = BUILDERS.get(builder)?;
        let mut place = lock(&builder);
        let plan = place.as_mut().ok_or_else(|| refuse(Refusal::CLOSED))?;
        what(plan).map(|()| 0)
    })
}

/// The same of links and addresses, after all that was given for it has been looked at.
fn add<T>(
    builder: *mut gannet_builder,
    read: impl FnOnce() -> io::Result<T>,
    apply: impl FnOnce(HostBuilder, T) -> HostBuilder,
) -> c_int {
    say(builder, |plan| {
        let given = read()?;
        let host = std::mem::replace(&mut plan.host, gannet::Host::builder());
        plan.host = apply(host, given);
        Ok(())
    })
}

/// Begins to describe a host: name its links, then gannet_builder_build.
///
/// Returns the builder; NULL when there are too many handles (EMFILE).
#[unsafe(no_mangle)]
pub extern "C" fn gannet_builder_new() -> *mut gannet_builder {
    guarded(std::ptr::null_mut(), || {
        BUILDERS.insert(Mutex::new(Some(Plan {
            host: gannet::Host::builder(),
            settings: Vec::new(),
            environment: false,
            spin: None,
            mtu: None,
        })))
    })
}

/// Adds a link to `network`, the network of that name of this user's processes, as `address`
/// ("10.0.0.1/24"). Processes that joined it reach each other over shared memory.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_builder_channel(
    builder: *mut gannet_builder,
    network: *const c_char,
    address: *const c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    let both = || unsafe { texts((network, address)) };
    add(builder, both, |host, (network, address)| {
        host.channel(network, address)
    })
}

/// Adds a link by the Ethernet interface `interface`, beside the kernel, as `address`, which should
/// not be one of the kernel's, or "dhcp". Needs CAP_NET_RAW.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_builder_packet(
    builder: *mut gannet_builder,
    interface: *const c_char,
    address: *const c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    let both = || unsafe { texts((interface, address)) };
    add(builder, both, |host, (interface, address)| {
        host.packet(interface, address)
    })
}

/// Adds a link by the TAP device `name`, made if it is not there: an Ethernet with the kernel at
/// the other end. Needs CAP_NET_ADMIN.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_builder_tap(
    builder: *mut gannet_builder,
    name: *const c_char,
    address: *const c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    let both = || unsafe { texts((name, address)) };
    add(builder, both, |host, (name, address)| {
        host.tap(name, address)
    })
}

/// Adds a link by a TUN or TAP device that is open as the descriptor `device`, made with IFF_NO_PI
/// and IFF_VNET_HDR; the host takes a copy of the descriptor. `mtu` is the device's, in bytes;
/// `hardware` are the 6 bytes of our hardware address, NULL for TUN.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_builder_tap_fd(
    builder: *mut gannet_builder,
    device: c_int,
    mtu: u32,
    hardware: *const u8,
    address: *const c_char,
) -> c_int {
    let read = || {
        // SAFETY: the caller's promise.
        let address = unsafe { text(address) }?;
        let mut own = [0; 6];
        if !hardware.is_null() {
            // SAFETY: the caller's promise.
            own.copy_from_slice(unsafe { bytes(hardware.cast(), 6) }?);
        }
        Ok((copy_of(device)?, own, address))
    };
    add(builder, read, |host, (device, own, address)| {
        host.tap_fd(device, mtu, own, address)
    })
}

fn copy_of(device: c_int) -> io::Result<OwnedFd> {
    if device < 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: not -1, and borrowed only for the copy; one that is not open makes the copy fail.
    let device = unsafe { BorrowedFd::borrow_raw(device) };
    device.try_clone_to_owned()
}

/// One more address, of either family ("fd00::2/64"), for the link named last.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_builder_address(
    builder: *mut gannet_builder,
    address: *const c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    add(builder, || unsafe { text(address) }, HostBuilder::address)
}

/// Packets for `network` ("10.1.0.0/16") go through `gateway`, a neighbour on one of the links.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_builder_route(
    builder: *mut gannet_builder,
    network: *const c_char,
    gateway: *const c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    let both = || unsafe { texts((network, gateway)) };
    add(builder, both, |host, (network, gateway)| {
        host.route(network, gateway)
    })
}

/// Everything that nothing else leads anywhere goes through `gateway`.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_builder_gateway(
    builder: *mut gannet_builder,
    gateway: *const c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    add(builder, || unsafe { text(gateway) }, HostBuilder::gateway)
}

/// The routers of the Ethernet named last may give the host addresses of IPv6.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_builder_autoconf(builder: *mut gannet_builder) -> c_int {
    add(builder, || Ok(()), |host, ()| host.autoconf())
}

/// The link named last, an Ethernet, is on the VLAN `id`, 1 to 4094.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_builder_vlan(builder: *mut gannet_builder, id: u16) -> c_int {
    add(builder, || Ok(()), |host, ()| host.vlan(id))
}

/// Writes down what passes every link: a pcapng file for each in `directory`, which must exist.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_builder_capture(
    builder: *mut gannet_builder,
    directory: *const c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    let directory = || unsafe { text(directory) };
    add(builder, directory, |host, at| host.capture(at))
}

/// Lowers the MTU of TAP and TUN devices that are made, in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_builder_mtu(builder: *mut gannet_builder, bytes: u32) -> c_int {
    say(builder, |plan| {
        plan.mtu = Some(bytes);
        Ok(())
    })
}

/// Sets one of Gannet's settings by name: "tcp.congestion=bbr", "profile=latency". The command
/// `gannet config show` has the names, with what they take. What is said last counts;
/// gannet_builder_spin and gannet_builder_mtu count more.
///
/// Returns 0; -1 with EINVAL for an unknown name or a value that cannot be, and then
/// gannet_last_error says what was probably meant.
///
/// # Safety
/// As for all functions here: see the top of gannet.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_builder_setting(
    builder: *mut gannet_builder,
    setting: *const c_char,
) -> c_int {
    say(builder, |plan| {
        // SAFETY: the caller's promise.
        let (name, value) = unsafe { text(setting) }?
            .split_once('=')
            .ok_or_else(|| refuse(Refusal::SETTING))?;
        let option = Assignment::option("gannet_builder_setting", name.trim(), value.trim());
        plan.settings.push(option);
        let checked = Settings::of(&plan.settings);
        if checked.is_err() {
            plan.settings.pop();
        }
        Ok(checked.map(drop)?)
    })
}

/// The settings of this user count: the file of settings and the GANNET_ variables, as for
/// `gannet run`. What gannet_builder_setting says counts more.
///
/// Returns 0; -1 with EINVAL when one of them is unknown or cannot be.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_builder_environment(builder: *mut gannet_builder) -> c_int {
    say(builder, |plan| {
        let before = std::mem::replace(&mut plan.environment, true);
        let checked = plan.settings();
        if checked.is_err() {
            plan.environment = before;
        }
        checked.map(drop)
    })
}

/// How long a call that waits spins before it sleeps, in microseconds; 50 by default. 0: never.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_builder_spin(builder: *mut gannet_builder, at_most: c_uint) -> c_int {
    let at_most = Duration::from_micros(at_most.into());
    say(builder, |plan| {
        plan.spin = Some(at_most);
        Ok(())
    })
}

/// How long the end of the host waits for what was written to reach its peers, in milliseconds;
/// 2000 by default. Negative: for ever.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_builder_linger(builder: *mut gannet_builder, at_most: c_int) -> c_int {
    const FOR_EVER: Duration = Duration::from_secs(1 << 32);
    let at_most = patience(at_most).unwrap_or(FOR_EVER);
    add(builder, || Ok(()), |host, ()| host.linger(at_most))
}

/// Makes the host. The builder is gone afterwards, whatever comes of it.
///
/// Returns the host; NULL with EINVAL for texts that are no addresses, or no link at all,
/// EADDRINUSE when a living process has the address in the network, EPERM or EACCES, ENODEV or
/// ENOENT for interfaces.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_builder_build(builder: *mut gannet_builder) -> *mut gannet_host {
    guarded(std::ptr::null_mut(), || {
        let builder = BUILDERS.remove(builder)?;
        let whole = lock(&builder).take();
        let whole = whole.ok_or_else(|| refuse(Refusal::CLOSED))?;
        HOSTS.insert(whole.build()?)
    })
}

/// Throws a builder away.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_builder_close(builder: *mut gannet_builder) -> c_int {
    guarded(-1, || BUILDERS.remove(builder).map(|_| 0))
}
