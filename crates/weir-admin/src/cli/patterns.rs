//! Commands about maps and ACL files.

use super::{Answer, Request, Session};

macro_rules! missing {
    ($($name:ident),*) => { $(pub(crate) fn $name(_: &mut Session, _: &Request) -> Answer { Answer::missing("maps and ACL files at run time") })* };
}

missing!(
    add_acl,
    add_map,
    clear_acl,
    clear_map,
    delete_acl,
    delete_map,
    get_acl,
    get_map,
    set_map,
    show_acl,
    show_map,
    versions_missing
);
