//! An application: why it gets no (more) executors, what it has, how it ended.

use super::{
    Explanation, Facts, Queue, Wait, Waits,
    verdict::{rooms, verdicts, with_reason},
    waits::Reason,
    words,
};
use crate::{
    config::EXECUTORS_PER_APP_MAX,
    ids::ProfileId,
    state::{
        app::{Application, ApplicationState},
        index::{app_load::AppLoad, place::Group},
    },
    time::Timestamp,
};

const ORDER: &str = "by priority, then first come, first served, behind all drivers";

/// What is said of an application whose session lives and whose program does not come for its events.
pub const NO_PROGRESS: &str = "heartbeating, no progress";

pub(super) fn explain(facts: &impl Facts, app: &Application, now: Timestamp) -> Explanation {
    let mut load = AppLoad::default();
    facts.executors_of(&app.id).for_each(|e| load.insert(e));
    let mut explanation = Explanation {
        id: app.id.to_string(),
        kind: "application",
        state: app.state.name().to_owned(),
        ..Explanation::default()
    };
    match app.state {
        ApplicationState::Waiting | ApplicationState::Running => {
            live(facts, app, &load, now, &mut explanation);
        }
        ApplicationState::Finished => {
            explanation.summary = with_reason("finished", &app.message);
        }
        ApplicationState::Failed => explanation.summary = with_reason("failed", &app.message),
        ApplicationState::Killed => explanation.summary = with_reason("was killed", &app.message),
    }
    if app.state.is_final() && load.active_count() > 0 {
        let left = words::count(load.active_count(), "executor");
        let details = &mut explanation.details;
        details.push(format!("{left} of it are still being ended"));
    }
    explanation
}

fn live(
    facts: &impl Facts,
    app: &Application,
    load: &AppLoad,
    now: Timestamp,
    explanation: &mut Explanation,
) {
    let waits = Waits::of(facts);
    // What it would want if no back-off kept it.
    let ready = Application {
        not_before: None,
        ..app.clone()
    };
    let wants = ready.wants(load, facts.config());
    let mut sentences = Vec::new();
    for profile in std::iter::once(&ProfileId::default()).chain(app.profiles.keys()) {
        let about = match wants.get(profile) {
            Some(group) => {
                let wait = wait(&waits, app, *profile, group, now);
                let reason = wait.reason.clone();
                explanation.waits.push(wait);
                Some(if load.counted_of(*profile) > 0 {
                    format!("for more: {reason}")
                } else {
                    reason
                })
            }
            None => enough(facts, app, *profile, load),
        };
        let about = about.map(|about| of_profile(about, *profile));
        sentences.extend(about);
    }
    if load.active_count() > 0 || sentences.is_empty() {
        let has = format!(
            "has {} with {}",
            words::count(load.active_count(), "executor"),
            words::count(load.cores(), "core")
        );
        sentences.insert(0, has);
    }
    if facts.stalled_since(&app.id).is_some() {
        sentences.insert(0, NO_PROGRESS.to_owned());
    }
    explanation.summary = sentences.join("; ");
    if let Some(since) = facts.stalled_since(&app.id) {
        let away = words::elapsed(since, now);
        explanation.details.push(format!(
            "its session is alive, but its program has not come for its events for {away}: it hangs, or works on one of them"
        ));
    }
    if app.executors_completed > 0 {
        let done = words::count(u64::from(app.executors_completed), "executor");
        explanation.details.push(format!("{done} completed"));
    }
}

fn of_profile(about: String, profile: ProfileId) -> String {
    if profile == ProfileId::default() {
        about
    } else {
        format!("profile {profile}: {about}")
    }
}

