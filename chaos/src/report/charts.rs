//! Charts over time, and of how failover times are spread.

use std::ops::Range;

use plotters::{
    coord::{Shift, combinators::IntoLogRange},
    prelude::{
        ChartBuilder, Circle, DrawingArea, IntoDrawingArea, LineSeries, PathElement, Rectangle,
        SVGBackend, Text,
    },
    style::{Color, RGBAColor},
};

use super::{
    ReportError,
    failover::Failover,
    making,
    measures::{Spread, latencies},
    palette::{self, Paint},
    timeline::text,
};
use crate::{
    calls::{Call, Outcome},
    history::Op,
};

/// Width and height of a chart over time.
const WIDE: (u32, u32) = (1_200, 220);
/// Width and height of a distribution.
const SMALL: (u32, u32) = (580, 220);
/// Slices of time in which requests are counted together.
const SLICES: usize = 80;
/// Slices of a distribution.
const BINS: usize = 24;
/// Latencies that are shown as dots; of more, every second one, every third one and so on.
const DOTS_MAX: usize = 4_000;
/// So many latencies must there be for lines through them.
const LINES_FROM: usize = 60;
/// Room for the numbers on the left.
const LEFT: u32 = 58;

/// A span of time without a leader, in seconds.
pub(super) type Gap = Range<f64>;

/// How long submissions took, each a dot; the median and the 99th percentile of each slice of time as lines.
pub(super) fn latency(calls: &[Call<'_>], gaps: &[Gap], end: f64) -> Result<String, ReportError> {
    let times: Vec<_> = latencies(calls, Op::Submit).collect();
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, WIDE).into_drawing_area();
        draw_latency(&root, &times, gaps, end).map_err(making("the latency chart"))?;
    }
    Ok(svg)
}

fn draw_latency(
    root: &DrawingArea<SVGBackend<'_>, Shift>,
    times: &[(f64, f64)],
    gaps: &[Gap],
    end: f64,
) -> Result<(), String> {
    let shown = |error: &dyn std::fmt::Display| error.to_string();
    // A tenth of a millisecond is where a network's own time begins.
    let low = times.iter().map(|(_, took)| *took).fold(0.01, f64::min);
    let high = times.iter().map(|(_, took)| *took).fold(0.1, f64::max);
    let (low, high) = (low.max(0.000_1) / 1.5, high * 1.5);
    let mut chart = ChartBuilder::on(root)
        .margin_top(8)
        .margin_right(12)
        .x_label_area_size(24)
        .y_label_area_size(LEFT)
        .build_cartesian_2d(0.0..end, (low..high).log_scale())
        .map_err(|error| shown(&error))?;
    let shaded = gaps.iter().map(|gap| {
        let corners = [(gap.start, low), (gap.end, high)];
        Rectangle::new(corners, palette::GAP.color().filled())
    });
    chart.draw_series(shaded).map_err(|error| shown(&error))?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .y_labels(5)
        .bold_line_style(palette::GRID.color())
        .light_line_style(invisible())
        .axis_style(palette::GRID.color())
        .label_style(text(palette::MUTED))
        .x_label_formatter(&|at| format!("{at:.0} s"))
        .y_label_formatter(&|took| duration(*took))
        .draw()
        .map_err(|error| shown(&error))?;
    let every = times.len().div_ceil(DOTS_MAX).max(1);
    let few = times.len() < LINES_FROM;
    let (size, strength) = if few { (4, 0.9) } else { (2, 0.5) };
    let dots = times
        .iter()
        .step_by(every)
        .map(|dot| Circle::new(*dot, size, palette::OK.color().mix(strength).filled()));
    chart.draw_series(dots).map_err(|error| shown(&error))?;
    let slices = if few { Vec::new() } else { slices(times, end) };
    for (paint, of) in [
        (palette::MEDIAN, (|s: &Spread| s.p50) as fn(&Spread) -> f64),
        (palette::TAIL, |s: &Spread| s.p99),
    ] {
        let line = slices.iter().map(|(at, spread)| (*at, of(spread)));
        let style = paint.color().stroke_width(2);
        chart
            .draw_series(LineSeries::new(line, style))
            .map_err(|error| shown(&error))?;
    }
    root.present().map_err(|error| shown(&error))
}

