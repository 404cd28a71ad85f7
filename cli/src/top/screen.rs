//! Draws what was seen. Pure: the same picture for the same figures.

use interrex_proto::v1::Event;
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Style, Stylize},
    text::{Line, Span},
    widgets::{Block, Gauge, Paragraph, Row, Table},
};

use super::look::Seen;
use crate::units::timestamp;

/// Draws one picture, on whatever room there is.
pub(super) fn draw(frame: &mut Frame<'_>, seen: &Seen) {
    let masters = seen
        .cluster
        .as_ref()
        .map_or(0, |cluster| cluster.masters.len());
    let rows = u16::try_from(masters).unwrap_or(u16::MAX).saturating_add(3);
    let [head, members, gauges, counts, rates, events] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(rows),
        Constraint::Length(3),
        Constraint::Length(6),
        Constraint::Length(4),
        Constraint::Min(3),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(heading(seen)), head);
    draw_masters(frame, members, seen);
    draw_gauges(frame, gauges, seen);
    frame.render_widget(
        Paragraph::new(lines_of_counts(seen)).block(Block::bordered().title("Work")),
        counts,
    );
    frame.render_widget(
        Paragraph::new(lines_of_rates(seen)).block(Block::bordered().title("The last interval")),
        rates,
    );
    let lines: Vec<Line<'_>> = seen.events.iter().rev().map(line_of_event).collect();
    frame.render_widget(
        Paragraph::new(lines).block(Block::bordered().title("Events")),
        events,
    );
}

fn heading(seen: &Seen) -> Vec<Line<'static>> {
    let first = match &seen.cluster {
        None => Line::from("no master has answered yet"),
        Some(cluster) if cluster.leader.is_empty() => Line::from("nobody leads").red(),
        Some(cluster) => Line::from(vec![
            Span::from(cluster.leader.clone()).green().bold(),
            Span::from(format!(
                " leads in epoch {}, {}   cluster {}",
                cluster.epoch, cluster.state, cluster.cluster_id
            )),
        ]),
    };
    let second = match &seen.trouble {
        Some(trouble) => Line::from(trouble.clone()).yellow(),
        None => Line::from("q ends this").dim(),
    };
    vec![first, second]
}

fn draw_masters(frame: &mut Frame<'_>, area: Rect, seen: &Seen) {
    let masters = seen.cluster.iter().flat_map(|cluster| &cluster.masters);
    let rows = masters.map(|master| {
        let lag = master
            .lag
            .map_or_else(|| "-".to_owned(), |lag| lag.to_string());
        let healthy = if master.healthy { "yes" } else { "NO" };
        let row = Row::new([
            master.id.clone(),
            master.role.clone(),
            healthy.to_owned(),
            lag,
            master.rpc.clone(),
        ]);
        if master.healthy { row } else { row.red() }
    });
    let widths = [16, 12, 8, 10, 24].map(Constraint::Length);
    let header = Row::new(["MASTER", "ROLE", "HEALTHY", "LAG", "RPC"]).bold();
    frame.render_widget(
        Table::new(rows, widths)
            .header(header)
            .block(Block::bordered().title("Masters")),
        area,
    );
}

fn draw_gauges(frame: &mut Frame<'_>, area: Rect, seen: &Seen) {
    let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(area);
    let gib = f64::from(1 << 30);
    for (area, title, name, unit, per) in [
        (left, "Cores", "interrex_cores", "", 1.0),
        (right, "Memory", "interrex_memory_bytes", " GiB", gib),
    ] {
        let used = seen.now.sum(name, &["state=\"used\""]);
        let all = used + seen.now.sum(name, &["state=\"free\""]);
        let ratio = if all > 0.0 {
            (used / all).clamp(0.0, 1.0)
        } else {
            0.0
        };
        let color = if ratio > 0.9 {
            Color::Yellow
        } else {
            Color::Green
        };
        let label = format!("{:.0} of {:.0}{unit}", used / per, all / per);
        let gauge = Gauge::default()
            .block(Block::bordered().title(title))
            .gauge_style(Style::from(color));
        frame.render_widget(gauge.ratio(ratio).label(label), area);
    }
}

