//! Pages as HTTP answers: what a browser may do with them, and which requests may change something.

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header, uri::Authority};

/// What a page may load: what its own server embeds, and nothing inline. `{}`: further hosts that its script may ask.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'";
const POLICY_END: &str = "; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Why a request that would change something was not obeyed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Foreign {
    /// It does not say from which page it comes.
    #[error(
        "the request does not say from which page it comes (header Origin): use the buttons of these pages, or the \
         command line"
    )]
    NoOrigin,
    /// Another site's page has sent it.
    #[error("the request comes from {0}, not from these pages")]
    OtherSite(String),
    /// The name in the address is none of this server's: a page may have been led here under a false name.
    #[error(
        "this server does not know itself as {0}: use its address, or add the name to the option ui.hosts"
    )]
    UnknownHost(String),
}

/// A page. `connect`: further `host:port`s that its script may ask for signs of life.
#[must_use]
pub fn page(status: StatusCode, html: String, connect: &[String]) -> Response {
    let mut response = (status, html).into_response();
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/html; charset=utf-8"),
    );
    let mut policy = POLICY.to_owned();
    for host in connect.iter().filter(|host| is_host(host)) {
        policy.push(' ');
        policy.push_str(host);
    }
    policy.push_str(POLICY_END);
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    guard(headers);
    response
}

/// The headers that every answer with the cluster's data has.
pub fn guard(headers: &mut HeaderMap) {
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    );
}

/// After something was changed: look at it there.
#[must_use]
pub fn see_other(path: &str) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    if let Ok(place) = HeaderValue::from_str(path) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    guard(response.headers_mut());
    response
}

/// Whether a request that would change something comes from a page of this server, under a name that is its own.
///
/// # Errors
/// [`Foreign`] says what is wrong with it.
pub fn check_origin(headers: &HeaderMap, hosts: &[String]) -> Result<(), Foreign> {
    let host = text(headers, &header::HOST);
    let origin = headers.get(header::ORIGIN).ok_or(Foreign::NoOrigin)?;
    let origin = origin.to_str().unwrap_or_default();
    let from = origin.split_once("://").map_or(origin, |(_, rest)| rest);
    let site = text(headers, &FETCH_SITE);
    if from != host || !(site.is_empty() || site == "same-origin") {
        return Err(Foreign::OtherSite(shown(origin)));
    }
    check_host(headers, hosts)
}

/// Whether a request was sent to a name of this server: an address, `localhost`, or one of `hosts`. A page under another
/// name was led here, and is taken by its browser for a page of this server.
///
/// # Errors
/// [`Foreign::UnknownHost`].
pub fn check_host(headers: &HeaderMap, hosts: &[String]) -> Result<(), Foreign> {
    let host = text(headers, &header::HOST);
    let authority: Option<Authority> = host.parse().ok();
    let name = authority.as_ref().map(Authority::host).unwrap_or_default();
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    let known = bare.parse::<std::net::IpAddr>().is_ok()
        || bare.eq_ignore_ascii_case("localhost")
        || hosts.iter().any(|known| known.eq_ignore_ascii_case(bare));
    if known {
        Ok(())
    } else {
        Err(Foreign::UnknownHost(shown(host)))
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> &'h str {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or_default()
}

fn shown(text: &str) -> String {
    let cut: String = text.chars().take(80).collect();
    format!("`{}`", cut.escape_debug())
}

/// Whether this can stand in a policy: a name or address with a port, and nothing that ends the directive.
fn is_host(host: &str) -> bool {
    let plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']' | '_');
    !host.is_empty() && host.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            let value = HeaderValue::from_str(value).expect("a value");
            (HeaderName::from_static(name), value)
        };
        pairs.iter().map(pair).collect()
    }

    fn check(pairs: &[(&'static str, &str)]) -> Result<(), Foreign> {
        check_origin(&headers(pairs), &["m1.example".to_owned()])
    }

    #[test]
    fn only_pages_of_this_server_may_change_something() {
        let own = [
            ("host", "127.0.0.1:8080"),
            ("origin", "http://127.0.0.1:8080"),
        ];
        assert_eq!(check(&own), Ok(()));
        let named = [
            ("host", "M1.example:8080"),
            ("origin", "http://M1.example:8080"),
        ];
        assert_eq!(check(&named), Ok(()));
        let six = [("host", "[::1]:8080"), ("origin", "http://[::1]:8080")];
        assert_eq!(check(&six), Ok(()));
        assert_eq!(check(&[("host", "127.0.0.1:8080")]), Err(Foreign::NoOrigin));
        for origin in ["http://evil.example", "null", "http://127.0.0.1:9999", ""] {
            let other = check(&[("host", "127.0.0.1:8080"), ("origin", origin)]);
            assert!(matches!(other, Err(Foreign::OtherSite(_))), "{origin}");
        }
        let embedded = [own[0], own[1], ("sec-fetch-site", "cross-site")];
        assert!(matches!(check(&embedded), Err(Foreign::OtherSite(_))));
    }

    #[test]
    fn a_false_name_for_this_server_is_refused() {
        let rebound = [
            ("host", "evil.example:8080"),
            ("origin", "http://evil.example:8080"),
        ];
        let error = check(&rebound).expect_err("must be refused").to_string();
        assert!(
            error.contains("evil.example") && error.contains("ui.hosts"),
            "{error}"
        );
    }

    #[test]
    fn an_address_cannot_break_out_of_the_policy() {
        let hosts = ["m2:8080".to_owned(), "x; script-src *".to_owned()];
        let response = page(StatusCode::OK, String::new(), &hosts);
        let policy = response.headers()[header::CONTENT_SECURITY_POLICY].to_str();
        let policy = policy.expect("text");
        assert!(
            policy.contains("connect-src 'self' m2:8080; form-action"),
            "{policy}"
        );
        assert_eq!(policy.matches("script-src").count(), 1, "{policy}");
    }
}
