//! Which sources of a group a socket wants (RFC 3376 section 3, RFC 3810 section 3, the calls of
//! RFC 3678): all but some, or none but some.
//!
//! Routers are told which single sources are wanted while no socket wants them all. What a socket
//! does not want of a group that it has joined for all stops here, not at the router.

use alloc::vec::Vec;
use core::net::IpAddr;

use super::groups::GroupError;
use crate::address::same_family;
use crate::link::LinkId;

/// Most sources in one list.
const SOURCES_MAX: usize = 64;

/// RFC 3376's filter mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// All but those in the list.
    Exclude,
    /// Those in the list alone.
    Include,
}

/// A change of a socket's list of sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceChange {
    /// One source more of a group that is joined for single sources; the first joins the group.
    Join,
    /// One less; with the last the group is left.
    Leave,
    /// Nothing more from this source of a group that is joined for all.
    Block,
    /// From this one, too, again.
    Unblock,
}

/// A group that a socket is in.
#[derive(Clone, Debug)]
pub(super) struct Joined {
    pub(super) link: LinkId,
    pub(super) group: IpAddr,
    mode: Mode,
    sources: Vec<IpAddr>,
}

impl Joined {
    pub(super) fn new(link: LinkId, group: IpAddr, mode: Mode) -> Self {
        Joined {
            link,
            group,
            mode,
            sources: Vec::new(),
        }
    }

    /// Whether what `source` sends is wanted.
    #[inline]
    pub(super) fn wants(&self, source: IpAddr) -> bool {
        self.sources.contains(&source) == (self.mode == Mode::Include)
    }

    /// The single sources it was joined for; `None`: for all.
    pub(super) fn single(&self) -> Option<&[IpAddr]> {
        (self.mode == Mode::Include).then_some(&self.sources)
    }

    /// Whether nothing can be wanted any more.
    pub(super) fn is_nothing(&self) -> bool {
        self.mode == Mode::Include && self.sources.is_empty()
    }

    /// Changes the list.
    pub(super) fn change(
        &mut self,
        change: SourceChange,
        source: IpAddr,
    ) -> Result<(), GroupError> {
        if !same_family(source, self.group) || source.is_multicast() || source.is_unspecified() {
            return Err(GroupError::NotASource);
        }
        let mode = match change {
            SourceChange::Join | SourceChange::Leave => Mode::Include,
            SourceChange::Block | SourceChange::Unblock => Mode::Exclude,
        };
        if mode != self.mode {
            return Err(GroupError::OtherMode);
        }
        let at = self.sources.iter().position(|s| *s == source);
        match (change, at) {
            (SourceChange::Join | SourceChange::Block, Some(_)) => Err(GroupError::AlreadyJoined),
            (SourceChange::Leave | SourceChange::Unblock, None) => Err(GroupError::NotJoined),
            (_, Some(at)) => {
                self.sources.swap_remove(at);
                Ok(())
            }
            (_, None) if self.sources.len() >= SOURCES_MAX => Err(GroupError::TooMany),
            (_, None) => {
                self.sources.push(source);
                Ok(())
            }
        }
    }
}
