//! Which endpoint a path means. Pure; the texts of unusable paths are Spark's.

use http::Method;
use percent_encoding::percent_decode_str;

use super::errors::RestError;
use crate::edge::validate;

/// An endpoint of `/v1/submissions`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// `POST create`
    Create,
    /// `POST kill/{id}`
    Kill(String),
    /// `POST killall`
    KillAll,
    /// `GET status/{id}`
    Status(String),
    /// `POST clear`
    Clear,
    /// `GET readyz`
    Readyz,
}

// === impl Route ===

impl Route {
    /// The endpoint of `method` and `path`; what follows an id is ignored, as Spark does.
    ///
    /// # Errors
    /// 400, 405 or 468, with Spark's text.
    pub fn parse(method: &Method, path: &str) -> Result<Self, RestError> {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (action, rest) = match parts.as_slice() {
            [] => return Err(RestError::bad_path("Missing protocol version.")),
            ["v1", "submissions", action, rest @ ..] => (*action, rest),
            ["v1", "submissions"] => return Err(missing_action()),
            ["v1", ..] => return Err(RestError::bad_path("Missing the /submissions prefix.")),
            [version, ..] => return Err(RestError::unknown_version(&validate::cut(version))),
        };
        let allow = match action {
            "create" | "kill" | "killall" | "clear" => "POST",
            "status" | "readyz" => "GET",
            _unknown => return Err(missing_action()),
        };
        let allowed = method.as_str() == allow || (allow == "GET" && method == Method::HEAD);
        if !allowed {
            return Err(RestError::wrong_method(
                method,
                &format!("/v1/submissions/{action}"),
                allow,
            ));
        }
        match action {
            "create" => Ok(Self::Create),
            "kill" => Ok(Self::Kill(id(rest, "kill")?)),
            "killall" => Ok(Self::KillAll),
            "status" => Ok(Self::Status(id(rest, "status")?)),
            "clear" => Ok(Self::Clear),
            _readyz => Ok(Self::Readyz),
        }
    }

    /// The endpoint's name, for metrics.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Kill(_) => "kill",
            Self::KillAll => "killall",
            Self::Status(_) => "status",
            Self::Clear => "clear",
            Self::Readyz => "readyz",
        }
    }
}

fn id(rest: &[&str], request: &str) -> Result<String, RestError> {
    let missing =
        || RestError::bad_request(format!("Submission ID is missing in {request} request."));
    let encoded = rest.first().ok_or_else(missing)?;
    let id = percent_decode_str(encoded).decode_utf8_lossy().into_owned();
    validate::id("submissionId", &id)?;
    Ok(id)
}

fn missing_action() -> RestError {
    RestError::bad_path(
        "Missing an action: please specify one of /create, /kill, /killall, /clear, /status, or /readyz.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(path: &str) -> Result<Route, RestError> {
        Route::parse(&Method::GET, path)
    }

    fn post(path: &str) -> Result<Route, RestError> {
        Route::parse(&Method::POST, path)
    }

    fn refused(result: Result<Route, RestError>) -> (u16, String) {
        let error = result.expect_err("must be refused");
        (error.status.as_u16(), error.message)
    }

    #[test]
    fn every_endpoint_of_spark_is_known() {
        assert_eq!(post("/v1/submissions/create"), Ok(Route::Create));
        assert_eq!(
            post("/v1/submissions/kill/any/thing"),
            Ok(Route::Kill("any".into()))
        );
        assert_eq!(post("/v1/submissions/killall/"), Ok(Route::KillAll));
        assert_eq!(
            get("/v1/submissions/status/a%2Db"),
            Ok(Route::Status("a-b".into()))
        );
        assert_eq!(post("/v1/submissions/clear"), Ok(Route::Clear));
        assert_eq!(get("/v1/submissions/readyz"), Ok(Route::Readyz));
        assert_eq!(
            Route::parse(&Method::HEAD, "/v1/submissions/readyz"),
            Ok(Route::Readyz)
        );
    }

    #[test]
    fn unusable_paths_get_sparks_texts() {
        let advice = " Please submit requests through http://[host]:[port]/v1/submissions/...";
        for (path, text) in [
            ("/", "Missing protocol version."),
            ("", "Missing protocol version."),
            ("/v1", "Missing the /submissions prefix."),
            ("/v1/jobs", "Missing the /submissions prefix."),
        ] {
            assert_eq!(
                refused(get(path)),
                (400, format!("{text}{advice}")),
                "{path}"
            );
        }
        for path in ["/v1/submissions", "/v1/submissions/launch/x"] {
            let (status, message) = refused(post(path));
            assert_eq!(status, 400);
            assert!(
                message.starts_with("Missing an action: please specify one of /create,"),
                "{message}"
            );
            assert!(message.ends_with(advice), "{message}");
        }
    }

    #[test]
    fn another_version_is_told_the_highest_one() {
        let error = post("/v7/submissions/create").expect_err("must be refused");
        assert_eq!(
            (error.status.as_u16(), error.highest_protocol_version),
            (468, Some("v1"))
        );
        assert!(
            error.message.starts_with("Unknown protocol version 'v7'."),
            "{error}"
        );
    }

    #[test]
    fn a_wrong_method_is_told_the_right_one() {
        let error = get("/v1/submissions/create").expect_err("must be refused");
        assert_eq!((error.status.as_u16(), error.allow), (405, Some("POST")));
        let error = post("/v1/submissions/status/x").expect_err("must be refused");
        assert_eq!((error.status.as_u16(), error.allow), (405, Some("GET")));
    }

    #[test]
    fn a_missing_or_unusable_id_is_named() {
        assert_eq!(
            refused(post("/v1/submissions/kill")),
            (400, "Submission ID is missing in kill request.".into())
        );
        assert_eq!(
            refused(get("/v1/submissions/status/")),
            (400, "Submission ID is missing in status request.".into())
        );
        let (status, message) = refused(get("/v1/submissions/status/a%00b"));
        assert_eq!(status, 400);
        assert!(message.contains("submissionId"), "{message}");
    }
}
