//! Tables with sorting, filters and pages. All of it is in the address: it can be kept, sent and reloaded, and works
//! without script. A query that cannot be is refused with the field, the value and what would be right.

use axum::extract::Query;
use http::Uri;
use serde::Deserialize;

use crate::format::count;

/// Rows of a page where the query does not say.
pub const SIZE_DEFAULT: usize = 50;
/// Most rows of one page.
pub const SIZE_MAX: usize = 200;
/// Longest search text, in bytes.
pub const SEARCH_BYTES_MAX: usize = 256;

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// What its heading says.
    pub label: &'static str,
    /// What the query calls it; empty: one cannot sort by it.
    pub key: &'static str,
    /// Numbers, which stand on the right.
    pub right: bool,
}

/// What can be asked of a table.
#[derive(Debug, Clone, Copy)]
pub struct Schema {
    /// Where it is.
    pub path: &'static str,
    /// Its columns.
    pub columns: &'static [Column],
    /// States that one can look for.
    pub states: &'static [&'static str],
    /// By which column it is sorted if the query does not say.
    pub sort: &'static str,
    /// Whether that is from the largest to the smallest.
    pub descending: bool,
}

/// What is asked of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListQuery {
    /// Which page, from 1.
    pub page: usize,
    /// Rows of a page.
    pub size: usize,
    /// By which column it is sorted.
    pub sort: &'static str,
    /// From the largest to the smallest.
    pub descending: bool,
    /// Only rows in this state.
    pub state: Option<&'static str>,
    /// Only rows with this text, in small letters.
    pub search: String,
}

/// A query that cannot be answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadQuery(pub String);

/// The same query as its fields come.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Raw {
    page: Option<String>,
    size: Option<String>,
    sort: Option<String>,
    dir: Option<String>,
    state: Option<String>,
    q: Option<String>,
}

/// What stands around the rows of a table.
#[derive(Debug, Clone, Default)]
pub struct ListFrame {
    /// Where the form leads.
    pub path: &'static str,
    /// Headings.
    pub heads: Vec<Head>,
    /// What one can look for: state, its words, and whether it is chosen.
    pub states: Vec<(&'static str, String, bool)>,
    /// The search text as it was given.
    pub search: String,
    /// The sorting, if it is not the usual one: key and direction, for the form.
    pub sorted: Option<(&'static str, &'static str)>,
    /// Whether anything is filtered out.
    pub filtered: bool,
    /// `1–50 of 10,000`.
    pub range: String,
    /// The page before, if there is one.
    pub previous: Option<String>,
    /// The page behind, if there is one.
    pub next: Option<String>,
    /// `Page 2 of 200`.
    pub place: String,
}

/// One heading.
#[derive(Debug, Clone, Default)]
pub struct Head {
    /// What it says.
    pub label: &'static str,
    /// Where a click leads; empty: nowhere.
    pub href: String,
    /// `ascending` or `descending`, if the table is sorted by it.
    pub sorted: Option<&'static str>,
    /// It stands above numbers.
    pub right: bool,
}

// === impl Column ===

impl Column {
    /// A column of text that one can sort by.
    #[must_use]
    pub const fn text(label: &'static str, key: &'static str) -> Self {
        Self {
            label,
            key,
            right: false,
        }
    }

    /// A column of numbers that one can sort by.
    #[must_use]
    pub const fn number(label: &'static str, key: &'static str) -> Self {
        Self {
            label,
            key,
            right: true,
        }
    }
}

// === impl ListQuery ===

impl ListQuery {
    /// Reads the query of `uri`.
    ///
    /// # Errors
    /// [`BadQuery`] names the first field that is wrong.
    pub fn parse(uri: &Uri, schema: &Schema) -> Result<Self, BadQuery> {
        let raw = read::<Raw>(uri)?;
        let keys: Vec<&str> = schema.columns.iter().map(|c| c.key).collect();
        let sort = match given(raw.sort) {
            None => schema.sort,
            Some(key) => one_of("sort", &key, &keys)?,
        };
        let descending = match given(raw.dir) {
            None => sort == schema.sort && schema.descending,
            Some(dir) => one_of("dir", &dir, &["asc", "desc"])? == "desc",
        };
        let state = given(raw.state);
        let state = state.map(|state| one_of("state", &state, schema.states));
        Ok(Self {
            page: number("page", raw.page, 1, usize::MAX)?,
            size: number("size", raw.size, SIZE_DEFAULT, SIZE_MAX)?,
            sort,
            descending,
            state: state.transpose()?,
            search: search(raw.q)?,
        })
    }

