//! What `linemate check` found, as SARIF 2.1.0 (OASIS, 2020): the log that code hosts show beside the lines of a change.
//!
//! A kernel image has no lines to point at, so that a finding is located at its rule.

use std::path::{Component, Path};

use linemate_rules::{Finding, RuleKind, Verdict};
use serde_json::{Value, json};

use super::{Kernel, Report};

pub(super) fn log(report: &Report<'_>) -> Value {
    let rules: Vec<Value> = RuleKind::ALL.iter().map(|kind| rule(*kind)).collect();
    let uri = uri(report.rules);
    let results: Vec<Value> = report
        .findings()
        .map(|(kernel, finding, verdict)| result(&uri, kernel, finding, verdict))
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "linemate",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            } },
            "columnKind": "unicodeCodePoints",
            "results": results,
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

fn result(uri: &str, kernel: &Kernel, finding: &Finding, verdict: Option<Verdict>) -> Value {
    let place = kernel.place();
    let because = match &finding.reason {
        Some(reason) => format!(" Because {reason}"),
        None => String::new(),
    };
    let text = format!(
        "{}, {}: {} ({}, lines of {} bytes).{because}",
        finding.subject,
        finding.rule,
        finding.fault,
        kernel.title(),
        kernel.line.bytes()
    );
    let key = format!(
        "{}/{}/{}/{}",
        place.arch,
        place.line.bytes(),
        finding.subject,
        finding.rule
    );
    let index = RuleKind::ALL.iter().position(|kind| *kind == finding.kind);
    let mut result = json!({
        "ruleId": finding.kind.name(),
        "ruleIndex": index,
        "level": "error",
        "message": { "text": text },
        "locations": [{ "physicalLocation": {
            "artifactLocation": { "uri": uri },
            "region": { "startLine": finding.at.line, "startColumn": finding.at.column },
        } }],
        "partialFingerprints": { "linemateRule/v1": key },
    });
    let state = match verdict {
        None => return result,
        Some(Verdict::New) => "new",
        Some(Verdict::Worse) => "updated",
        Some(Verdict::Accepted) => "unchanged",
    };
    result["baselineState"] = json!(state);
    if verdict == Some(Verdict::Accepted) {
        result["level"] = json!("note");
        result["suppressions"] =
            json!([{ "kind": "external", "justification": "in the baseline" }]);
    }
    result
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