fn lines_of_counts(seen: &Seen) -> Vec<Line<'static>> {
    let line = |title: &str, name: &str| {
        let states = seen.now.by(name, "state");
        let words: Vec<String> = states
            .iter()
            .map(|(state, count)| format!("{state} {count:.0}"))
            .collect();
        let words = if words.is_empty() {
            "none".to_owned()
        } else {
            words.join("   ")
        };
        Line::from(vec![
            Span::from(format!("{title:<14}")).bold(),
            Span::from(words),
        ])
    };
    vec![
        line("drivers", "interrex_drivers"),
        line("applications", "interrex_apps"),
        line("executors", "interrex_executors"),
        line("workers", "interrex_workers"),
    ]
}

fn lines_of_rates(seen: &Seen) -> Vec<Line<'static>> {
    let (now, before) = (&seen.now, &seen.before);
    let time = |share, name: &str, labels: &[&str]| {
        let bound = now.quantile(before, share, name, labels);
        bound.map_or_else(
            || "-".to_owned(),
            |bound| format!("{:.1} ms", bound * 1000.0),
        )
    };
    let submissions = now.rate(before, "interrex_submissions_total", &[], seen.over);
    let commit = "interrex_store_op_duration_seconds";
    let waiting = now.sum("interrex_waiting_oldest_seconds", &["kind=\"driver\""]);
    vec![
        Line::from(format!(
            "submissions {submissions:.1}/s   answer p50 {} p99 {}",
            time(0.5, "interrex_submission_duration_seconds", &[]),
            time(0.99, "interrex_submission_duration_seconds", &[]),
        )),
        Line::from(format!(
            "commit p50 {} p99 {}   longest wait of a driver {waiting:.0} s",
            time(0.5, commit, &["op=\"commit\""]),
            time(0.99, commit, &["op=\"commit\""]),
        )),
    ]
}

fn line_of_event(event: &Event) -> Line<'static> {
    let why = if event.why.is_empty() {
        String::new()
    } else {
        format!(": {}", event.why)
    };
    Line::from(vec![
        Span::from(timestamp(event.at_ms)).dim(),
        Span::from(format!("  {:<22}", event.kind)),
        Span::from(format!("{}{why}", event.subject)),
    ])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use interrex_proto::v1::{ClusterResponse, MasterStatus};
    use ratatui::{Terminal, backend::TestBackend};

    use super::*;
    use crate::top::figures::Figures;

    fn picture(seen: &Seen) -> String {
        let mut terminal = Terminal::new(TestBackend::new(100, 30)).unwrap();
        terminal.draw(|frame| draw(frame, seen)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn it_shows_who_leads_what_runs_and_what_is_wrong() {
        let master = |id: &str, healthy| MasterStatus {
            id: id.to_owned(),
            role: "standby".to_owned(),
            healthy,
            ..MasterStatus::default()
        };
        let seen = Seen {
            cluster: Some(ClusterResponse {
                leader: "m2".to_owned(),
                epoch: 7,
                state: "ALIVE".to_owned(),
                masters: vec![master("m1", false), master("m2", true)],
                ..ClusterResponse::default()
            }),
            now: Figures::parse(
                "interrex_cores{state=\"used\"} 3\ninterrex_cores{state=\"free\"} 5\n\
                 interrex_drivers{state=\"RUNNING\"} 3\ninterrex_submissions_total 20\n",
            ),
            before: Figures::parse("interrex_submissions_total 10\n"),
            over: Duration::from_secs(2),
            events: vec![Event {
                kind: "DRIVER_RUNNING".to_owned(),
                subject: "driver-1".to_owned(),
                ..Event::default()
            }],
            trouble: Some("m1 does not answer".to_owned()),
        };
        let picture = picture(&seen);
        for words in [
            "m2 leads in epoch 7, ALIVE",
            "m1 does not answer",
            "3 of 8",
            "RUNNING 3",
            "submissions 5.0/s",
            "DRIVER_RUNNING",
        ] {
            assert!(picture.contains(words), "{words} in\n{picture}");
        }
    }

    #[test]
    fn it_says_so_while_nobody_has_answered() {
        assert!(picture(&Seen::default()).contains("no master has answered yet"));
    }
}
