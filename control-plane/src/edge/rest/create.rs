//! `CreateSubmissionRequest` → a checked driver.
//!
//! Pure. Accepts what Spark's server accepts (numbers and flags for texts in properties, environment and
//! arguments; unknown fields, which are named in the answer), and refuses with the field, its value and the
//! fix. Nothing of this master's own environment ever enters a submission: Spark's `{{NAME}}` placeholders
//! stay as they are.

use std::collections::BTreeMap;

use interrex_core::{ids::RequestId, spec::DriverSpec};
use interrex_proto::v1;
use serde_json::{Map, Value};

use super::{errors::RestError, properties};
use crate::edge::{
    convert::{self, SUBMISSION_ID_PROPERTY},
    validate::{self, FieldError, shown},
};

/// The one action of this endpoint.
const ACTION: &str = "CreateSubmissionRequest";
/// Spark's other messages: valid, but not here.
const OTHER_ACTIONS: [&str; 10] = [
    "CreateSubmissionResponse",
    "KillSubmissionRequest",
    "KillSubmissionResponse",
    "KillAllSubmissionRequest",
    "KillAllSubmissionResponse",
    "SubmissionStatusRequest",
    "SubmissionStatusResponse",
    "ClearResponse",
    "ReadyzResponse",
    "ErrorResponse",
];
/// Variables of the client's machine that Spark's server drops.
const DROPPED_VARIABLES: [&str; 2] = ["SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME"];

/// A submission, ready to be handed to the leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Create {
    /// The client's id, or a fresh one.
    pub request: RequestId,
    /// What to run.
    pub spec: DriverSpec,
    /// Fields that were not understood.
    pub unknown_fields: Vec<String>,
}

/// The fields of a request, by name.
struct Fields(Map<String, Value>);

// === impl Create ===

impl Create {
    /// Checks a body. `key` is the `Idempotency-Key` header; `fresh` makes an id where the client gave none.
    ///
    /// # Errors
    /// 400 or 413, naming the field.
    pub fn parse(
        body: &[u8],
        key: Option<&str>,
        fresh: impl FnOnce() -> String,
    ) -> Result<Self, RestError> {
        let mut fields = Fields::parse(body)?;
        fields.check_action()?;
        let properties = fields.texts("sparkProperties")?;
        let asked = properties
            .as_ref()
            .and_then(|p| p.get(SUBMISSION_ID_PROPERTY));
        let request = request_id(key, asked.map(String::as_str))?.unwrap_or_else(fresh);
        let message = match fields.0.contains_key("command") {
            true => plain(&mut fields, &properties.unwrap_or_default())?,
            false => spark(&mut fields, properties)?,
        };
        let spec = convert::driver_spec(message).map_err(in_rest_words)?;
        let unknown_fields = fields.unknown();
        Ok(Self {
            request: RequestId::from(request),
            spec,
            unknown_fields,
        })
    }
}

/// The extension: a plain program instead of a Spark application.
fn plain(
    fields: &mut Fields,
    properties: &BTreeMap<String, String>,
) -> Result<v1::DriverSpec, RestError> {
    let mut command = fields.list("command")?.unwrap_or_default().into_iter();
    let Some(program) = command.next() else {
        return Err(field(
            "command",
            "is empty; give a program and its arguments",
        ));
    };
    for other in ["appResource", "mainClass"] {
        let value = fields.text(other)?.unwrap_or_default();
        if !value.is_empty() {
            let reason = format!(
                "{} is set beside `command`; set only one of them",
                shown(&value)
            );
            return Err(field(other, reason));
        }
    }
    let mut args: Vec<String> = command.collect();
    args.extend(fields.list("appArgs")?.unwrap_or_default());
    fields.text("clientSparkVersion")?;
    let file = program.rsplit('/').next().unwrap_or_default().to_owned();
    let env = fields.environment()?;
    let line = v1::CommandLine { program, args, env };
    properties::driver(properties, &file, user(&line.env)).map(|spec| v1::DriverSpec {
        command: Some(line),
        ..spec
    })
}

