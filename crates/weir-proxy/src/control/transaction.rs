//! A change that the runtime commands prepare in steps (`set`, then `commit` or `abort`): of certificates, of files
//! of authorities, of revocation lists.

/// The one change of its kind in preparation, by the name of what changes; the management manual allows one at a time.
pub(crate) struct Transaction<T>(Option<(String, T)>);

impl<T> Default for Transaction<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Transaction<T> {
    /// What is changing, and what it will be.
    pub(crate) fn current(&self) -> Option<(&str, &T)> {
        self.0.as_ref().map(|(name, content)| (name.as_str(), content))
    }

    pub(crate) fn is_about(&self, name: &str) -> bool {
        self.current().is_some_and(|(current, _)| current == name)
    }

    /// What `name` will be, for the command `verb`; nothing when no change is in preparation.
    ///
    /// # Errors
    /// Something else is changing.
    pub(crate) fn find(&self, verb: &str, name: &str) -> Result<Option<&T>, String> {
        match &self.0 {
            Some((other, _)) if other != name => Err(format!(
                "The ongoing transaction is about '{other}' but you are trying to {verb} '{name}'"
            )),
            current => Ok(current.as_ref().map(|(_, content)| content)),
        }
    }

    /// The same where a change must be there.
    ///
    /// # Errors
    /// Nothing or something else is changing.
    pub(crate) fn ongoing(&self, verb: &str, name: &str) -> Result<&T, String> {
        self.find(verb, name)?.ok_or_else(|| "No ongoing transaction!".to_owned())
    }

    /// Prepares a change, or replaces the one in preparation.
    pub(crate) fn set(&mut self, name: &str, content: T) {
        self.0 = Some((name.to_owned(), content));
    }

    /// Gives the change up.
    ///
    /// # Errors
    /// Nothing or something else is changing.
    pub(crate) fn abort(&mut self, name: &str) -> Result<(), String> {
        self.ongoing("abort", name)?;
        self.end();
        Ok(())
    }

    /// It is done, or given up.
    pub(crate) fn end(&mut self) {
        self.0 = None;
    }
}
