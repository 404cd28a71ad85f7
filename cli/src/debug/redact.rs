//! What does not leave the house in a bundle: values of environments and properties, and whatever is called a secret.
//! Names stay, so that it can be seen what was set. Pure.

use serde_json::Value;

/// What stands in the place of a value.
const REDACTED: &str = "(redacted)";
/// Tables whose values are anybody's: they carry passwords more often than not.
const TABLES: [&str; 6] = [
    "env",
    "environment",
    "environment_variables",
    "properties",
    "spark_properties",
    "system_properties",
];
/// Parts of names that say what a value is.
const SECRET: [&str; 5] = ["secret", "password", "passwd", "token", "credential"];

/// Takes the secrets out of a document, at any depth.
pub(super) fn redact(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                if TABLES.contains(&name.as_str()) {
                    hide_values(field);
                } else if is_secret(name) {
                    *field = Value::from(REDACTED);
                } else {
                    redact(field);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(redact),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn hide_values(table: &mut Value) {
    match table {
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|field| *field = Value::from(REDACTED)),
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| *item = Value::from(REDACTED)),
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) | Value::String(_) => *table = Value::from(REDACTED),
    }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_lowercase();
    // A file's name is no secret: what is in it is.
    !name.ends_with("file") && SECRET.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_stay_and_values_go() {
        let mut document = json!({
            "drivers": [{
                "id": "driver-1",
                "spec": {"command": {"program": "sh", "env": {"AWS_KEY": "abc"}}, "properties": {"a": "b"}},
                "token": "xyz",
            }],
            "token-file": "/etc/token",
        });
        redact(&mut document);
        let text = document.to_string();
        for gone in ["abc", "xyz", r#""b""#] {
            assert!(!text.contains(gone), "{text}");
        }
        for kept in ["driver-1", "AWS_KEY", "sh", "/etc/token"] {
            assert!(text.contains(kept), "{text}");
        }
    }
}
