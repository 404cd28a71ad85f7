//! Pages of a list. Pure: a page is cut from a view.

use interrex_core::{
    explain::Waits,
    ids::{AppId, DriverId, WorkerId},
};
use interrex_proto::{limits::PAGE_SIZE_MAX, v1};
use tonic::Status;

use super::errors;
use crate::{
    edge::{status, validate},
    runtime::view::ClusterView,
};

/// Most entities that one `List` call looks at; a page of a rare state may be short, its token still leads on.
pub const LIST_SCAN_MAX: usize = 20_000;

/// One page: O(page) without a filter, at most [`LIST_SCAN_MAX`] entities with one.
///
/// # Errors
/// `INVALID_ARGUMENT` for a list of nothing, or an unusable token.
pub(super) fn page(
    view: &ClusterView,
    request: &v1::ListRequest,
) -> Result<v1::ListResponse, Status> {
    let token = Some(request.page_token.as_str()).filter(|token| !token.is_empty());
    if let Some(token) = token {
        validate::id("page_token", token).map_err(|e| errors::field(&e))?;
    }
    let size = match request.page_size.min(PAGE_SIZE_MAX) {
        0 => PAGE_SIZE_MAX,
        size => size,
    } as usize;
    let wanted =
        |state: &str| request.state.is_empty() || request.state.eq_ignore_ascii_case(state);
    let mut response = v1::ListResponse::default();
    match request.kind() {
        v1::ListKind::Drivers => {
            let waits = Waits::of(view);
            let after = token.map(DriverId::from);
            (response.drivers, response.next_page_token) = take(
                view.drivers_after(after.as_ref()),
                size,
                |d| d.id.to_string(),
                |d| wanted(d.state.name()).then(|| status::driver_status(view, d, Some(&waits))),
            );
        }
        v1::ListKind::Applications => {
            let waits = Waits::of(view);
            let after = token.map(AppId::from);
            (response.applications, response.next_page_token) = take(
                view.apps_after(after.as_ref()),
                size,
                |a| a.id.to_string(),
                |a| {
                    wanted(a.state.name())
                        .then(|| status::application_status(view, a, Some(&waits)))
                },
            );
        }
        v1::ListKind::Workers => {
            let after = token.map(WorkerId::from);
            (response.workers, response.next_page_token) = take(
                view.workers_after(after.as_ref()),
                size,
                |w| w.id.to_string(),
                |w| wanted(w.state_name()).then(|| status::worker_status(view, w)),
            );
        }
        v1::ListKind::Unspecified => {
            return Err(Status::invalid_argument(
                "kind: is missing; DRIVERS, APPLICATIONS or WORKERS can be listed",
            ));
        }
    }
    Ok(response)
}

/// Up to `size` of what `show` gives, and the token of the next page (empty: there is none).
fn take<'a, E: 'a, T>(
    entities: impl Iterator<Item = &'a E>,
    size: usize,
    id: impl Fn(&E) -> String,
    show: impl Fn(&E) -> Option<T>,
) -> (Vec<T>, String) {
    let mut taken = Vec::new();
    let mut last: Option<&E> = None;
    for (scanned, entity) in entities.enumerate() {
        if taken.len() == size || scanned == LIST_SCAN_MAX {
            return (taken, last.map(id).unwrap_or_default());
        }
        taken.extend(show(entity));
        last = Some(entity);
    }
    (taken, String::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_each_other_without_gaps() {
        let all: Vec<u32> = (0..10).collect();
        let show = |n: &u32| n.is_multiple_of(2).then_some(*n);
        let (first, token) = take(all.iter(), 2, ToString::to_string, show);
        assert_eq!((first, token.as_str()), (vec![0, 2], "2"));
        let (rest, token) = take(all[3..].iter(), 9, ToString::to_string, show);
        assert_eq!((rest, token.as_str()), (vec![4, 6, 8], ""));
        let (exact, token) = take(all[8..].iter(), 2, ToString::to_string, |n| Some(*n));
        assert_eq!(
            (exact, token.as_str()),
            (vec![8, 9], ""),
            "a full last page has no next one"
        );
    }

    #[test]
    fn a_rare_state_costs_a_bounded_scan() {
        let all: Vec<u32> = (0..50_000).collect();
        let (found, token) = take(all.iter(), 5, ToString::to_string, |n| {
            (*n == 49_999).then_some(*n)
        });
        assert_eq!((found, token), (vec![], (LIST_SCAN_MAX - 1).to_string()));
    }
}
