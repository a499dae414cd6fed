//! A case: a name and what it does.

use crate::talk::Talk;

/// One row of the table.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    /// `page/what`: the manual page and what is tried.
    pub(crate) name: &'static str,
    pub(crate) run: fn(&Talk),
}

impl Case {
    /// Whether two programs have no part in it: each has addresses of its own, which only its own
    /// sockets can be bound to, and datagrams have no ends.
    pub(crate) fn is_of_one_program(&self) -> bool {
        let pages = [
            "socket/",
            "socketpair/",
            "bind/",
            "udp/",
            "exec/",
            "signal/",
        ];
        // Signals interrupt calls of the own process; the others are about one address.
        let others = [
            "EINTR/",
            "SA_RESTART/",
            "ipv6/mapped-connect",
            "EMFILE/accept",
        ];
        let is = |part: &&str| self.name.starts_with(*part);
        pages.iter().any(is) || others.iter().any(is)
    }
}

/// A row of the table.
pub(crate) const fn case(name: &'static str, run: fn(&Talk)) -> Case {
    Case { name, run }
}

/// Every case, page by page; those of two programs too if there are two.
pub(crate) fn all(far: bool) -> Vec<Case> {
    let mut cases = super::PAGES.concat();
    if far {
        cases.extend(super::two::CASES);
    }
    cases
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_there_are_enough_of_them() {
        let mut cases = super::all(true);
        cases.extend(crate::faults::all());
        let names: HashSet<&str> = cases.iter().map(|case| case.name).collect();
        assert_eq!(names.len(), cases.len());
        assert!(names.len() >= 250, "{}", names.len());
    }
}
