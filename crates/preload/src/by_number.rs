//! Values by small number: a descriptor, a slot.

/// A table that grows with the largest number in it.
#[derive(Debug)]
pub(crate) struct ByNumber<T>(Vec<Option<T>>);

impl<T> Default for ByNumber<T> {
    fn default() -> Self {
        ByNumber(Vec::new())
    }
}

impl<T> ByNumber<T> {
    pub(crate) fn get(&self, n: usize) -> Option<&T> {
        self.0.get(n)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, n: usize) -> Option<&mut T> {
        self.0.get_mut(n)?.as_mut()
    }

    /// Puts a value in; gives what was there.
    pub(crate) fn insert(&mut self, n: usize, value: T) -> Option<T> {
        if n >= self.0.len() {
            self.0.resize_with(n + 1, || None);
        }
        self.0.get_mut(n)?.replace(value)
    }

    pub(crate) fn remove(&mut self, n: usize) -> Option<T> {
        self.0.get_mut(n)?.take()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.0
            .iter()
            .enumerate()
            .filter_map(|(n, value)| Some((n, value.as_ref()?)))
    }
}
