//! The answers of Spark's submission API: keys alphabetical, nulls omitted, pretty as Spark prints them.

use std::io;

use interrex_core::state::driver::DriverState;
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter};

/// The content type of every answer.
pub const CONTENT_TYPE: &str = "application/json;charset=utf-8";
/// The only protocol version there is.
pub const PROTOCOL_VERSION: &str = "v1";

/// Any answer; which fields are set depends on `action`. Fields are in alphabetical order, as Spark has them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// The message's type, such as `CreateSubmissionResponse`.
    pub action: &'static str,
    /// Spark's name of the driver's state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver_state: Option<&'static str>,
    /// The newest protocol version, where the client spoke an unknown one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub highest_protocol_version: Option<&'static str>,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The version of Spark whose API this is.
    pub server_spark_version: String,
    /// The driver's id; in answers about a driver the id that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submission_id: Option<String>,
    /// Whether the request was carried out; absent in an `ErrorResponse`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub success: Option<bool>,
    /// Fields of the request that were not understood.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown_fields: Vec<String>,
    /// Where the driver's agent is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_host_port: Option<String>,
    /// The driver's worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<String>,
}

/// `serde_json`'s pretty form, with Spark's space before each colon: scripts look for `"success" : true`.
struct SparkFormatter(PrettyFormatter<'static>);

/// A driver's state in Spark's words: `Launching`, which is ours, is not running yet.
#[must_use]
pub fn driver_state(state: DriverState) -> &'static str {
    match state {
        DriverState::Launching => DriverState::Submitted.name(),
        DriverState::Submitted
        | DriverState::Running
        | DriverState::Relaunching
        | DriverState::Finished
        | DriverState::Killed
        | DriverState::Failed
        | DriverState::Error => state.name(),
    }
}

// === impl Answer ===

impl Answer {
    /// A driver is accepted.
    #[must_use]
    pub fn created(driver: String, unknown_fields: Vec<String>) -> Self {
        Self {
            action: "CreateSubmissionResponse",
            message: Some(format!("Driver successfully submitted as {driver}")),
            submission_id: Some(driver),
            success: Some(true),
            unknown_fields,
            ..Self::default()
        }
    }

    /// A kill is accepted, or not: then the driver is over or unknown.
    #[must_use]
    pub fn killed(id: String, accepted: bool) -> Self {
        let message = match accepted {
            true => format!("Kill request for {id} submitted"),
            false => format!("Driver {id} has already finished or does not exist"),
        };
        Self {
            action: "KillSubmissionResponse",
            message: Some(message),
            submission_id: Some(id),
            success: Some(accepted),
            ..Self::default()
        }
    }

    /// A kill of all drivers is accepted.
    #[must_use]
    pub fn all_killed() -> Self {
        Self {
            action: "KillAllSubmissionResponse",
            message: Some("Kill request for all drivers submitted".to_owned()),
            success: Some(true),
            ..Self::default()
        }
    }

    /// A driver's status; [`Answer::unknown_driver`] where there is none.
    #[must_use]
    pub fn status(id: String, state: DriverState) -> Self {
        Self {
            action: "SubmissionStatusResponse",
            driver_state: Some(driver_state(state)),
            submission_id: Some(id),
            success: Some(true),
            ..Self::default()
        }
    }

    /// There is no such driver.
    #[must_use]
    pub fn unknown_driver(id: String) -> Self {
        Self {
            action: "SubmissionStatusResponse",
            submission_id: Some(id),
            success: Some(false),
            ..Self::default()
        }
    }

    /// What is over is forgotten.
    #[must_use]
    pub fn cleared() -> Self {
        Self {
            action: "ClearResponse",
            message: Some(String::new()),
            success: Some(true),
            ..Self::default()
        }
    }

    /// Submissions are accepted.
    #[must_use]
    pub fn ready() -> Self {
        Self {
            action: "ReadyzResponse",
            message: Some(String::new()),
            success: Some(true),
            ..Self::default()
        }
    }

    /// The request was refused.
    #[must_use]
    pub fn error(message: String) -> Self {
        Self {
            action: "ErrorResponse",
            message: Some(message),
            ..Self::default()
        }
    }

    /// As Spark prints it.
    ///
    /// # Errors
    /// None in practice: every field is a text, a flag or a list of texts.
    pub fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut out = Vec::with_capacity(256);
        let formatter = SparkFormatter(PrettyFormatter::new());
        self.serialize(&mut serde_json::Serializer::with_formatter(
            &mut out, formatter,
        ))?;
        Ok(out)
    }
}

// === impl SparkFormatter ===

impl Formatter for SparkFormatter {
    fn begin_array<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b"[ ")
    }

    fn end_array<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b" ]")
    }

    fn begin_array_value<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b" : ")
    }

    fn end_object_value<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_looks_as_spark_prints_it() {
        let mut answer = Answer::created(
            "driver-20261129143200-0001".into(),
            vec!["a".into(), "b".into()],
        );
        answer.server_spark_version = "4.3.0".into();
        let text = String::from_utf8(answer.to_json().expect("serializable")).expect("utf-8");
        assert_eq!(
            text,
            r#"{
  "action" : "CreateSubmissionResponse",
  "message" : "Driver successfully submitted as driver-20261129143200-0001",
  "serverSparkVersion" : "4.3.0",
  "submissionId" : "driver-20261129143200-0001",
  "success" : true,
  "unknownFields" : [ "a", "b" ]
}"#
        );
    }

    #[test]
    fn a_driver_that_is_being_launched_is_submitted_to_spark() {
        assert_eq!(driver_state(DriverState::Launching), "SUBMITTED");
        assert_eq!(driver_state(DriverState::Relaunching), "RELAUNCHING");
    }
}