/// The middle of each slice of time in which something was answered, and how that was spread.
fn slices(times: &[(f64, f64)], end: f64) -> Vec<(f64, Spread)> {
    // Fewer slices where fewer than ten would fall into each.
    let count = (times.len() / 10).clamp(1, SLICES);
    let wide = end / count as f64;
    let slice = |n: usize| {
        let (from, to) = (n as f64 * wide, (n + 1) as f64 * wide);
        let within = times.iter().filter(|(at, _)| (from..to).contains(at));
        let spread = Spread::of(within.map(|(_, took)| *took).collect())?;
        Some((from + wide / 2.0, spread))
    };
    (0..count).filter_map(slice).collect()
}

/// How many submissions a second came to which outcome.
pub(super) fn throughput(
    calls: &[Call<'_>],
    gaps: &[Gap],
    end: f64,
) -> Result<String, ReportError> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, WIDE).into_drawing_area();
        draw_throughput(&root, calls, gaps, end).map_err(making("the throughput chart"))?;
    }
    Ok(svg)
}

fn draw_throughput(
    root: &DrawingArea<SVGBackend<'_>, Shift>,
    calls: &[Call<'_>],
    gaps: &[Gap],
    end: f64,
) -> Result<(), String> {
    let shown = |error: &dyn std::fmt::Display| error.to_string();
    let counts = counts(calls, end);
    let wide = end / SLICES as f64;
    let highest = counts.iter().map(|slice| slice.iter().sum::<u64>()).max();
    let high = (highest.unwrap_or(0).max(1) as f64 / wide) * 1.1;
    let mut chart = ChartBuilder::on(root)
        .margin_top(8)
        .margin_right(12)
        .x_label_area_size(24)
        .y_label_area_size(LEFT)
        .build_cartesian_2d(0.0..end, 0.0..high)
        .map_err(|error| shown(&error))?;
    let shaded = gaps.iter().map(|gap| {
        let corners = [(gap.start, 0.0), (gap.end, high)];
        Rectangle::new(corners, palette::GAP.color().filled())
    });
    chart.draw_series(shaded).map_err(|error| shown(&error))?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .y_labels(5)
        .bold_line_style(palette::GRID.color())
        .light_line_style(invisible())
        .axis_style(palette::GRID.color())
        .label_style(text(palette::MUTED))
        .x_label_formatter(&|at| format!("{at:.0} s"))
        .y_label_formatter(&|rate| format!("{rate:.1}/s"))
        .draw()
        .map_err(|error| shown(&error))?;
    for (n, slice) in counts.iter().enumerate() {
        let mut below = 0.0;
        for (count, paint) in slice.iter().zip(OUTCOMES) {
            let above = below + *count as f64 / wide;
            let (from, to) = (n as f64 * wide, (n as f64 + 0.85) * wide);
            if *count > 0 {
                let corners = [(from, below), (to, above)];
                let bar = Rectangle::new(corners, paint.color().filled());
                chart.draw_series([bar]).map_err(|error| shown(&error))?;
            }
            below = above;
        }
    }
    root.present().map_err(|error| shown(&error))
}

/// In this order on top of each other.
const OUTCOMES: [Paint; 3] = [palette::OK, palette::UNKNOWN, palette::FAIL];

/// Submissions that ended in each slice of time, by outcome.
fn counts(calls: &[Call<'_>], end: f64) -> Vec<[u64; 3]> {
    let mut counts = vec![[0; 3]; SLICES];
    for call in calls.iter().filter(|call| call.op == Op::Submit) {
        let at = call.to.unwrap_or(call.from) as f64 / 1e6;
        let slice = (at / end * SLICES as f64) as usize;
        let outcome = match call.outcome {
            Outcome::Ok => 0,
            Outcome::Unknown => 1,
            Outcome::Fail => 2,
        };
        counts[slice.min(SLICES - 1)][outcome] += 1;
    }
    counts
}

/// How times are spread: how many fall into each slice, with the median and the 99th percentile.
pub(super) fn distribution(times: &[f64], paint: Paint) -> Result<Option<String>, ReportError> {
    let Some(spread) = Spread::of(times.to_vec()) else {
        return Ok(None);
    };
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SMALL).into_drawing_area();
        draw_distribution(&root, times, spread, paint).map_err(making("a distribution"))?;
    }
    Ok(Some(svg))
}

