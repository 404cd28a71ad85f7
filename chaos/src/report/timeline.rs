//! The timeline, drawn: lanes under each other, one scale of time for all of them.
//!
//! The drawing itself is plotters'. On top of it lie transparent areas that say what is under the pointer, and the flags
//! of what is broken, which the page's table of checks links to.

use askama::Template;
use plotters::{
    coord::{Shift, types::RangedCoordf64},
    prelude::{
        Cartesian2d, ChartBuilder, ChartContext, DrawingArea, IntoDrawingArea, PathElement,
        Rectangle, SVGBackend, Text,
    },
    style::{Color, IntoFont, TextStyle},
};

use super::{
    ReportError,
    lanes::{Bar, Lane, Tick, seconds},
    making,
    palette::{self, Paint},
};
use crate::checks::Violation;

/// Height of a row of bars.
const ROW: f64 = 13.0;
/// Room above and below the rows of a lane.
const PAD: f64 = 5.0;
/// Room above the lanes, for the flags.
const TOP: u32 = 26;
/// Room below them, for the scale.
const BOTTOM: u32 = 26;
/// How wide a second is, unless the run is very short or very long.
const SECOND: f64 = 16.0;
/// The narrowest and the widest drawing.
const WIDTHS: (f64, f64) = (1_066.0, 24_000.0);
/// Room on both sides, for the numbers at the ends of the scale.
const SIDE: u32 = 12;
/// How wide a letter is, about.
const LETTER: f64 = 6.4;
/// How near to a thin thing the pointer must be.
const NEAR: f64 = 4.0;

/// A drawn timeline.
#[derive(Debug, Clone)]
pub(super) struct Drawn {
    /// The drawing.
    pub(super) svg: String,
    /// The names of the lanes beside it.
    pub(super) labels: Vec<Label>,
    /// Room above the first label.
    pub(super) top: u32,
}

/// The name of a lane.
#[derive(Debug, Clone)]
pub(super) struct Label {
    /// What it says.
    pub(super) title: String,
    /// Among which it stands; empty, unless it is the first one.
    pub(super) group: &'static str,
    /// How high the lane is.
    pub(super) height: u32,
}

/// What says something when it is pointed at.
#[derive(Debug)]
struct Area {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
    says: String,
}

/// The flag of a broken property.
#[derive(Debug)]
struct Flag<'a> {
    x: f64,
    check: &'a str,
    says: String,
}

/// What lies on top of the drawing.
#[derive(Debug, Template)]
#[template(path = "overlay.svg")]
struct Overlay<'a> {
    areas: Vec<Area>,
    flags: Vec<Flag<'a>>,
    bottom: f64,
}

/// Where things are.
#[derive(Debug, Clone, Copy)]
struct Scale {
    end: f64,
    width: f64,
    height: f64,
}

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Draws the lanes, from 0 to `end`, and a flag for the first violation of each check.
pub(super) fn draw(
    lanes: &[Lane],
    firsts: &[&Violation],
    calm: Option<u64>,
    end: u64,
) -> Result<Drawn, ReportError> {
    let end = (end as f64 / 1e6).max(0.001);
    let height: f64 = lanes.iter().map(lane_height).sum();
    let width = (end * SECOND).clamp(WIDTHS.0, WIDTHS.1).round();
    let scale = Scale { end, width, height };
    let mut svg = String::new();
    let size = (width as u32 + 2 * SIDE, height as u32 + TOP + BOTTOM);
    {
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        paint(&root, scale, lanes, calm).map_err(making("the timeline"))?;
    }
    let overlay = Overlay {
        areas: scale.areas(lanes),
        flags: firsts.iter().map(|first| scale.flag(first)).collect(),
        bottom: height + f64::from(TOP),
    };
    let overlay = overlay.render().map_err(|error| error.to_string());
    let overlay = overlay.map_err(making("the timeline"))?;
    let body = svg.trim_end().trim_end_matches("</svg>").to_owned();
    Ok(Drawn {
        svg: format!("{body}{overlay}</svg>"),
        labels: labels(lanes),
        top: TOP,
    })
}

