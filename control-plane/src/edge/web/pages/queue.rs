//! What waits, in the order in which it is tried, and why.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use askama::Template;
use interrex_core::{
    explain::Waits,
    state::{
        app::{Application, ApplicationState},
        driver::Driver,
    },
};
use interrex_web::{
    format::{When, count, counted, mebibytes},
    frame::Frame,
    list::{self, BadQuery, SIZE_DEFAULT, SIZE_MAX},
    marks::{Link, Pill},
};
use serde::Deserialize;

use crate::{
    edge::web::{
        context::{Context, Who},
        serve::Made,
    },
    runtime::view::ClusterView,
};

/// Waiting drivers whose reasons are summed up; of a longer queue, the first ones.
const REASONS_OF_MAX: usize = 1_000;
/// Reasons that are listed.
const REASONS_SHOWN: usize = 8;
/// Waiting applications that are listed.
const APPS_SHOWN: usize = 200;

#[derive(Template)]
#[template(path = "queue.html")]
struct Queue {
    frame: Frame,
    who: Who,
    drivers_total: String,
    apps_total: String,
    reasons: Vec<(String, String)>,
    reasons_of: String,
    drivers: Vec<Waiting>,
    apps: Vec<Waiting>,
    apps_left: usize,
    range: String,
    previous: Option<String>,
    next: Option<String>,
}