fn draw_distribution(
    root: &DrawingArea<SVGBackend<'_>, Shift>,
    times: &[f64],
    spread: Spread,
    paint: Paint,
) -> Result<(), String> {
    let shown = |error: &dyn std::fmt::Display| error.to_string();
    let end = (spread.max * 1.1).max(0.01);
    let wide = end / BINS as f64;
    let mut bins = [0_u64; BINS];
    for time in times {
        bins[((time / wide) as usize).min(BINS - 1)] += 1;
    }
    let high = bins.iter().max().map_or(1.0, |most| *most as f64 * 1.25);
    let mut chart = ChartBuilder::on(root)
        .margin_top(8)
        .margin_right(12)
        .x_label_area_size(24)
        .y_label_area_size(LEFT)
        .build_cartesian_2d(0.0..end, 0.0..high)
        .map_err(|error| shown(&error))?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .y_labels(4)
        .x_labels(6)
        .bold_line_style(palette::GRID.color())
        .light_line_style(invisible())
        .axis_style(palette::GRID.color())
        .label_style(text(palette::MUTED))
        .x_label_formatter(&|time| duration(*time))
        .y_label_formatter(&|count| whole(*count))
        .draw()
        .map_err(|error| shown(&error))?;
    let boxes = bins.iter().enumerate().filter(|(_, count)| **count > 0);
    let boxes = boxes.map(|(n, count)| {
        let (from, to) = (n as f64 * wide, (n as f64 + 0.9) * wide);
        Rectangle::new([(from, 0.0), (to, *count as f64)], paint.color().filled())
    });
    chart.draw_series(boxes).map_err(|error| shown(&error))?;
    for (name, at, level, paint) in [
        ("median", spread.p50, 0.99, palette::MEDIAN),
        ("p99", spread.p99, 0.88, palette::TAIL),
    ] {
        let line = PathElement::new(vec![(at, 0.0), (at, high)], paint.color().stroke_width(2));
        chart.draw_series([line]).map_err(|error| shown(&error))?;
        // On the side where there is room.
        let x = if at > end * 0.75 {
            at - end * 0.2
        } else {
            at + end * 0.01
        };
        let label = Text::new(
            format!("{name} {}", duration(at)),
            (x, high * level),
            text(paint),
        );
        chart.draw_series([label]).map_err(|error| shown(&error))?;
    }
    root.present().map_err(|error| shown(&error))
}

/// A count; nothing between two.
fn whole(count: f64) -> String {
    if (count - count.round()).abs() < 1e-6 {
        format!("{count:.0}")
    } else {
        String::new()
    }
}

/// Spans of time without a leader.
pub(super) fn gaps(failovers: &[Failover]) -> Vec<Gap> {
    failovers
        .iter()
        .filter(|failover| failover.leader_after > 0.0)
        .map(|failover| failover.at..failover.at + failover.leader_after)
        .collect()
}

/// A time for people.
pub(super) fn duration(seconds: f64) -> String {
    if seconds <= 0.0 {
        "0".to_owned()
    } else if seconds >= 10.0 {
        format!("{seconds:.0} s")
    } else if seconds >= 1.0 {
        format!("{seconds:.1} s")
    } else if seconds >= 0.01 {
        format!("{:.0} ms", seconds * 1e3)
    } else {
        format!("{:.1} ms", seconds * 1e3)
    }
}

fn invisible() -> RGBAColor {
    palette::GRID.color().mix(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short_to_read() {
        let said: Vec<_> = [0.0, 0.000_25, 0.0034, 0.551, 1.25, 12.3]
            .map(duration)
            .into();
        assert_eq!(said, ["0", "0.2 ms", "3.4 ms", "551 ms", "1.2 s", "12 s"]);
    }

    #[test]
    fn a_distribution_of_nothing_is_not_drawn() {
        let drawn = distribution(&[], palette::OK).map_err(|error| error.to_string());
        assert_eq!(drawn, Ok(None));
        let drawn = distribution(&[0.5, 0.6, 0.55], palette::OK).map_err(|error| error.to_string());
        assert!(drawn.is_ok_and(|svg| svg.is_some_and(|svg| svg.contains("median 550 ms"))));
    }
}