fn paint(
    root: &DrawingArea<SVGBackend<'_>, Shift>,
    scale: Scale,
    lanes: &[Lane],
    calm: Option<u64>,
) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| error.to_string();
    let mut chart = ChartBuilder::on(root)
        .margin_top(TOP)
        .margin_left(SIDE)
        .margin_right(SIDE)
        .x_label_area_size(BOTTOM)
        .build_cartesian_2d(0.0..scale.end, 0.0..scale.height)
        .map_err(|error| failed(&error))?;
    stripes(&mut chart, scale, lanes, calm)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .x_labels((scale.width / 90.0) as usize)
        .x_label_formatter(&|at| format!("{at:.0} s"))
        .bold_line_style(palette::GRID.color())
        .light_line_style(palette::GRID.color().mix(0.0))
        .axis_style(palette::GRID.color())
        .label_style(text(palette::MUTED))
        .draw()
        .map_err(|error| failed(&error))?;
    let mut top = 0.0;
    for lane in lanes {
        states(&mut chart, scale, lane, top)?;
        bars(&mut chart, scale, lane, top)?;
        ticks(&mut chart, scale, lane, top)?;
        top += lane_height(lane);
    }
    root.present().map_err(|error| failed(&error))
}

/// The ground of lanes, and the calm.
fn stripes(
    chart: &mut Chart<'_, '_>,
    scale: Scale,
    lanes: &[Lane],
    calm: Option<u64>,
) -> Result<(), String> {
    let mut filled: Vec<(f64, f64, f64, Paint)> = Vec::new();
    let mut top = 0.0;
    for (n, lane) in lanes.iter().enumerate() {
        let bottom = top + lane_height(lane);
        if n % 2 == 1 {
            filled.push((0.0, top, bottom, palette::STRIPE));
        }
        top = bottom;
    }
    if let Some(calm) = calm {
        filled.push((calm as f64 / 1e6, 0.0, scale.height, palette::CALM));
    }
    let boxes = filled.into_iter().map(|(from, top, bottom, paint)| {
        let corners = [(from, scale.up(top)), (scale.end, scale.up(bottom))];
        Rectangle::new(corners, paint.color().filled())
    });
    chart
        .draw_series(boxes)
        .map(drop)
        .map_err(|error| error.to_string())
}

/// How a node was, behind all of its rows.
fn states(chart: &mut Chart<'_, '_>, scale: Scale, lane: &Lane, top: f64) -> Result<(), String> {
    let bottom = top + lane_height(lane);
    let boxes = lane.states.iter().map(|state| {
        let (from, to) = scale.visible(state);
        let corners = [(from, scale.up(top + 2.0)), (to, scale.up(bottom - 2.0))];
        Rectangle::new(corners, state.paint.color().filled())
    });
    chart
        .draw_series(boxes)
        .map(drop)
        .map_err(|error| error.to_string())
}

fn bars(chart: &mut Chart<'_, '_>, scale: Scale, lane: &Lane, top: f64) -> Result<(), String> {
    let boxes = lane.bars.iter().map(|bar| {
        let (from, to) = scale.visible(bar);
        let y = row_top(top, bar.row);
        let corners = [(from, scale.up(y)), (to, scale.up(y + ROW - 2.0))];
        Rectangle::new(corners, bar.paint.color().filled())
    });
    chart
        .draw_series(boxes)
        .map_err(|error| error.to_string())?;
    let roomy = lane.bars.iter().filter(|bar| {
        let (from, to) = scale.visible(bar);
        let letters = bar.label.chars().count() as f64;
        letters > 0.0 && (to - from) / scale.end * scale.width > letters * LETTER + 8.0
    });
    let labels = roomy.map(|bar| {
        let (from, _) = scale.visible(bar);
        let x = from + 4.0 / scale.width * scale.end;
        let y = row_top(top, bar.row) + 0.5;
        Text::new(bar.label.clone(), (x, scale.up(y)), text(palette::ON_BAR))
    });
    chart
        .draw_series(labels)
        .map(drop)
        .map_err(|error| error.to_string())
}

