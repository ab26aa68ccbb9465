//! User lists: `userlist` sections, checked by `http_auth`.

use crate::{Diagnostic, Word};

/// Users with their passwords and groups.
#[derive(Debug, Default)]
pub struct UserList {
    name: String,
}

impl UserList {
    /// An empty list.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned() }
    }

    /// Name of the section.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `group NAME [users a,b]`: the words after `group`.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn add_group(&mut self, _words: &[Word]) -> Result<(), Vec<Diagnostic>> {
        Ok(())
    }

    /// `user NAME [password P|insecure-password P] [groups a,b]`: the words after `user`.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn add_user(&mut self, _words: &[Word]) -> Result<(), Vec<Diagnostic>> {
        Ok(())
    }
}