    /// Whether one of these texts has what is looked for.
    #[must_use]
    pub fn finds(&self, texts: &[&str]) -> bool {
        let has = |text: &&str| contains(text, &self.search);
        self.search.is_empty() || texts.iter().any(has)
    }

    /// Whether this state is looked for.
    #[must_use]
    pub fn wants(&self, state: &str) -> bool {
        self.state.is_none_or(|wanted| wanted == state)
    }

    /// Whether some rows may be left out.
    #[must_use]
    pub fn filters(&self) -> bool {
        self.state.is_some() || !self.search.is_empty()
    }

    /// The page that is asked for of `rows`, sorted; the last one where there are not so many. Only the rows of that page
    /// are brought into order: of so many thousands, all but a few are looked at once or twice.
    #[must_use]
    pub fn cut<T, K: Ord>(&self, rows: Vec<T>, key: impl Fn(&T) -> K) -> (Vec<T>, usize) {
        let total = rows.len();
        let first = (self.page_of(total) - 1) * self.size;
        // With its place, no row is equal to another: those with the same key stay in the order in which they came.
        let places = rows.into_iter().enumerate();
        let mut rows: Vec<_> = places.map(|(place, row)| (key(&row), place, row)).collect();
        let order = |a: &(K, usize, T), b: &(K, usize, T)| {
            let order = (&a.0, a.1).cmp(&(&b.0, b.1));
            match self.descending {
                true => order.reverse(),
                false => order,
            }
        };
        if first > 0 {
            rows.select_nth_unstable_by(first, order);
        }
        let mut shown = rows.split_off(first);
        if shown.len() > self.size {
            shown.select_nth_unstable_by(self.size, order);
            shown.truncate(self.size);
        }
        shown.sort_unstable_by(order);
        (shown.into_iter().map(|(_, _, row)| row).collect(), total)
    }

    /// The page that is shown of so many rows.
    #[must_use]
    pub fn page_of(&self, total: usize) -> usize {
        self.page.clamp(1, self.pages(total))
    }

    fn pages(&self, total: usize) -> usize {
        total.div_ceil(self.size).max(1)
    }

    /// What stands around a page of so many rows.
    #[must_use]
    pub fn frame(&self, schema: &Schema, total: usize) -> ListFrame {
        let (page, pages) = (self.page_of(total), self.pages(total));
        let first = (page - 1) * self.size;
        let last = (first + self.size).min(total);
        let link = |page: usize| self.link(schema, self.sort, self.descending, page);
        let range = match total {
            0 => "Nothing".to_owned(),
            _ => format!(
                "{}–{} of {}",
                count(first as u64 + 1),
                count(last as u64),
                count(total as u64)
            ),
        };
        let usual = self.sort == schema.sort && self.descending == schema.descending;
        ListFrame {
            path: schema.path,
            heads: schema
                .columns
                .iter()
                .map(|c| self.head(schema, c))
                .collect(),
            states: schema
                .states
                .iter()
                .map(|state| {
                    (
                        *state,
                        crate::marks::words(state),
                        self.state == Some(*state),
                    )
                })
                .collect(),
            search: self.search.clone(),
            sorted: (!usual).then(|| (self.sort, direction(self.descending))),
            filtered: self.filters(),
            range,
            previous: (page > 1).then(|| link(page - 1)),
            next: (page < pages).then(|| link(page + 1)),
            place: format!("Page {} of {}", count(page as u64), count(pages as u64)),
        }
    }

    fn head(&self, schema: &Schema, column: &Column) -> Head {
        let is_sorted = !column.key.is_empty() && column.key == self.sort;
        let turned = if is_sorted {
            !self.descending
        } else {
            column.right
        };
        let href = match column.key {
            "" => String::new(),
            key => self.link(schema, key, turned, 1),
        };
        Head {
            label: column.label,
            href,
            sorted: is_sorted.then_some(if self.descending {
                "descending"
            } else {
                "ascending"
            }),
            right: column.right,
        }
    }

