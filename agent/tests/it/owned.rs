//! Processes that end with the test that has started them, also when it panics.

use std::{
    ops::{Deref, DerefMut},
    process::{Child, Command},
};

/// A child; dropping it kills it.
pub(crate) struct Owned(Child);

impl Owned {
    pub(crate) fn spawn(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }
}

impl Deref for Owned {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Owned {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
