//! What the task prints.

use super::coverage::{Coverage, Met};
use super::spec::{Level, Requirement, Spec, one_line};
use crate::explain::Explained;
use serde_json::{Value, json};
use std::collections::BTreeMap;

type Specs = BTreeMap<u32, Spec>;

/// How many requirements of one level there are and what became of them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Count {
    all: usize,
    code: usize,
    tests: usize,
    excepted: usize,
}

/// One line per RFC.
pub(super) fn table(specs: &Specs, coverage: &Coverage) -> String {
    let mut text = format!(
        "{:<8} {:>5} {:>5} {:>5} {:>7}  {:>6} {:>5} {:>5} {:>7}  title\n",
        "rfc", "MUST", "code", "test", "except", "SHOULD", "code", "test", "except"
    );
    for spec in specs.values() {
        let must = count(spec, coverage, Level::Must);
        let should = count(spec, coverage, Level::Should);
        text.push_str(&format!(
            "{:<8} {:>5} {:>5} {:>5} {:>7}  {:>6} {:>5} {:>5} {:>7}  {}\n",
            spec.rfc,
            must.all,
            must.code,
            must.tests,
            must.excepted,
            should.all,
            should.code,
            should.tests,
            should.excepted,
            spec.title
        ));
    }
    text.push_str(&format!(
        "{} quotes do not stand in specs/\n",
        coverage.errors.len()
    ));
    text
}

/// Every MUST and SHOULD with neither code nor exception, and every MUST without a test.
pub(super) fn missing(specs: &Specs, coverage: &Coverage) -> String {
    let mut text = String::new();
    for (spec, requirement, met) in pairs(specs, coverage) {
        let strong = matches!(requirement.level, Level::Must | Level::Should);
        if !strong || met.exception.is_some() {
            continue;
        }
        let lack = match (met.code.is_empty(), met.tests.is_empty(), requirement.level) {
            (true, true, _) => "nowhere",
            (true, false, _) => "no code",
            (false, true, Level::Must) => "no test",
            _ => continue,
        };
        let ids = requirement.id.join(" ");
        let quote = one_line(&requirement.quote);
        let line = format!("rfc{} {} {ids}", spec.rfc, requirement.section);
        text.push_str(&format!("{lack}: {}: {quote}\n", line.trim()));
    }
    text
}

/// The same for programs.
pub(super) fn json(specs: &Specs, coverage: &Coverage) -> Result<String, Explained> {
    let requirements: Vec<Value> = pairs(specs, coverage)
        .map(|(spec, requirement, met)| {
            json!({
                "rfc": spec.rfc,
                "section": requirement.section,
                "level": requirement.level,
                "id": requirement.id,
                "quote": one_line(&requirement.quote),
                "url": format!("{}#section-{}", spec.url, requirement.section),
                "code": met.code,
                "tests": met.tests,
                "exception": met.exception,
            })
        })
        .collect();
    let all = json!({
        "schema": "gannet/rfc/1",
        "requirements": requirements,
        "errors": coverage.errors,
    });
    serde_json::to_string_pretty(&all).map_err(|error| {
        Explained::new(
            "the report cannot be written",
            error.to_string(),
            "leave out --json",
        )
    })
}

fn count(spec: &Spec, coverage: &Coverage, level: Level) -> Count {
    let mut count = Count::default();
    let met = coverage.met.get(&spec.rfc).map_or(&[][..], Vec::as_slice);
    for (requirement, met) in spec.requirement.iter().zip(met) {
        if requirement.level == level {
            count.all += 1;
            count.code += usize::from(!met.code.is_empty());
            count.tests += usize::from(!met.tests.is_empty());
            count.excepted += usize::from(met.exception.is_some() && met.code.is_empty());
        }
    }
    count
}

fn pairs<'a>(
    specs: &'a Specs,
    coverage: &'a Coverage,
) -> impl Iterator<Item = (&'a Spec, &'a Requirement, &'a Met)> {
    specs.values().flat_map(|spec| {
        let met = coverage.met.get(&spec.rfc).map_or(&[][..], Vec::as_slice);
        spec.requirement
            .iter()
            .zip(met)
            .map(move |(requirement, met)| (spec, requirement, met))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lacks_code_or_test_is_listed() {
        let entry = |level: &str, name: &str| {
            format!("[[requirement]]\nsection = '1'\nlevel = '{level}'\nquote = '{name}.'\n")
        };
        let text = format!(
            "rfc = 7\ntitle = 't'\nurl = 'u'\n{}{}{}{}{}",
            entry("MUST", "Both"),
            entry("MUST", "Code only"),
            entry("SHOULD", "Nothing"),
            entry("MAY", "Left free"),
            entry("MUST", "Excepted"),
        );
        let specs: Specs = BTreeMap::from([(7, toml::from_str(&text).expect("spec"))]);
        let code = Met {
            code: vec!["x:1".to_owned()],
            ..Met::default()
        };
        let both = Met {
            tests: vec!["x:2".to_owned()],
            ..code.clone()
        };
        let excepted = Met {
            exception: Some("no".to_owned()),
            ..Met::default()
        };
        let met = vec![both, code, Met::default(), Met::default(), excepted];
        let coverage = Coverage {
            met: BTreeMap::from([(7, met)]),
            errors: Vec::new(),
        };
        let expected = "no test: rfc7 1: Code only.\nnowhere: rfc7 1: Nothing.\n";
        assert_eq!(missing(&specs, &coverage), expected);
        let must = Count {
            all: 3,
            code: 2,
            tests: 1,
            excepted: 1,
        };
        assert_eq!(count(&specs[&7], &coverage, Level::Must), must);
    }
}
