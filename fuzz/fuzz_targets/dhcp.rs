//! Any bytes as a DHCP message, and as the answers that a client gets: the first byte of each chunk
//! says whether it is taken as it is or made to look as if it were for the client.
#![no_main]

use gannet_base::Instant;
use gannet_stack::DhcpConfig;
use gannet_stack::dhcp::{Action, Client};
use gannet_wire::MacAddr;
use gannet_wire::dhcpv4::{Header, MAX_LEN};
use libfuzzer_sys::fuzz_target;

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

fuzz_target!(|data: &[u8]| {
    if let Ok((header, options)) = Header::parse(data) {
        let options: Vec<_> = options.collect();
        let mut out = vec![0; 4096];
        if let Some(len) = header.emit(&options, &mut out) {
            let (again, found) = Header::parse(&out[..len]).expect("what we wrote");
            assert_eq!(again, header);
            assert!(found.eq(options));
        }
    }
    let mut client = Client::new(DhcpConfig::default(), (MAC, None), 1, None);
    let mut now = Instant::from_millis(1);
    for chunk in data.chunks(300) {
        let mut xid = [0; 4];
        let mut out = [0; MAX_LEN];
        let mut actions = 0;
        while let Some(action) = client.poll(now, &mut out) {
            actions += 1;
            assert!(actions < 8, "runs in circles");
            if let Action::Send { .. } = action {
                xid.copy_from_slice(&out[4..8]);
            }
        }
        let mut message = vec![2, 1, 6, 0];
        message.extend(xid);
        message.resize(28, 0);
        message.extend(MAC.0);
        message.resize(236, 0);
        message.extend([99, 130, 83, 99]);
        if let [kind, addresses @ .., last] = chunk {
            message[16..20].fill(*last);
            message.extend([53, 1, kind % 8, 54, 4, 10, 0, 0, 1]);
            message.extend(addresses);
        }
        let _ = client.arrives(now, &message);
        let _ = client.arrives(now, chunk);
        if let Some(lease) = client.lease() {
            assert!(lease.renew_at <= lease.rebind_at && lease.rebind_at <= lease.expires_at);
        }
        if let Some(due) = client.due() {
            now = now.max(due);
        }
    }
});
