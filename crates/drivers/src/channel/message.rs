//! The one message of the handshake, sent by each side with its memory and its doorbell attached.
//!
//! ```text
//! 0        8         12        16    20                      40     44  45              112
//! | magic  | version | refusal | pid | layout: 5 x 32 bits    | zero | n | name, padded  |
//! ```
//! Numbers are little-endian. A refusal (not 0) says why there will be no channel; it comes without
//! descriptors. Magic and version stay where they are in every version to come, the rest may move.

use super::directory::{NAME_MAX, Name};
use super::handshake::Fault;
use gannet_link::Layout;

/// Bytes in a message.
pub const BYTES: usize = 112;
/// What every message starts with.
pub const MAGIC: [u8; 8] = *b"gannetCH";
/// The version spoken here. Both sides must speak the same.
pub const VERSION: u32 = 2;

const NAME_AT: usize = 45;
const _: () = assert!(NAME_AT + NAME_MAX <= BYTES, "the longest name fits");

/// What one side says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Its name.
    pub name: Name,
    /// How its memory is laid out; valid.
    pub layout: Layout,
    /// Its process number as it sees it itself; a claim.
    pub pid: i32,
}

/// A checked message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Let us have a channel.
    Hello(Hello),
    /// There will be none; the number of the [`Fault`] the other side saw.
    Refusal(u32),
}

impl Message {
    /// As bytes.
    pub fn to_bytes(&self) -> [u8; BYTES] {
        let mut out = [0; BYTES];
        let mut put = |at: usize, bytes: &[u8]| {
            if let Some(to) = out.get_mut(at..at + bytes.len()) {
                to.copy_from_slice(bytes);
            }
        };
        put(0, &MAGIC);
        put(8, &VERSION.to_le_bytes());
        match self {
            Message::Refusal(reason) => put(12, &reason.to_le_bytes()),
            Message::Hello(Hello { name, layout, pid }) => {
                put(16, &pid.to_le_bytes());
                let Layout {
                    slots,
                    completions,
                    block_bytes,
                    blocks,
                    align,
                } = *layout;
                let figures = [slots, completions, block_bytes, blocks, align];
                for (at, figure) in (20..).step_by(4).zip(figures) {
                    put(at, &figure.to_le_bytes());
                }
                put(NAME_AT - 1, &[name.as_str().len() as u8]);
                put(NAME_AT, name.as_str().as_bytes());
            }
        }
        out
    }

    /// Checks received bytes.
    ///
    /// # Errors
    /// The first thing that is wrong with them.
    pub fn parse(bytes: &[u8]) -> Result<Message, Fault> {
        if bytes.get(..8) != Some(&MAGIC) {
            return Err(Fault::Magic);
        }
        if number(bytes, 8)? != VERSION {
            return Err(Fault::Version);
        }
        if bytes.len() != BYTES {
            return Err(Fault::Length);
        }
        let refusal = number(bytes, 12)?;
        if refusal != 0 {
            return Ok(Message::Refusal(refusal));
        }
        let layout = Layout {
            slots: number(bytes, 20)?,
            completions: number(bytes, 24)?,
            block_bytes: number(bytes, 28)?,
            blocks: number(bytes, 32)?,
            align: number(bytes, 36)?,
        };
        if !layout.is_valid() {
            return Err(Fault::Layout);
        }
        let len = usize::from(*bytes.get(NAME_AT - 1).ok_or(Fault::Length)?);
        let name = bytes.get(NAME_AT..NAME_AT + len).ok_or(Fault::Name)?;
        Ok(Message::Hello(Hello {
            name: Name::parse(name).ok_or(Fault::Name)?,
            layout,
            pid: number(bytes, 16)? as i32,
        }))
    }
}

fn number(bytes: &[u8], at: usize) -> Result<u32, Fault> {
    let four = bytes.get(at..at + 4).and_then(|b| b.try_into().ok());
    four.map(u32::from_le_bytes).ok_or(Fault::Length)
}

#[cfg(test)]
mod tests;
