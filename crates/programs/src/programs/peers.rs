//! Programs of our own in several languages: all serve and call in the same way.
//!
//! * `echo-serve HOST PORT`: says `listening`, gives back what it reads
//! * `echo-call HOST PORT CONNECTIONS BYTES`: says `ok TOTAL` when all came back as it was sent
//! * `http-serve HOST PORT`, `http-call HOST PORT COUNT`: the same with HTTP; the body of the
//!   answer is that of the request

use crate::case::{Checked, Fault, expect, fine};
use crate::stage::Stage;
use std::io::Write;

/// Serves and calls: `program` are the words in front of `echo-serve`.
pub(crate) fn echo(stage: &Stage, program: &[&str]) -> Checked {
    let (count, bytes) = if stage.quick {
        ("8", "65536")
    } else {
        ("50", "1048576")
    };
    pair(stage, program, "echo", &[count, bytes])
}

/// The same with HTTP.
pub(crate) fn http(stage: &Stage, program: &[&str]) -> Checked {
    pair(
        stage,
        program,
        "http",
        &[if stage.quick { "20" } else { "200" }],
    )
}

fn pair(stage: &Stage, program: &[&str], what: &str, amount: &[&str]) -> Checked {
    let (host, port) = (stage.host(), stage.port()?);
    let (serve, call) = (format!("{what}-serve"), format!("{what}-call"));
    let server = stage.server(program).args(&[&serve, host, &port]).start()?;
    server.said("listening")?;
    let said = stage
        .client(program)
        .args(&[&call, host, &port])
        .args(amount)
        .ok()?;
    let total = said.trim().strip_prefix("ok ");
    let expected = amount
        .iter()
        .filter_map(|word| word.parse::<u64>().ok())
        .product::<u64>();
    expect(total == Some(&expected.to_string()), || {
        format!("said {said}")
    })?;
    fine()
}

/// A large file without repetitions, made once, and its size in bytes.
pub(crate) fn large_file(stage: &Stage) -> Result<(String, u64), Fault> {
    let size: u64 = if stage.quick { 256 << 20 } else { 1 << 30 };
    let path = stage.once("large", |path| write_pseudo_random(path, size))?;
    Ok((path, size))
}

/// Blocks of the same pseudo-random bytes, each page of which says where it is.
pub(crate) fn write_pseudo_random(path: &str, size: u64) -> Result<(), Fault> {
    const PAGE: usize = 4096;
    let mut file = std::fs::File::create(path)?;
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut block = Vec::with_capacity(256 * PAGE);
    while block.len() < 256 * PAGE {
        // Xorshift (Marsaglia 2003, "Xorshift RNGs").
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        block.extend(state.to_le_bytes());
    }
    let mut written = 0_u64;
    while written < size {
        for (number, page) in (0_u64..).zip(block.chunks_mut(PAGE)) {
            let place = written.wrapping_add(number.wrapping_mul(PAGE as u64));
            if let Some(head) = page.first_chunk_mut::<8>() {
                *head = place.to_le_bytes();
            }
        }
        let rest = usize::try_from(size - written).unwrap_or(usize::MAX);
        let part = block.get(..rest.min(block.len())).unwrap_or_default();
        file.write_all(part)?;
        written += part.len() as u64;
    }
    Ok(())
}