    fn link(&self, schema: &Schema, sort: &str, descending: bool, page: usize) -> String {
        let mut parts = Vec::new();
        if !self.search.is_empty() {
            let text = percent_encoding::utf8_percent_encode(
                &self.search,
                percent_encoding::NON_ALPHANUMERIC,
            );
            parts.push(format!("q={text}"));
        }
        if let Some(state) = self.state {
            parts.push(format!("state={state}"));
        }
        if sort != schema.sort || descending != schema.descending {
            parts.push(format!("sort={sort}&dir={}", direction(descending)));
        }
        if self.size != SIZE_DEFAULT {
            parts.push(format!("size={}", self.size));
        }
        if page > 1 {
            parts.push(format!("page={page}"));
        }
        match parts.is_empty() {
            true => schema.path.to_owned(),
            false => format!("{}?{}", schema.path, parts.join("&")),
        }
    }
}

/// The query of `uri` as `T`, which says what there may be.
///
/// # Errors
/// [`BadQuery`] with what serde says: it names the field.
pub fn read<T: for<'de> Deserialize<'de>>(uri: &Uri) -> Result<T, BadQuery> {
    let read = Query::<T>::try_from_uri(uri);
    let Query(query) = read.map_err(|error| {
        let text = error.body_text();
        let reason = text.strip_prefix("Failed to deserialize query string: ");
        BadQuery(reason.unwrap_or(&text).to_owned())
    })?;
    Ok(query)
}

/// A search text, in small letters.
///
/// # Errors
/// [`BadQuery`] where it is too long, or has a control character.
pub fn search(text: Option<String>) -> Result<String, BadQuery> {
    let text = text.unwrap_or_default();
    let trimmed = text.trim();
    if trimmed.len() > SEARCH_BYTES_MAX || trimmed.chars().any(char::is_control) {
        return Err(BadQuery(format!(
            "q: {} bytes; give at most {SEARCH_BYTES_MAX} bytes without control characters",
            trimmed.len()
        )));
    }
    Ok(trimmed.to_lowercase())
}

/// The number in `text`; `default` where there is none.
///
/// # Errors
/// [`BadQuery`] where it is none, or not in 1 to `max`.
pub fn number(
    field: &str,
    text: Option<String>,
    default: usize,
    max: usize,
) -> Result<usize, BadQuery> {
    let Some(text) = given(text) else {
        return Ok(default);
    };
    match text.parse::<usize>() {
        Ok(number) if (1..=max).contains(&number) => Ok(number),
        Ok(_) | Err(_) => {
            let most = if max == usize::MAX {
                String::new()
            } else {
                format!(" to {max}")
            };
            let text: String = text.chars().take(48).collect();
            Err(BadQuery(format!(
                "{field}: `{text}`; give a number from 1{most}"
            )))
        }
    }
}

/// The member of `known` that is meant.
///
/// # Errors
/// [`BadQuery`] names them all.
pub fn one_of(field: &str, text: &str, known: &[&'static str]) -> Result<&'static str, BadQuery> {
    let found = known
        .iter()
        .find(|k| !k.is_empty() && k.eq_ignore_ascii_case(text));
    found.copied().ok_or_else(|| {
        let text: String = text.chars().take(48).collect();
        let known: Vec<&str> = known.iter().copied().filter(|k| !k.is_empty()).collect();
        BadQuery(format!(
            "{field}: `{text}`; give one of {}",
            known.join(", ")
        ))
    })
}

fn given(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

fn direction(descending: bool) -> &'static str {
    if descending { "desc" } else { "asc" }
}

/// Whether `text` has `wanted`, which is in small letters. Names are almost always ASCII: then nothing is copied.
fn contains(text: &str, wanted: &str) -> bool {
    if !text.is_ascii() {
        return text.to_lowercase().contains(wanted);
    }
    let mut windows = text.as_bytes().windows(wanted.len());
    windows.any(|window| window.eq_ignore_ascii_case(wanted.as_bytes()))
}

#[cfg(test)]
#[path = "list_test.rs"]
mod tests;
