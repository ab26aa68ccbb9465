//! User lists: `userlist` sections, checked by `http_auth`.
//!
//! Owns users, groups and comparing passwords; leaves hashing to `crypt`.

use std::collections::BTreeMap;

use crate::data::crypt;
use crate::{Diagnostic, Pos, Word};

/// Users with their passwords and groups.
#[derive(Debug, Default)]
pub struct UserList {
    name: String,
    users: BTreeMap<Box<[u8]>, User>,
    groups: Vec<Box<[u8]>>,
    /// Users named by groups before they are defined.
    members: Vec<Member>,
}

/// A user's name and the group it is in.
type Member = (Box<[u8]>, Box<[u8]>);

/// A user.
#[derive(Debug)]
pub struct User {
    /// Name.
    pub name: Box<[u8]>,
    /// Groups.
    pub groups: Vec<Box<[u8]>>,
    password: Password,
}

#[derive(Debug)]
enum Password {
    /// Nobody can log in.
    None,
    Plain(Box<[u8]>),
    Hashed(Box<str>),
}

impl UserList {
    /// An empty list.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
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
    pub fn add_group(&mut self, words: &[Word]) -> Result<(), Vec<Diagnostic>> {
        let Some((name, rest)) = words.split_first() else {
            return Err(vec![Diagnostic::error(Pos::default(), "'group' needs a name")]);
        };
        if self.groups.iter().any(|g| **g == *name.text) {
            return Err(vec![Diagnostic::error(
                name.pos,
                format!("group '{}' is defined twice", name.as_str()),
            )]);
        }
        self.groups.push(name.text.as_slice().into());
        match rest {
            [] => {}
            [keyword, users] if *keyword == "users" => {
                for user in users.text.split(|b| *b == b',').filter(|u| !u.is_empty()) {
                    match self.users.get_mut(user) {
                        Some(known) => known.groups.push(name.text.as_slice().into()),
                        None => self.members.push((user.into(), name.text.as_slice().into())),
                    }
                }
            }
            [other, ..] => return Err(vec![Diagnostic::unknown("word of 'group'", other, ["users"])]),
        }
        Ok(())
    }

    /// `user NAME [password P|insecure-password P] [groups a,b]`: the words after `user`.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn add_user(&mut self, words: &[Word]) -> Result<(), Vec<Diagnostic>> {
        let Some((name, mut rest)) = words.split_first() else {
            return Err(vec![Diagnostic::error(Pos::default(), "'user' needs a name")]);
        };
        let key: Box<[u8]> = name.text.as_slice().into();
        if self.users.contains_key(&key) {
            return Err(vec![Diagnostic::error(
                name.pos,
                format!("user '{}' is defined twice", name.as_str()),
            )]);
        }
        let mut user = User { name: key.clone(), groups: vec![], password: Password::None };
        while let [keyword, value, more @ ..] = rest {
            match keyword.text.as_slice() {
                b"insecure-password" => user.password = Password::Plain(value.text.as_slice().into()),
                b"password" => {
                    let hash = value.as_str();
                    crypt::check_format(&hash).map_err(|e| vec![Diagnostic::error(value.pos, e)])?;
                    user.password = Password::Hashed(hash.as_ref().into());
                }
                b"groups" => user
                    .groups
                    .extend(value.text.split(|b| *b == b',').filter(|g| !g.is_empty()).map(Into::into)),
                _ => {
                    let known = ["password", "insecure-password", "groups"];
                    return Err(vec![Diagnostic::unknown("word of 'user'", keyword, known)]);
                }
            }
            rest = more;
        }
        if let [extra] = rest {
            return Err(vec![Diagnostic::error(extra.pos, format!("'{}' needs a value", extra.as_str()))]);
        }
        user.groups
            .extend(self.members.iter().filter(|(member, _)| *member == key).map(|(_, group)| group.clone()));
        self.users.insert(key, user);
        Ok(())
    }

    /// The user with this name and password.
    pub(crate) fn check(&self, name: &[u8], password: &[u8]) -> Option<&User> {
        let user = self.users.get(name)?;
        let good = match &user.password {
            Password::None => false,
            Password::Plain(known) => {
                aws_lc_rs::constant_time::verify_slices_are_equal(known, password).is_ok()
            }
            Password::Hashed(hash) => crypt::verify(hash, password),
        };
        good.then_some(user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<Word> {
        line.split(' ').map(|w| Word { text: w.as_bytes().to_vec(), ..Word::default() }).collect()
    }

    #[test]
    fn users_and_groups() {
        let mut list = UserList::new("l");
        list.add_group(&words("G1 users tiger,scott")).expect("group");
        list.add_user(&words("tiger insecure-password secret groups G2")).expect("user");
        let check = |name: &str, password: &str, groups: Option<&[&str]>| {
            let user = list.check(name.as_bytes(), password.as_bytes());
            let got = user.map(|u| {
                u.groups.iter().map(|g| String::from_utf8_lossy(g).into_owned()).collect::<Vec<_>>()
            });
            assert_eq!(got, groups.map(|g| g.iter().map(|s| (*s).to_owned()).collect()), "{name}");
        };
        check("tiger", "secret", Some(&["G2", "G1"]));
        check("tiger", "wrong", None);
        check("scott", "x", None);
    }
}
