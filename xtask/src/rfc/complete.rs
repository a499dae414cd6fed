//! RFCs of which every MUST is quoted in the code or excepted with a reason: they stay so.

use super::coverage::Coverage;
use super::spec::{Level, Spec, one_line};
use std::collections::BTreeMap;

/// The RFCs. One is added when its last MUST has found its place.
const COMPLETE: [u32; 46] = [
    768, 791, 792, 826, 894, 1071, 1122, 1191, 1624, 1812, 2018, 2131, 2236, 2883, 3376, 3522,
    3810, 4443, 4861, 4862, 5095, 5227, 5681, 5682, 5722, 5927, 5961, 6056, 6298, 6437, 6528, 6633,
    6675, 6724, 6864, 6928, 6937, 6980, 7217, 7323, 7413, 8200, 8201, 8257, 8961, 8985,
];

/// MUSTs of these RFCs that nothing obeys and nothing excepts.
pub(super) fn errors(specs: &BTreeMap<u32, Spec>, coverage: &Coverage) -> Vec<String> {
    let mut errors = Vec::new();
    for rfc in COMPLETE {
        let (Some(spec), Some(met)) = (specs.get(&rfc), coverage.met.get(&rfc)) else {
            errors.push(format!("there is no specs/rfc{rfc}.toml"));
            continue;
        };
        for (requirement, met) in spec.requirement.iter().zip(met) {
            let obeyed = !met.code.is_empty() || met.exception.is_some();
            if requirement.level == Level::Must && !obeyed {
                let quote = one_line(&requirement.quote);
                errors.push(format!(
                    "rfc{rfc} {}: neither quoted in the code nor excepted\n    quote: {quote}",
                    requirement.section
                ));
            }
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rfc::coverage::Met;

    #[test]
    fn a_must_that_lost_its_place_is_an_error() {
        let text = "rfc = 768\ntitle = 't'\nurl = 'u'\n\
            [[requirement]]\nsection = '1'\nlevel = 'MUST'\nquote = 'One MUST.'\n\
            [[requirement]]\nsection = '1'\nlevel = 'MUST'\nquote = 'Two MUST.'\n\
            [[requirement]]\nsection = '1'\nlevel = 'SHOULD'\nquote = 'It SHOULD.'\n";
        let specs = BTreeMap::from([(768, toml::from_str(text).expect("spec"))]);
        let quoted = Met {
            code: vec!["x:1".to_owned()],
            ..Met::default()
        };
        let coverage = Coverage {
            met: BTreeMap::from([(768, vec![quoted, Met::default(), Met::default()])]),
            errors: Vec::new(),
        };
        let errors = errors(&specs, &coverage);
        assert_eq!(
            errors.len(),
            COMPLETE.len(),
            "one sentence, and the specs that are not there"
        );
        assert!(errors[0].contains("Two MUST."), "{}", errors[0]);
    }
}
