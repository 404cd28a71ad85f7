//! A line over time, as inline SVG: no script, no style of its own, and said in words for those who do not see it.

use std::fmt;

use askama::filters::HtmlSafe;

/// Width and height of the drawing, in its own units.
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 88.0;

/// Values at equal distances, oldest first, with marks at some of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sparkline {
    values: Vec<u64>,
    marks: Vec<usize>,
    label: String,
}

// === impl Sparkline ===

impl Sparkline {
    /// `marks`: places in `values`. `label` says all of it in words; it is escaped.
    #[must_use]
    pub fn new(values: Vec<u64>, marks: Vec<usize>, label: impl Into<String>) -> Self {
        Self {
            values,
            marks,
            label: label.into(),
        }
    }

    /// The largest value.
    #[must_use]
    pub fn top(&self) -> u64 {
        self.values.iter().copied().max().unwrap_or_default()
    }

    fn x(&self, index: usize) -> f64 {
        let last = self.values.len().saturating_sub(1).max(1);
        index as f64 * WIDTH / last as f64
    }

    fn y(&self, value: u64) -> f64 {
        let top = self.top().max(1) as f64;
        // A little air above, so that the line is not cut.
        HEIGHT - value as f64 / top * (HEIGHT - 4.0)
    }
}

impl fmt::Display for Sparkline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = askama::filters::escape(&self.label, askama::filters::Html);
        let label = label.map_err(|_infallible| fmt::Error)?;
        write!(
            f,
            r#"<svg class="spark" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{label}">"#
        )?;
        let mut line = String::new();
        for (index, value) in self.values.iter().enumerate() {
            let join = if index == 0 { 'M' } else { 'L' };
            line.push_str(&format!("{join}{:.1} {:.1}", self.x(index), self.y(*value)));
        }
        if !line.is_empty() {
            write!(
                f,
                r#"<path class="area" d="{line}L{WIDTH} {HEIGHT}L0 {HEIGHT}Z"/>"#
            )?;
            write!(f, r#"<path class="line" d="{line}"/>"#)?;
        }
        write!(f, r#"<path class="base" d="M0 {HEIGHT}H{WIDTH}"/>"#)?;
        for mark in &self.marks {
            write!(
                f,
                r#"<path class="mark" d="M{:.1} 0V{HEIGHT}"/>"#,
                self.x(*mark)
            )?;
        }
        f.write_str("</svg>")
    }
}

impl HtmlSafe for Sparkline {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_in_its_frame_and_says_itself() {
        let chart = Sparkline::new(vec![0, 5, 10], vec![1], "a \"rise\"");
        let svg = chart.to_string();
        assert!(
            svg.contains(r#"d="M0.0 88.0L300.0 46.0L600.0 4.0""#),
            "{svg}"
        );
        assert!(svg.contains(r#"class="mark" d="M300.0 0V88""#), "{svg}");
        assert!(!svg.contains(r#"a "rise""#), "{svg}");
        assert_eq!(chart.top(), 10);
    }

    #[test]
    fn nothing_to_draw_is_an_empty_frame() {
        let svg = Sparkline::new(Vec::new(), Vec::new(), "nothing").to_string();
        assert!(svg.contains("base") && !svg.contains("line"), "{svg}");
    }
}
