//! Requirements and quotes put together.

use super::annotation::Annotation;
use super::spec::{Mismatch, Spec, one_line, toml_files};
use crate::explain::Explained;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Requirements that are not obeyed, and why: `specs/exceptions/*.toml`. One sentence by section
/// and quote, whole sections, or several sentences by how they begin.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Exception {
    rfc: u32,
    #[serde(default)]
    section: String,
    #[serde(default)]
    quote: String,
    /// Sections of which nothing is asked of us beyond what the code quotes; `6.2*` for all below.
    #[serde(default)]
    sections: Vec<String>,
    /// Beginnings of sentences, of any section.
    #[serde(default)]
    starts: Vec<String>,
    reason: String,
    #[serde(skip)]
    path: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExceptionFile {
    #[serde(default)]
    exception: Vec<Exception>,
}

/// Where one requirement is met.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Met {
    /// `file:line` of the code.
    pub(super) code: Vec<String>,
    /// `file:line name` of the tests.
    pub(super) tests: Vec<String>,
    /// Why it is not met on purpose.
    pub(super) exception: Option<String>,
}

/// What became of every requirement and every quote.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    /// Per RFC, one entry per requirement, in the order of the spec.
    pub(super) met: BTreeMap<u32, Vec<Met>>,
    pub(super) errors: Vec<String>,
}

/// Reads every file of `specs/exceptions/`.
pub(super) fn load_exceptions(root: &Path) -> Result<Vec<Exception>, Explained> {
    let mut all = Vec::new();
    for (path, text) in toml_files(&root.join("specs/exceptions"))? {
        let file: ExceptionFile = toml::from_str(&text).map_err(|error| {
            Explained::new(
                format!("{path} cannot be used"),
                error.to_string(),
                "mend the file",
            )
        })?;
        let named = file.exception.into_iter();
        all.extend(named.map(|exception| Exception {
            path: path.clone(),
            ..exception
        }));
    }
    Ok(all)
}

/// Finds the requirements of each quote and each exception.
pub(super) fn join(
    specs: &BTreeMap<u32, Spec>,
    annotations: &[Annotation],
    exceptions: &[Exception],
) -> Coverage {
    let met = |spec: &Spec| vec![Met::default(); spec.requirement.len()];
    let met = specs.iter().map(|(&rfc, spec)| (rfc, met(spec))).collect();
    let mut coverage = Coverage {
        met,
        errors: Vec::new(),
    };
    for annotation in annotations {
        let place = format!("{}:{}", annotation.path, annotation.line);
        let Some(rfc) = annotation.rfc else {
            let error = "the address is not that of an RFC";
            coverage
                .errors
                .push(format!("{place}: {error}\n    try: see xtask/src/rfc.rs"));
            continue;
        };
        if annotation.is_test && annotation.test.is_none() && !annotation.quote.is_empty() {
            let what = format!("{place}: this stands at no test\n    try: put it above `#[test]`");
            coverage.errors.push(what);
        }
        let place = match &annotation.test {
            Some(test) => format!("{place} {test}"),
            None => place,
        };
        for met in coverage.find(specs, &place, rfc, (&annotation.section, &annotation.quote)) {
            let list = if annotation.is_test {
                &mut met.tests
            } else {
                &mut met.code
            };
            list.push(place.clone());
        }
    }
    for exception in exceptions {
        coverage.except(specs, exception);
    }
    coverage
}

impl Coverage {
    /// Marks what an exception is about; what the code quotes all the same stays what it is.
    fn except(&mut self, specs: &BTreeMap<u32, Spec>, exception: &Exception) {
        let Exception {
            rfc,
            section,
            quote,
            sections,
            starts,
            reason,
            path,
        } = exception;
        if reason.trim().is_empty() {
            let what = format!("{path}: an exception without a reason: {section}{sections:?}");
            self.errors.push(what);
        }
        if !quote.is_empty() {
            for met in self.find(specs, path, *rfc, (section, quote)) {
                met.exception = Some(one_line(reason));
            }
        }
        let Some(spec) = specs.get(rfc) else {
            self.errors
                .push(format!("{path}: there is no specs/rfc{rfc}.toml"));
            return;
        };
        let ways = sections.iter().map(|name| (name, spec.of_section(name)));
        for (words, found) in ways.chain(starts.iter().map(|start| (start, spec.starting(start)))) {
            if found.is_empty() {
                let what = format!("{path}: nothing of specs/rfc{rfc}.toml is meant by: {words}");
                self.errors.push(what);
            }
            let all = self.met.get_mut(rfc).into_iter().flatten().enumerate();
            for (_, met) in all.filter(|(at, met)| found.contains(at) && met.code.is_empty()) {
                met.exception = Some(one_line(reason));
            }
        }
    }