/// One thing that waits.
struct Waiting {
    place: String,
    link: Link,
    id: String,
    name: String,
    user: Link,
    state: Pill,
    needs: String,
    priority: i32,
    since: When,
    reason: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Asked {
    page: Option<String>,
    size: Option<String>,
}

pub(super) fn make(context: &Context) -> Made {
    let view = &context.view;
    let (page, size) = asked(context)?;
    let waits = Waits::of(&**view);
    let waiting = view.drivers().filter(|d| d.state.waits());
    let drivers: Vec<_> = waiting
        .map(|d| ((Reverse(d.spec.priority), d.queue), d))
        .collect();
    let mut apps: Vec<&Arc<Application>> = view.apps().filter(|a| app_waits(view, a)).collect();
    apps.sort_by_key(|a| (Reverse(a.spec.priority), a.queue));

    let total = drivers.len();
    let page = page.min(total.div_ceil(size).max(1));
    let first = (page - 1) * size;
    let last = (first + size).min(total);
    let summed = total.min(REASONS_OF_MAX);
    let drivers = first_of(drivers, last.max(summed));
    let link = |page: usize| match size {
        SIZE_DEFAULT => format!("/queue?page={page}"),
        size => format!("/queue?page={page}&size={size}"),
    };
    let shown = drivers.iter().enumerate().skip(first).take(size);
    let queue = Queue {
        who: context.who(),
        drivers_total: counted(total as u64, "driver"),
        apps_total: counted(apps.len() as u64, "application"),
        reasons: reasons(
            drivers
                .iter()
                .take(summed)
                .map(|d| driver_reason(d, &waits)),
        ),
        reasons_of: match summed < total {
            true => format!("of the first {}", count(summed as u64)),
            false => String::new(),
        },
        drivers: shown
            .map(|(place, d)| driver_row(context, place, d, &waits))
            .collect(),
        apps: apps
            .iter()
            .take(APPS_SHOWN)
            .enumerate()
            .map(|(place, a)| app_row(context, place, a, &waits))
            .collect(),
        apps_left: apps.len().saturating_sub(APPS_SHOWN),
        range: match total {
            0 => "Nothing".to_owned(),
            _ => format!(
                "{}–{} of {}",
                count(first as u64 + 1),
                count(last as u64),
                count(total as u64)
            ),
        },
        previous: (page > 1).then(|| link(page - 1)),
        next: (last < total).then(|| link(page + 1)),
        frame: context.frame("/queue"),
    };
    Ok(queue.render()?)
}

/// The first `count` by their keys, in order. The others, which may be very many, are not brought into order.
fn first_of<K: Ord + Copy, T>(mut rows: Vec<(K, T)>, count: usize) -> Vec<T> {
    if count < rows.len() {
        rows.select_nth_unstable_by_key(count, |(key, _)| *key);
        rows.truncate(count);
    }
    rows.sort_unstable_by_key(|(key, _)| *key);
    rows.into_iter().map(|(_, row)| row).collect()
}

fn asked(context: &Context) -> Result<(usize, usize), BadQuery> {
    let Asked { page, size } = list::read(&context.uri)?;
    let page = list::number("page", page, 1, usize::MAX)?;
    Ok((page, list::number("size", size, SIZE_DEFAULT, SIZE_MAX)?))
}

fn driver_row(
    context: &Context,
    place: usize,
    driver: &Driver,
    waits: &Waits<'_, ClusterView>,
) -> Waiting {
    let id = driver.id.as_str();
    Waiting {
        place: count(place as u64 + 1),
        link: Link::to(id, &["drivers", id]),
        id: id.to_owned(),
        name: driver.spec.name.clone(),
        user: Link::none(driver.spec.user.clone()),
        state: Pill::of(driver.state.name()),
        needs: needs(u64::from(driver.spec.cores.0), driver.spec.memory.0),
        priority: driver.spec.priority,
        since: When::new(driver.submitted_at.0, context.now.0),
        reason: driver_reason(driver, waits),
    }
}

fn app_row(
    context: &Context,
    place: usize,
    app: &Application,
    waits: &Waits<'_, ClusterView>,
) -> Waiting {
    let id = app.id.as_str();
    let cores = app.spec.cores_per_executor.map_or(1, |cores| cores.0);
    Waiting {
        place: count(place as u64 + 1),
        link: Link::to(id, &["apps", id]),
        id: id.to_owned(),
        name: app.spec.name.clone(),
        user: Link::none(app.spec.user.clone()),
        state: Pill::of(app.state.name()),
        needs: format!(
            "{} each",
            needs(u64::from(cores), app.spec.memory_per_executor.0)
        ),
        priority: app.spec.priority,
        since: When::new(app.registered_at.0, context.now.0),
        reason: match app.message.as_str() {
            "" => waits.app(app),
            message => message.to_owned(),
        },
    }
}

fn needs(cores: u64, mib: u64) -> String {
    format!("{}, {}", counted(cores, "core"), mebibytes(mib))
}

/// A driver that failed and waits for its next try says so itself.
fn driver_reason(driver: &Driver, waits: &Waits<'_, ClusterView>) -> String {
    match driver.message.as_str() {
        "" => waits.driver(driver),
        message => message.to_owned(),
    }
}

/// The reasons, the most frequent first.
fn reasons(all: impl Iterator<Item = String>) -> Vec<(String, String)> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for reason in all {
        *counts.entry(reason).or_default() += 1;
    }
    let mut reasons: Vec<(String, u64)> = counts.into_iter().collect();
    reasons.sort_by_key(|(_, n)| Reverse(*n));
    reasons.truncate(REASONS_SHOWN);
    reasons
        .into_iter()
        .map(|(reason, n)| (count(n), reason))
        .collect()
}

/// It has no executor, and wants one.
fn app_waits(view: &ClusterView, app: &Application) -> bool {
    let waits = app.state == ApplicationState::Waiting && app.executors_wanted != Some(0);
    waits
        && !view
            .executors_of(&app.id)
            .any(|executor| !executor.state.is_final())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_many_are_in_order() {
        let rows: Vec<(u32, u32)> = (0..100).map(|n| (n * 37 % 100, n)).collect();
        let mut sorted = rows.clone();
        sorted.sort_unstable();
        for count in [0, 1, 10, 99, 100, 200] {
            let expected = sorted.iter().take(count).map(|(_, row)| *row);
            assert_eq!(first_of(rows.clone(), count), expected.collect::<Vec<_>>());
        }
    }
}
