//! A case: a name and what it does.

use crate::talk::Talk;

/// One row of the table.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    /// `page/what`: the manual page and what is tried.
    pub(crate) name: &'static str,
    pub(crate) run: fn(&Talk),
}

/// A row of the table.
pub(crate) const fn case(name: &'static str, run: fn(&Talk)) -> Case {
    Case { name, run }
}

/// Every case, page by page.
pub(crate) fn all() -> Vec<Case> {
    super::PAGES.concat()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_there_are_enough_of_them() {
        let mut cases = super::all();
        cases.extend(crate::faults::all());
        let names: HashSet<&str> = cases.iter().map(|case| case.name).collect();
        assert_eq!(names.len(), cases.len());
        assert!(names.len() >= 250, "{}", names.len());
    }
}