    /// The requirements that a quote is about; an error is noted if there is no such sentence.
    fn find(
        &mut self,
        specs: &BTreeMap<u32, Spec>,
        place: &str,
        rfc: u32,
        (section, quote): (&str, &str),
    ) -> impl Iterator<Item = &mut Met> {
        let found = match specs.get(&rfc) {
            // An address alone names the section; it claims no sentence.
            Some(_) if quote.trim().is_empty() => Ok(Vec::new()),
            Some(spec) => spec
                .find(section, quote)
                .map_err(|why| explain(rfc, section, &why)),
            None => Err(format!(
                "there is no specs/rfc{rfc}.toml\n    try: cargo xtask rfc extract rfc{rfc}.txt"
            )),
        };
        let found = found.unwrap_or_else(|error| {
            let quote = one_line(quote);
            self.errors
                .push(format!("{place}: {error}\n    quote: {quote}"));
            Vec::new()
        });
        let all = self.met.get_mut(&rfc).into_iter().flatten().enumerate();
        all.filter(move |(index, _)| found.contains(index))
            .map(|(_, met)| met)
    }
}

fn explain(rfc: u32, section: &str, why: &Mismatch) -> String {
    let what = format!("this does not stand in section {section} of specs/rfc{rfc}.toml");
    match why {
        Mismatch::Elsewhere(other) => format!("{what}\n    try: it stands in section {other}"),
        Mismatch::Nowhere(Some(near)) => format!("{what}\n    try: {near}"),
        Mismatch::Nowhere(None) => {
            format!("{what}\n    try: quote a requirement sentence word for word")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotation(line: usize, rfc: Option<u32>, is_test: bool, quote: &str) -> Annotation {
        let (path, section, quote) = ("x.rs".to_owned(), "1".to_owned(), quote.to_owned());
        Annotation {
            path,
            line,
            rfc,
            section,
            is_test,
            test: is_test.then(|| "proof".to_owned()),
            quote,
        }
    }

    #[test]
    fn quotes_are_counted_and_wrong_ones_reported() {
        let text = "rfc = 7\ntitle = 't'\nurl = 'u'\n\
            [[requirement]]\nsection = '1'\nlevel = 'MUST'\nquote = 'Hosts MUST count.'\n\
            [[requirement]]\nsection = '1'\nlevel = 'MUST'\nquote = 'Hosts MUST rest.'\n";
        let specs = BTreeMap::from([(7, toml::from_str(text).expect("spec of the test"))]);
        let annotations = [
            annotation(1, Some(7), false, "Hosts MUST\ncount."),
            annotation(2, Some(7), true, "Hosts MUST count."),
            annotation(3, Some(7), false, ""),
            annotation(4, Some(7), false, "Hosts MUST run."),
            annotation(5, Some(8), false, "Hosts MUST count."),
            annotation(6, None, false, "Hosts MUST count."),
        ];
        let file =
            "[[exception]]\nrfc = 7\nsection = '1'\nquote = 'Hosts MUST rest.'\nreason = 'no'\n";
        let file: ExceptionFile = toml::from_str(file).expect("exceptions of the test");
        let coverage = join(&specs, &annotations, &file.exception);
        let first = Met {
            code: vec!["x.rs:1".to_owned()],
            tests: vec!["x.rs:2 proof".to_owned()],
            exception: None,
        };
        let second = Met {
            exception: Some("no".to_owned()),
            ..Met::default()
        };
        assert_eq!(coverage.met.get(&7), Some(&vec![first, second]));
        let places: Vec<_> = coverage
            .errors
            .iter()
            .filter_map(|e| e.split(": ").next())
            .collect();
        assert_eq!(places, ["x.rs:4", "x.rs:5", "x.rs:6"]);
    }
}