fn ticks(chart: &mut Chart<'_, '_>, scale: Scale, lane: &Lane, top: f64) -> Result<(), String> {
    // What went well first, so that the rest lies on top of it.
    let (well, rest): (Vec<_>, Vec<_>) = lane
        .ticks
        .iter()
        .partition(|tick| tick.paint == palette::OK || tick.paint == palette::READ);
    let lines = well.into_iter().chain(rest).map(|tick| {
        let x = tick.at as f64 / 1e6;
        let y = row_top(top, tick.row);
        let points = vec![(x, scale.up(y)), (x, scale.up(y + ROW - 2.0))];
        PathElement::new(points, tick.paint.color().stroke_width(2))
    });
    chart
        .draw_series(lines)
        .map(drop)
        .map_err(|error| error.to_string())
}

fn labels(lanes: &[Lane]) -> Vec<Label> {
    let mut before = "";
    let label = |lane: &Lane| {
        let group = if lane.group == before { "" } else { lane.group };
        before = lane.group;
        Label {
            title: lane.title.clone(),
            group,
            height: lane_height(lane) as u32,
        }
    };
    lanes.iter().map(label).collect()
}

fn lane_height(lane: &Lane) -> f64 {
    // Narrower ones would not hold their names.
    (lane.rows as f64 * ROW + 2.0 * PAD).max(22.0)
}

fn row_top(top: f64, row: usize) -> f64 {
    top + PAD + row as f64 * ROW
}

/// The font of drawings; the page's style sheet chooses the family.
pub(super) fn text(paint: Paint) -> TextStyle<'static> {
    ("sans-serif", 11).into_font().color(&paint.color())
}

// === impl Scale ===

impl Scale {
    /// Drawings count from the bottom.
    fn up(self, y: f64) -> f64 {
        self.height - y
    }

    /// From and to, in seconds; wide enough to be seen.
    fn visible(self, bar: &Bar) -> (f64, f64) {
        let from = bar.from as f64 / 1e6;
        let to = bar.to as f64 / 1e6;
        (from, to.max(from + 1.5 / self.width * self.end))
    }

    fn wide(self, seconds: f64) -> f64 {
        seconds / self.end * self.width
    }

    fn x(self, seconds: f64) -> f64 {
        f64::from(SIDE) + self.wide(seconds)
    }

    fn areas(self, lanes: &[Lane]) -> Vec<Area> {
        let mut areas = Vec::new();
        let mut top = f64::from(TOP);
        for lane in lanes {
            let height = lane_height(lane);
            for state in &lane.states {
                areas.push(self.area(state, top, height));
            }
            for bar in &lane.bars {
                areas.push(self.area(bar, row_top(top, bar.row), ROW));
            }
            areas.extend(lane.ticks.iter().map(|tick| self.near(tick, top)));
            top += height;
        }
        areas
    }

    fn area(self, bar: &Bar, y: f64, height: f64) -> Area {
        let (from, to) = self.visible(bar);
        Area {
            x: self.x(from),
            y,
            width: self.wide(to - from),
            height,
            says: bar.says.clone(),
        }
    }

    fn near(self, tick: &Tick, top: f64) -> Area {
        Area {
            x: self.x(tick.at as f64 / 1e6) - NEAR,
            y: row_top(top, tick.row),
            width: 2.0 * NEAR,
            height: ROW,
            says: tick.says.clone(),
        }
    }

    fn flag(self, violation: &Violation) -> Flag<'_> {
        let at = seconds(violation.time);
        Flag {
            x: self.x(violation.time as f64 / 1e6),
            check: violation.check,
            says: format!("{} at {at}: {}", violation.check, violation.message),
        }
    }
}
