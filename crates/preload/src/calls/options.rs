//! `getsockopt`, `setsockopt`.

use crate::border;
use crate::errno::{self, Outcome, give};
use crate::fresh;
use crate::object::{self, Found, Kind};
use crate::place;
use crate::state::{self, State};
use crate::{bound, datagrams, info, listen, open, options, real, wait, wishes};
use gannet_local::options::{CONGESTION, Opt};
use gannet_local::slot::{State as Standing, flags};
use libc::{c_int, c_void, socklen_t};

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    let _busy = border::enter();
    if let (Some(state), Some(object)) = (state::get(), object::find(fd))
        && object.kind() == Kind::Stream
    {
        if (level, name) == (libc::SOL_SOCKET, libc::SO_PEERNAME) {
            // SAFETY: as the caller says.
            return unsafe { super::socket::getpeername(fd, value.cast(), len) };
        }
        // SAFETY: any bytes are a length.
        let room = match unsafe { place::read(len) } {
            Ok(room) => room,
            Err(error) => return give(Err(error)),
        };
        if room > 0 && !place::can_write(value.cast::<u8>(), 1) {
            return give(Err(libc::EFAULT));
        }
        let answer = get(state, &object, fd, (level, name));
        return give(answer.and_then(|answer| match answer {
            // SAFETY: passed on.
            Answer::Kernels => errno::of(unsafe { real::getsockopt(fd, level, name, value, len) }),
            // SAFETY: the caller's places.
            Answer::Bytes(bytes) => unsafe {
                let room = narrow(level, &bytes, room);
                give_bytes(&bytes, room, (value, len))
            },
        }));
    }
    if let (Some(state), Some(object)) = (state::get(), object::find(fd))
        && object.kind() == Kind::Datagrams
        && (level, name) == (libc::SOL_SOCKET, libc::SO_ERROR)
        && place::can_write(value.cast::<u8>(), 1)
        // SAFETY: any bytes are a length.
        && let Ok(room) = unsafe { place::read(len) }
        && let Some(error) = datagrams::pending_error(state, &object)
    {
        // SAFETY: the caller's places.
        return give(unsafe { give_bytes(&error.to_ne_bytes(), room, (value, len)) });
    }
    // SAFETY: passed on.
    let got = unsafe { real::getsockopt(fd, level, name, value, len) };
    if got == 0 && object::find(fd).is_some_and(|object| object.kind() == Kind::Listener) {
        // SAFETY: the caller's places, which the kernel has written.
        unsafe { is_a_listener((level, name), value.cast(), *len) };
    }
    got
}

