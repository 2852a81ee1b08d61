//! What `linemate check` found, as SARIF 2.1.0 (OASIS, 2020): the log that code hosts show next to
//! the lines of a change.
//!
//! A finding is located where the source declares what is wrong: hosts show what is on lines that
//! a change touches, and it does not touch the rules. A kernel image has no such lines; there a
//! finding is located at its rule.

use std::path::{Component, Path, PathBuf};

use linemate_answers::{BrokenRule, CheckDocument, CheckedKernel, DeclaredPlace};
use linemate_rules::RuleKind;
use serde_json::{Value, json};

/// The findings as a SARIF log, made by version `tool`. `source`: the file of a declaration, as the
/// log is to name it; `None` if it is none of the project's.
#[must_use]
pub fn sarif(
    document: &CheckDocument,
    tool: &str,
    source: impl Fn(&DeclaredPlace) -> Option<PathBuf>,
) -> Value {
    let rules: Vec<Value> = RuleKind::ALL.iter().map(|kind| rule(*kind)).collect();
    let rules_uri = uri(Path::new(&document.rules));
    let results = document.kernels.iter().flat_map(|kernel| {
        let findings = kernel.findings.iter();
        let (rules_uri, source) = (&rules_uri, &source);
        findings.map(move |finding| {
            let declared = finding.declared.as_ref();
            let declared = declared.and_then(|at| Some(place(&uri(&source(at)?), at.line, None)));
            let rule = place(rules_uri, finding.at.line, Some(finding.at.column));
            located(result(kernel, finding), rule, declared)
        })
    });
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "linemate",
                "version": tool,
                "rules": rules,
            } },
            "columnKind": "unicodeCodePoints",
            "results": results.collect::<Vec<Value>>(),
        }],
    })
}

fn rule(kind: RuleKind) -> Value {
    json!({
        "id": kind.name(),
        "shortDescription": { "text": kind.asks() },
        "defaultConfiguration": { "level": "error" },
    })
}

fn result(kernel: &CheckedKernel, finding: &BrokenRule) -> Value {
    let because = match &finding.reason {
        Some(reason) => format!(" Because {reason}"),
        None => String::new(),
    };
    let text = format!(
        "{}, {}: {} ({}, lines of {} bytes).{because}",
        finding.subject,
        finding.rule,
        finding.message,
        kernel.title(),
        kernel.line
    );
    // By what a baseline identifies a finding: it stays the same one when its figures or the
    // kernel's version change.
    let key = format!(
        "{}/{}/{}/{}",
        kernel.arch.as_deref().unwrap_or("any"),
        kernel.line,
        finding.subject,
        finding.rule
    );
    let index = RuleKind::ALL.iter().position(|k| k.name() == finding.kind);
    let mut result = json!({
        "ruleId": finding.kind,
        "ruleIndex": index,
        "level": "error",
        "message": { "text": text },
        "partialFingerprints": { "linemateRule/v1": key },
    });
    let state = match finding.verdict.as_deref() {
        None => return result,
        Some("new") => "new",
        Some("worse") => "updated",
        Some(_) => "unchanged",
    };
    result["baselineState"] = json!(state);
    if finding.is_accepted() {
        result["level"] = json!("note");
        result["suppressions"] =
            json!([{ "kind": "external", "justification": "in the baseline" }]);
    }
    result
}

/// The result, at the declaration if it has one, else at the rule.
fn located(mut result: Value, mut rule: Value, declared: Option<Value>) -> Value {
    let Some(declared) = declared else {
        result["locations"] = json!([rule]);
        return result;
    };
    result["locations"] = json!([declared]);
    rule["message"] = json!({ "text": "The rule." });
    result["relatedLocations"] = json!([rule]);
    result
}

fn place(uri: &str, line: u32, column: Option<u32>) -> Value {
    let mut region = json!({ "startLine": line });
    if let Some(column) = column {
        region["startColumn"] = json!(column);
    }
    json!({ "physicalLocation": { "artifactLocation": { "uri": uri }, "region": region } })
}

/// The path as a relative or `file:` URI, percent-encoded (RFC 3986).
fn uri(path: &Path) -> String {
    let mut pieces = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => pieces.push(encoded(&name.to_string_lossy())),
            Component::ParentDir => pieces.push("..".to_owned()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    let joined = pieces.join("/");
    match path.is_absolute() {
        true => format!("file:///{joined}"),
        false => joined,
    }
}

fn encoded(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                text.push(char::from(byte));
            }
            byte => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}
