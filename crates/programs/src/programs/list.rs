//! All programs, in the order of the matrix.

use crate::case::Program;

/// Every program.
pub(crate) const ALL: &[&Program] = &[
    &super::iperf3::PROGRAM,
    &super::redis::PROGRAM,
    &super::nginx::PROGRAM,
    &super::postgresql::PROGRAM,
    &super::python::PROGRAM,
    &super::node::PROGRAM,
    &super::go::PROGRAM,
    &super::busybox::PROGRAM,
    &super::java::PROGRAM,
    &super::openssh::PROGRAM,
    &super::memcached::PROGRAM,
    &super::unnamed::GIT,
    &super::unnamed::BASH,
    &super::unnamed::SOCAT,
    &super::unnamed::UVICORN,
    &super::daemons::VSFTPD,
    &super::daemons::DOVECOT,
    &super::daemons::BIND,
    &super::daemons::DNSMASQ,
    &super::daemons::MARIADB,
    &super::daemons::FFMPEG,
    &super::daemons::HAPROXY,
    &super::daemons::RABBITMQ,
];

/// Whether a program has a check of this name; `*` is every check.
pub(crate) fn is_check(program: &str, check: &str) -> bool {
    let is_it = |it: &&&Program| it.name == program;
    let found = ALL.iter().find(is_it);
    found.is_some_and(|it| check == "*" || it.cases.iter().any(|case| case.name == check))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<String> = ALL
            .iter()
            .flat_map(|program| {
                let name = |case: &crate::case::Case| format!("{} {}", program.name, case.name);
                program.cases.iter().map(name)
            })
            .collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(is_check("iperf3", "*") && !is_check("iperf3", "none"));
    }

    #[test]
    fn the_list_of_what_is_known_names_checks() {
        let read = crate::known::Known::read(is_check);
        assert!(read.is_ok(), "{read:?}");
    }
}
