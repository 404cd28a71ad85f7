//! The style sheet, the script and the icon, embedded in the binary and named after their content, so that a browser
//! keeps them for ever and never uses those of another version.

use std::sync::LazyLock;

use axum::{Router, extract::Path, routing::get};
use http::{StatusCode, header};

/// One embedded file.
struct Asset {
    /// Its name in addresses: with a checksum in it.
    name: String,
    content_type: &'static str,
    content: &'static str,
}

static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    let content = include_str!("../assets/app.css");
    Asset::new("css", "text/css; charset=utf-8", content)
});
static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    let content = include_str!("../assets/app.js");
    Asset::new("js", "text/javascript; charset=utf-8", content)
});
static ICON: LazyLock<Asset> = LazyLock::new(|| {
    let content = include_str!("../assets/icon.svg");
    Asset::new("svg", "image/svg+xml", content)
});

/// Addresses of the embedded files, for the head of a page.
#[derive(Debug, Clone, Copy, Default)]
pub struct Assets;

// === impl Asset ===

impl Asset {
    fn new(kind: &str, content_type: &'static str, content: &'static str) -> Self {
        let sum = crc32fast::hash(content.as_bytes());
        Self {
            name: format!("app.{sum:08x}.{kind}"),
            content_type,
            content,
        }
    }
}

// === impl Assets ===

impl Assets {
    /// Where the style sheet is.
    #[must_use]
    pub fn style(&self) -> String {
        path_of(&STYLE)
    }

    /// Where the script is.
    #[must_use]
    pub fn script(&self) -> String {
        path_of(&SCRIPT)
    }

    /// Where the icon is.
    #[must_use]
    pub fn icon(&self) -> String {
        path_of(&ICON)
    }
}

/// Serves them below `/assets/`.
pub fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new().route(
        "/assets/{name}",
        get(async |Path(name): Path<String>| {
            let all = [&*STYLE, &*SCRIPT, &*ICON];
            match all.into_iter().find(|asset| asset.name == name) {
                Some(asset) => Ok((
                    [
                        (header::CONTENT_TYPE, asset.content_type),
                        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
                        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
                    ],
                    asset.content,
                )),
                None => Err((StatusCode::NOT_FOUND, "there is no such file\n")),
            }
        }),
    )
}

fn path_of(asset: &Asset) -> String {
    format!("/assets/{}", asset.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_embedded_loads_anything_from_elsewhere() {
        for asset in [&*STYLE, &*SCRIPT] {
            for foreign in [
                "http://",
                "https://",
                "@import",
                "url(",
                "eval(",
                "innerHTML",
            ] {
                assert!(
                    !asset.content.contains(foreign),
                    "{}: {foreign}",
                    asset.name
                );
            }
        }
    }

    #[test]
    fn a_name_is_bound_to_the_content() {
        let one = Asset::new("css", "text/css", "a");
        let other = Asset::new("css", "text/css", "b");
        assert_ne!(one.name, other.name);
        assert!(one.name.starts_with("app.") && one.name.ends_with(".css"));
    }
}