/// Why it may have no more executors of a profile, whatever room there is; `None`: nothing is to be said about it.
fn enough(
    facts: &impl Facts,
    app: &Application,
    profile: ProfileId,
    load: &AppLoad,
) -> Option<String> {
    if load.active_count() >= EXECUTORS_PER_APP_MAX {
        return Some(format!(
            "executor limit reached: one application has at most {EXECUTORS_PER_APP_MAX}"
        ));
    }
    if app.executors_left(profile, load) == 0 {
        let further = app.profiles.get(&profile).map(|profile| profile.wanted);
        let wanted = further.or(app.executors_wanted).unwrap_or(0);
        return Some(format!(
            "executor limit reached: it asks for {} in all",
            words::count(u64::from(wanted), "executor")
        ));
    }
    let config = facts.config();
    let (max, needs) = (app.spec.cores_limit(config)?, app.needs(profile)?);
    let max = words::count(u64::from(max.0), "core");
    let (held, unit) = (load.cores(), u64::from(needs.unit()));
    if app.cores_left(load, config) < unit {
        return Some(format!(
            "cores_max reached: it holds {held} of at most {max}, and the next executor needs {unit}"
        ));
    }
    Some(format!(
        "cores_max reached: it holds {held} of at most {max}, too few for min_executors {}",
        app.spec.min_executors
    ))
}

fn wait<F: Facts>(
    waits: &Waits<'_, F>,
    app: &Application,
    profile: ProfileId,
    group: &Group,
    now: Timestamp,
) -> Wait {
    let demand = &group.demand;
    let reason = waits.group_reason(app, group);
    let (workers, more_workers) = verdicts(waits.facts, demand);
    let fits = workers.iter().find(|verdict| verdict.fits);
    let words = match (app.not_before, fits) {
        _ if reason.hopeless => reason.words,
        (Some(at), _) => back_off(app, at, now),
        (None, Some(verdict)) if reason.held.is_empty() => {
            format!("fits on {}: is about to be placed", verdict.worker)
        }
        (None, Some(_) | None) => reason.words,
    };
    Wait {
        profile,
        needs: format!("{} for each executor", words::needs(demand)),
        reason: words,
        hopeless: reason.hopeless,
        queue: place_in_queue(waits.facts, app),
        held: reason.held,
        workers,
        more_workers,
    }
}

fn back_off(app: &Application, at: Timestamp, now: Timestamp) -> String {
    let failures = words::count(u64::from(app.executor_failures), "executor");
    let why = with_reason(&format!("{failures} failed in a row"), &app.message);
    format!("back-off: {why}; next attempt in {}", words::until(at, now))
}

/// Costs a look at all applications.
fn place_in_queue(facts: &impl Facts, app: &Application) -> Queue {
    let order = |app: &Application| app.place(ProfileId::default());
    let live = facts.apps().filter(|app| !app.state.is_final());
    let (mut before, mut length) = (0, 0);
    for other in live {
        length += 1;
        before += u64::from(order(other) < order(app));
    }
    Queue {
        before,
        length,
        order: ORDER,
    }
}

// === impl Waits ===

impl<F: Facts> Waits<'_, F> {
    /// Why an application that has no executor gets none: one sentence, empty if it wants none.
    #[must_use]
    pub fn app(&self, app: &Application) -> String {
        let wants = app.wants(&AppLoad::default(), self.facts.config());
        let first = wants.first_key_value();
        first.map_or_else(String::new, |(_, group)| {
            self.group_reason(app, group).words
        })
    }

    fn group_reason(&self, app: &Application, group: &Group) -> Reason {
        let (user, cores) = (&app.spec.user, group.cores());
        let mut held: Vec<_> = self.user(user, cores).into_iter().collect();
        let mut never = self
            .never(&group.demand)
            .or_else(|| self.beyond_user(user, cores));
        if let Some(gate) = group.gate {
            let (now, empty) = rooms(self.facts, &group.demand, gate);
            let lacking = words::count(gate.executors, "executor");
            let gated = format!(
                "min_executors {}: nothing starts before {lacking} fit at once",
                app.spec.min_executors
            );
            if empty < gate.executors {
                never = never.or_else(|| {
                    Some(format!(
                        "{gated}, and all agents could hold {empty}, were they empty"
                    ))
                });
            } else if now < gate.executors {
                held.push(format!("held: {gated}, and {now} fit now"));
            }
        }
        Reason::of(&group.demand, never, held)
    }
}