/// Spark's own form, kept as it came.
fn spark(
    fields: &mut Fields,
    properties: Option<BTreeMap<String, String>>,
) -> Result<v1::DriverSpec, RestError> {
    let client_spark_version = fields.required("clientSparkVersion")?;
    let app_resource = fields.required("appResource")?;
    let Some(main_class) = fields.text("mainClass")?.filter(|class| !class.is_empty()) else {
        return Err(RestError::bad_request(
            "Main class is missing. Set `mainClass`, or `command` for a plain program.",
        ));
    };
    let Some(properties) = properties else {
        return Err(field(
            "sparkProperties",
            "is missing; give an object, it may be {}",
        ));
    };
    let spark = v1::SparkSubmission {
        app_args: fields.list("appArgs")?.unwrap_or_default(),
        environment: fields.environment()?,
        app_resource,
        client_spark_version,
        main_class,
        spark_properties: properties,
    };
    let spec = properties::driver(
        &spark.spark_properties,
        &spark.main_class,
        user(&spark.environment),
    )?;
    Ok(v1::DriverSpec {
        spark: Some(spark),
        ..spec
    })
}

/// Who submits: what Spark's client puts into the environment. A claim, not a proof.
fn user(environment: &BTreeMap<String, String>) -> &str {
    environment
        .get("SPARK_USER")
        .map(String::as_str)
        .unwrap_or_default()
}

/// The client's id, from the header or the property; both may be given if they agree.
pub(super) fn request_id(
    key: Option<&str>,
    property: Option<&str>,
) -> Result<Option<String>, RestError> {
    const PROPERTY: &str = "sparkProperties.spark.interrex.submissionId";
    // The header is a quoted string where a client follows the standard to the letter.
    let key = key.map(|key| {
        key.strip_prefix('"')
            .and_then(|k| k.strip_suffix('"'))
            .unwrap_or(key)
    });
    if let Some(key) = key {
        validate::request_id("Idempotency-Key", key)?;
    }
    if let Some(property) = property {
        validate::request_id(PROPERTY, property)?;
    }
    match (key, property) {
        (Some(key), Some(property)) if key != property => Err(field(
            "Idempotency-Key",
            format!(
                "{} differs from {PROPERTY} {}; give one of them",
                shown(key),
                shown(property)
            ),
        )),
        (Some(id), _) | (None, Some(id)) => Ok(Some(id.to_owned())),
        (None, None) => Ok(None),
    }
}

/// A refusal in the names that the client used.
fn in_rest_words(error: FieldError) -> RestError {
    const NAMES: [(&str, &str); 10] = [
        ("spark.app_resource", "appResource"),
        ("spark.main_class", "mainClass"),
        ("spark.app_args", "appArgs"),
        ("spark.client_spark_version", "clientSparkVersion"),
        ("spark.spark_properties", "sparkProperties"),
        ("spark.environment", "environmentVariables"),
        ("command.program", "command[0]"),
        ("command.args", "arguments of command"),
        ("command.env", "environmentVariables"),
        ("user", "environmentVariables.SPARK_USER"),
    ];
    let known = NAMES.iter().find_map(|(ours, theirs)| {
        error
            .field
            .strip_prefix(ours)
            .map(|rest| format!("{theirs}{rest}"))
    });
    let field = known.unwrap_or_else(|| error.field.into_owned());
    RestError::from(FieldError::new(field, error.reason))
}

/// A refusal of one field.
pub(super) fn field(name: &'static str, reason: impl Into<String>) -> RestError {
    RestError::from(FieldError::new(name, reason))
}

// === impl Fields ===