/// What the kernel does not say of a socket that listens at our side alone.
///
/// # Safety
/// `value` can be written for `len` bytes.
unsafe fn is_a_listener(which: (c_int, c_int), value: *mut u8, len: socklen_t) {
    let said = match which {
        (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => 1,
        (libc::IPPROTO_TCP, libc::TCP_INFO) => Standing::Listen as u8,
        _ => return,
    };
    let first = match which.0 {
        libc::SOL_SOCKET if cfg!(target_endian = "big") => 3,
        _ => 0,
    };
    if first < len as usize {
        // SAFETY: within the caller's place.
        unsafe { value.add(first).write(said) };
    }
}

/// Options of IP are given in a byte where an `int` does not fit and the value does (ip(7)).
fn narrow(level: c_int, bytes: &[u8], room: socklen_t) -> socklen_t {
    let small = matches!(bytes, [_, 0, 0, 0]) && cfg!(target_endian = "little");
    match room {
        1..4 if level == libc::IPPROTO_IP && small => 1,
        _ => room,
    }
}

enum Answer {
    Bytes(Vec<u8>),
    /// The Unix socket behind the stream knows.
    Kernels,
}

/// # Safety
/// The program named the places for it.
unsafe fn give_bytes(
    bytes: &[u8],
    room: socklen_t,
    (value, len): (*mut c_void, *mut socklen_t),
) -> Outcome<c_int> {
    if (room as c_int) < 0 {
        return Err(libc::EINVAL);
    }
    let n = bytes.len().min(room as usize);
    // SAFETY: as the caller says.
    unsafe {
        place::write_first(value.cast(), bytes, n)?;
        place::write(len, &(n as socklen_t))?;
    }
    Ok(0)
}

fn int(value: c_int) -> Answer {
    Answer::Bytes(value.to_ne_bytes().to_vec())
}

fn get(state: &State, object: &Found, fd: c_int, which: (c_int, c_int)) -> Outcome<Answer> {
    let slot = state.arena().own(object.slot());
    let six = slot.flags() & flags::SIX != 0;
    let path = info::figures(state, object);
    Ok(match which {
        (libc::SOL_SOCKET, libc::SO_ERROR) => {
            wait::look_for_answer(state, object, fd);
            int(pending_error(state, object, fd))
        }
        (libc::SOL_SOCKET, libc::SO_DOMAIN) => {
            int(if six { libc::AF_INET6 } else { libc::AF_INET })
        }
        (libc::IPPROTO_IPV6, options::IPV6_ADDRFORM) if six => match slot.state() {
            Standing::Established => int(libc::AF_INET6),
            _ => return Err(libc::ENOTCONN),
        },
        (libc::SOL_SOCKET, libc::SO_PROTOCOL) => int(libc::IPPROTO_TCP),
        (libc::SOL_SOCKET, libc::SO_TYPE) => int(libc::SOCK_STREAM),
        (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => int(0),
        (libc::SOL_SOCKET, libc::SO_LINGER) => {
            let mut bytes = Vec::new();
            for option in [Opt::LingerOn, Opt::LingerSeconds] {
                bytes.extend(slot.get(option).unwrap_or(0).to_ne_bytes());
            }
            Answer::Bytes(bytes)
        }
        (libc::SOL_SOCKET, _) if options::time_value(&slot, which).is_some() => {
            int(options::time_value(&slot, which).unwrap_or(0))
        }
        (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) => {
            // `struct so_timestamping`
            let flags = u64::from(slot.get(Opt::TIMESTAMPING).unwrap_or(0));
            Answer::Bytes(flags.to_le_bytes().to_vec())
        }
        (libc::SOL_SOCKET, _) => match options::find(which) {
            Some(option) => int(slot.get(option).unwrap_or(0) as c_int),
            None => Answer::Kernels,
        },
        (libc::IPPROTO_TCP, libc::TCP_INFO) => Answer::Bytes(info::bytes(state, object, fd)),
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) if path.is_some() => {
            int(path.map_or(0, |path| path.send_mss as c_int))
        }
        (libc::IPPROTO_TCP, libc::TCP_CC_INFO) => Answer::Bytes(info::of_control(state, object)),
        (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => {
            // what is in use, or else what is wanted
            info::ask_for_figures(state, object);
            let path = info::figures(state, object);
            let used = path.and_then(|path| path.congestion_control.checked_sub(1));
            let n = used.or(slot.get(Opt::Congestion)).unwrap_or(0) as usize;
            let mut name = CONGESTION.get(n).unwrap_or(&"cubic").as_bytes().to_vec();
            name.resize(16, 0);
            Answer::Bytes(name)
        }
        (libc::IPPROTO_TCP | libc::IPPROTO_IP | libc::IPPROTO_IPV6, _) => {
            int(options::value(&slot, which, six)?)
        }
        _ => return Err(libc::EOPNOTSUPP),
    })
}

/// `SO_ERROR`: what went wrong since it was asked last.
fn pending_error(state: &State, object: &Found, fd: c_int) -> c_int {
    let slot = state.arena().own(object.slot());
    let error = slot.take_error();
    if error != 0 || slot.state() == Standing::SynSent {
        return error;
    }
    let stream = object.stream(state, fd);
    if !stream.readiness().failed {
        return 0;
    }
    let before = slot.set_flags(flags::TOLD);
    match (before & flags::TOLD, before & flags::LOST) {
        (0, 0) => stream.reset_errno(),
        (0, _) => libc::EPIPE,
        _ => 0,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    let _busy = border::enter();
    fresh::forget(fd);
    // SAFETY: as the caller says.
    if unsafe { refuses(fd, (level, name), (value, len)) } {
        return give(Err(libc::ENOPROTOOPT));
    }
    let (Some(state), Some(object)) = (state::get(), object::find(fd)) else {
        // SAFETY: passed on.
        let set = unsafe { real::setsockopt(fd, level, name, value, len) };
        if set == 0 && (level, name) == (libc::IPPROTO_TCP, libc::TCP_CONGESTION) {
            wishes::remember(fd);
        }
        return set;
    };
    match object.kind() {
        Kind::Stream => {}
        Kind::Listener | Kind::Bound => {
            let six_only = (level, name) == (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY);
            if six_only && bound::has_port(state, &object) {
                return give(Err(libc::EINVAL));
            }
            // SAFETY: passed on.
            let set = unsafe { real::setsockopt(fd, level, name, value, len) };
            if set == 0 {
                if (level, name) == (libc::IPPROTO_TCP, libc::TCP_CONGESTION) {
                    wishes::remember(fd);
                }
                options::copy_from_kernel(fd, &state.arena().own(object.slot()));
                tell_carrier_of_listener(state, &object, (level, name));
            }
            return set;
        }
        Kind::Datagrams => {
            let (which, value) = ((level, name), (value, len));
            // SAFETY: as the caller says.
            return give(unsafe { datagrams::set_option(state, &object, fd, which, value) });
        }
        // SAFETY: passed on.
        _ => return unsafe { real::setsockopt(fd, level, name, value, len) },
    }
    // SAFETY: as the caller says.
    let outcome = unsafe { set(state, &object, fd, (level, name), (value, len)) };
    if outcome.is_ok() {
        options::note_push(&state.arena().own(object.slot()), (level, name));
        tell_carrier(state, &object, fd, (level, name));
    }
    give(outcome.map(|()| 0))
}

/// Times of sending are refused before it is known whether the stream will be the kernel's: what
/// the kernel granted, a stream of ours could not keep.
///
/// # Safety
/// `value` can be read for `len` bytes, or is null.
unsafe fn refuses(
    fd: c_int,
    which: (c_int, c_int),
    (value, len): (*const c_void, socklen_t),
) -> bool {
    // (every bit asks, if the option is one that can)
    let names = options::asks_for_times_of_sending(which, -1);
    if !names || state::get().is_none() {
        return false;
    }
    // SAFETY: as the caller says.
    let number = unsafe { number(which.0, (value, len)) };
    let asks = number.is_ok_and(|number| options::asks_for_times_of_sending(which, number));
    asks && match object::find(fd).map(|object| object.kind()) {
        Some(Kind::Stream | Kind::Listener | Kind::Bound) => true,
        Some(_) => false,
        None => open::plain(fd).is_some_and(|plain| plain.stream) && !open::is_connected(fd),
    }
}

/// The carrier heeds the options of what it carries: it looks at them whenever it looks at the
/// stream. Only those that may set something free, or concern a stream on which nothing happens, it
/// has to hear of at once.
fn tell_carrier(state: &State, object: &Found, fd: c_int, which: (c_int, c_int)) {
    const AT_ONCE: [(c_int, c_int); 8] = [
        (libc::IPPROTO_TCP, libc::TCP_NODELAY),
        (libc::IPPROTO_TCP, libc::TCP_CORK),
        (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT),
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT),
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
    ];
    let slot = state.arena().own(object.slot());
    // A cork that is put in sets nothing free.
    let corks = which == (libc::IPPROTO_TCP, libc::TCP_CORK) && slot.is_on(Opt::Cork);
    if AT_ONCE.contains(&which) && !corks && slot.flags() & flags::CARRIED != 0 {
        object.stream(state, fd).tell();
    }
}

/// The value of an option: an `int`, for options of IP also a byte, or nothing, which is 0 (ip(7)).
///
/// # Safety
/// `value` can be read for `len` bytes, or is null.
unsafe fn number(level: c_int, (value, len): (*const c_void, socklen_t)) -> Outcome<c_int> {
    let short = (len as usize) < size_of::<c_int>();
    if short && level != libc::IPPROTO_IP {
        return Err(libc::EINVAL);
    }
    if len == 0 {
        return Ok(0);
    }
    // SAFETY: any bytes are a number.
    unsafe {
        match short {
            true => place::read(value.cast::<u8>()).map(c_int::from),
            false => place::read(value.cast::<c_int>()),
        }
    }
}

/// What SYN-ACKs say must be known to the carrier before the next SYN comes.
fn tell_carrier_of_listener(state: &State, object: &Found, which: (c_int, c_int)) {
    const OF_SYN_ACKS: [(c_int, c_int); 8] = [
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG),
        (libc::IPPROTO_TCP, libc::TCP_CONGESTION),
        (libc::IPPROTO_TCP, libc::TCP_FASTOPEN),
        (libc::SOL_SOCKET, libc::SO_RCVBUF),
        (libc::IPPROTO_IP, libc::IP_TTL),
        (libc::IPPROTO_IP, libc::IP_TOS),
        (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS),
        (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
    ];
    if object.kind() == Kind::Listener && OF_SYN_ACKS.contains(&which) {
        listen::announce(state, object.slot());
    }
}

/// # Safety
/// `value` can be read for `len` bytes, or is null.
unsafe fn set(
    state: &State,
    object: &Found,
    fd: c_int,
    which: (c_int, c_int),
    (value, len): (*const c_void, socklen_t),
) -> Outcome<()> {
    let slot = state.arena().own(object.slot());
    let times = [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO];
    if which.0 == libc::SOL_SOCKET && times.contains(&which.1) {
        // The kernel's sleep keeps to them.
        // SAFETY: passed on.
        let set = unsafe { real::setsockopt(fd, which.0, which.1, value, len) };
        return errno::of(set).map(|_| ());
    }
    if which == (libc::IPPROTO_TCP, libc::TCP_CONGESTION) {
        if !place::can_read(value.cast::<u8>(), len.min(16) as usize) {
            return Err(libc::EFAULT);
        }
        // SAFETY: it is there.
        let name = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), len.min(16) as usize) };
        let name = name.split(|byte| *byte == 0).next().unwrap_or(b"");
        let known = CONGESTION.iter().position(|known| known.as_bytes() == name);
        slot.set(Opt::Congestion, known.ok_or(libc::ENOENT)? as u32);
        return Ok(());
    }
    // SAFETY: as the caller says.
    let number = unsafe { number(which.0, (value, len)) }?;
    if which == (libc::SOL_SOCKET, libc::SO_LINGER) {
        if (len as usize) < size_of::<libc::linger>() {
            return Err(libc::EINVAL);
        }
        // SAFETY: long enough; any bytes are numbers.
        let linger = unsafe { place::read(value.cast::<libc::linger>()) }?;
        slot.set(Opt::LingerOn, u32::from(linger.l_onoff != 0));
        slot.set(Opt::LingerSeconds, linger.l_linger as u32);
        return Ok(());
    }
    if which == (libc::IPPROTO_IPV6, options::IPV6_ADDRFORM) {
        let connected = slot.state() == Standing::Established;
        return options::become_ipv4(&slot, connected, number);
    }
    let ours = options::find(which).is_some() || options::time_value(&slot, which).is_some();
    if which.0 == libc::SOL_SOCKET && !ours {
        // SAFETY: passed on: of the Unix socket behind the stream.
        let set = unsafe { real::setsockopt(fd, which.0, which.1, value, len) };
        return errno::of(set).map(|_| ());
    }
    options::store(&slot, which, number)
}
