//! Requirements by the label that RFC 9293 gives them (MUST-1 to MUST-69, SHLD-1 to SHLD-31): one
//! label may stand at several sentences, and counts once.

use super::coverage::{Coverage, Met};
use super::spec::Spec;
use std::collections::BTreeMap;

/// The RFC that is labelled, and how many of its SHOULDs are obeyed at least.
const RFC: u32 = 9293;
const SHOULDS_OBEYED: usize = 28;

/// What became of the labels of one kind.
#[derive(Debug, Default, PartialEq, Eq)]
struct Kind {
    all: usize,
    /// With a quote in the code and one at a test.
    obeyed: usize,
    /// Not obeyed, with a written reason.
    excepted: usize,
    missing: Vec<String>,
}

/// The line to print, and what is wrong.
pub(super) fn report(specs: &BTreeMap<u32, Spec>, coverage: &Coverage) -> (String, Vec<String>) {
    let (Some(spec), Some(met)) = (specs.get(&RFC), coverage.met.get(&RFC)) else {
        return (
            String::new(),
            vec![format!("there is no specs/rfc{RFC}.toml")],
        );
    };
    let mut labels: BTreeMap<&str, Met> = BTreeMap::new();
    for (requirement, met) in spec.requirement.iter().zip(met) {
        for id in &requirement.id {
            let of = labels.entry(id).or_default();
            of.code.extend(met.code.iter().cloned());
            of.tests.extend(met.tests.iter().cloned());
            of.exception = of.exception.take().or_else(|| met.exception.clone());
        }
    }
    let musts = kind(&labels, "MUST-");
    let shoulds = kind(&labels, "SHLD-");
    let line = format!(
        "rfc{RFC}: {} of {} MUST ids ({} by a written exception), {} of {} SHOULD ids \
         ({} more by a written exception)\n",
        musts.obeyed + musts.excepted,
        musts.all,
        musts.excepted,
        shoulds.obeyed,
        shoulds.all,
        shoulds.excepted
    );
    let missing = musts.missing.iter().chain(&shoulds.missing);
    let mut errors: Vec<String> = missing
        .map(|label| {
            format!(
                "rfc{RFC} {label}: no quote in the code, or none at a test, and no exception\n    \
                 try: cargo xtask rfc --missing"
            )
        })
        .collect();
    if shoulds.obeyed < SHOULDS_OBEYED {
        errors.push(format!(
            "rfc{RFC}: {} SHOULDs are obeyed, at least {SHOULDS_OBEYED} must be",
            shoulds.obeyed
        ));
    }
    (line, errors)
}

fn kind(labels: &BTreeMap<&str, Met>, prefix: &str) -> Kind {
    let mut kind = Kind::default();
    for (label, met) in labels.iter().filter(|(label, _)| label.starts_with(prefix)) {
        kind.all += 1;
        if !met.code.is_empty() && !met.tests.is_empty() {
            kind.obeyed += 1;
        } else if met.exception.is_some() {
            kind.excepted += 1;
        } else {
            kind.missing.push((*label).to_owned());
        }
    }
    kind
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(code: bool, test: bool, exception: bool) -> Met {
        let place = |is: bool| is.then(|| "x:1".to_owned()).into_iter().collect();
        Met {
            code: place(code),
            tests: place(test),
            exception: exception.then(|| "why".to_owned()),
        }
    }

    #[test]
    fn a_label_needs_code_and_test_or_a_reason() {
        let labels = BTreeMap::from([
            ("MUST-1", met(true, true, false)),
            ("MUST-2", met(true, false, false)),
            ("MUST-3", met(false, true, false)),
            ("MUST-4", met(false, false, true)),
            ("SHLD-1", met(true, true, false)),
        ]);
        let expected = Kind {
            all: 4,
            obeyed: 1,
            excepted: 1,
            missing: vec!["MUST-2".to_owned(), "MUST-3".to_owned()],
        };
        assert_eq!(kind(&labels, "MUST-"), expected);
    }

    #[test]
    fn too_few_shoulds_are_an_error() {
        let text = "rfc = 9293\ntitle = 't'\nurl = 'u'\n[[requirement]]\nsection = '1'\n\
                    level = 'SHOULD'\nid = ['SHLD-1']\nquote = 'One.'\n";
        let specs = BTreeMap::from([(RFC, toml::from_str(text).expect("spec"))]);
        let coverage = Coverage {
            met: BTreeMap::from([(RFC, vec![met(true, true, false)])]),
            errors: Vec::new(),
        };
        let (line, errors) = report(&specs, &coverage);
        assert!(line.contains("1 of 1 SHOULD ids"), "{line}");
        assert_eq!(errors.len(), 1);
    }
}