impl Fields {
    fn parse(body: &[u8]) -> Result<Self, RestError> {
        match serde_json::from_slice(body) {
            Ok(Value::Object(map)) => Ok(Self(
                map.into_iter()
                    .filter(|(_, value)| !value.is_null())
                    .collect(),
            )),
            Ok(other) => Err(RestError::bad_request(format!(
                "Malformed request: the body is {}; an object is expected.",
                kind(&other)
            ))),
            Err(error) => Err(RestError::bad_request(format!(
                "Malformed request: not JSON: {error}."
            ))),
        }
    }

    fn check_action(&mut self) -> Result<(), RestError> {
        let action = self.required("action")?;
        match action.as_str() {
            ACTION => Ok(()),
            other if OTHER_ACTIONS.contains(&other) => Err(RestError::bad_request(format!(
                "Received message of unexpected type {other}."
            ))),
            other => Err(field(
                "action",
                format!("{} is unknown; use {ACTION}", shown(other)),
            )),
        }
    }

    /// Takes a text.
    fn text(&mut self, name: &'static str) -> Result<Option<String>, RestError> {
        match self.0.remove(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(field(
                name,
                format!("is {}; a text is expected", kind(&other)),
            )),
        }
    }

    fn required(&mut self, name: &'static str) -> Result<String, RestError> {
        self.text(name)?
            .ok_or_else(|| field(name, "is missing; give a text"))
    }

    /// Takes an array of texts; numbers and flags count as texts, as with Spark.
    fn list(&mut self, name: &'static str) -> Result<Option<Vec<String>>, RestError> {
        let values = match self.0.remove(name) {
            None => return Ok(None),
            Some(Value::Array(values)) => values,
            Some(other) => {
                return Err(field(
                    name,
                    format!("is {}; an array of texts is expected", kind(&other)),
                ));
            }
        };
        let as_text =
            |(at, value): (usize, Value)| scalar(value).map_err(|found| indexed(name, at, found));
        values
            .into_iter()
            .enumerate()
            .map(as_text)
            .collect::<Result<_, _>>()
            .map(Some)
    }

    /// Takes an object of texts; numbers and flags count as texts, nulls as absent.
    fn texts(&mut self, name: &'static str) -> Result<Option<BTreeMap<String, String>>, RestError> {
        let map = match self.0.remove(name) {
            None => return Ok(None),
            Some(Value::Object(map)) => map,
            Some(other) => {
                return Err(field(
                    name,
                    format!("is {}; an object of texts is expected", kind(&other)),
                ));
            }
        };
        let as_text = |(key, value): (String, Value)| match scalar(value) {
            Ok(text) => Ok((key, text)),
            Err(found) => Err(keyed(name, &key, found)),
        };
        map.into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(as_text)
            .collect::<Result<_, _>>()
            .map(Some)
    }

    fn environment(&mut self) -> Result<BTreeMap<String, String>, RestError> {
        let mut environment = self.texts("environmentVariables")?.unwrap_or_default();
        for variable in DROPPED_VARIABLES {
            environment.remove(variable);
        }
        Ok(environment)
    }

    /// What nobody has taken; common fields that mean nothing here are no surprise.
    fn unknown(self) -> Vec<String> {
        self.0
            .into_iter()
            .map(|(name, _)| validate::cut(&name))
            .filter(|name| name != "message")
            .collect()
    }
}

fn scalar(value: Value) -> Result<String, &'static str> {
    match value {
        Value::String(text) => Ok(text),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(flag) => Ok(flag.to_string()),
        other @ (Value::Null | Value::Array(_) | Value::Object(_)) => Err(kind(&other)),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a flag",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn indexed(name: &str, at: usize, found: &str) -> RestError {
    FieldError::new(
        format!("{name}[{at}]"),
        format!("is {found}; a text is expected"),
    )
    .into()
}

fn keyed(name: &str, key: &str, found: &str) -> RestError {
    let path = format!("{name}.{}", validate::cut(key));
    FieldError::new(path, format!("is {found}; a text is expected")).into()
}

#[cfg(test)]
#[path = "create_test.rs"]
mod tests;
