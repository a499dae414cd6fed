//! A TUN or TAP device: the kernel of this machine, a container or a virtual machine at the other
//! end. What the kernel sends into the interface comes out here, and the other way round.
//!
//! * `device.rs`: [`TapDriver`]: making or taking over a device, capabilities, state.
//! * `sys.rs`: the requests of `/dev/net/tun`.

mod device;
mod sys;

pub use device::{Kind, Options, TapDevice, TapDriver};
