//! Any bytes as an IPv6 packet, as ICMPv6, neighbour discovery, MLD and IGMP.
#![no_main]

use gannet_wire::extension::{Chain, MAX_HEADERS};
use gannet_wire::icmpv6::{self, Quoted};
use gannet_wire::{checksum, igmp, ipv6, mld, nd, pretty};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok((header, len)) = ipv6::Header::parse(data) {
        let mut out = [0; ipv6::HEADER_LEN];
        assert_eq!(header.emit(&mut out), Some(len));
        assert_eq!(out, data[..len]);
        if let Ok(chain) = Chain::parse(data) {
            assert!(chain.payload_at <= data.len());
            assert!(chain.payload_at <= len + MAX_HEADERS * 2048);
            let payload = &data[chain.payload_at..];
            let _ = icmpv6::Message::parse(payload, header.src, header.dst);
        }
    }
    if let Ok((message, options)) = nd::Message::parse(data) {
        let options: Vec<_> = options.collect();
        assert!(options.len() <= data.len() / 8);
        let mut out = vec![0; data.len()];
        let any = std::net::Ipv6Addr::UNSPECIFIED;
        let len = message
            .emit(any, any, &options, &mut out)
            .expect("as long as it came");
        let (again, found) = nd::Message::parse(&out[..len]).expect("what we wrote");
        assert_eq!(again, message);
        assert!(found.count() <= options.len());
    }
    let _ = Quoted::parse(data);
    if let Ok(mld::Message::ReportV2(records)) = mld::Message::parse(data) {
        assert!(records.map(|r| r.sources.count()).sum::<usize>() <= data.len());
    }
    let mut sealed = data.to_vec();
    if let Some(field) = sealed.get_mut(2..4) {
        field.fill(0);
        let sum = checksum::sum(&sealed).finish();
        sealed[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    if let Ok(igmp::Message::ReportV3(records)) = igmp::Message::parse(&sealed) {
        assert!(records.map(|r| r.sources.count()).sum::<usize>() <= data.len());
    }
    let _ = pretty::ipv6(data).to_string();
});
