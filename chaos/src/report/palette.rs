//! The colours of a report, in the light and in the dark.
//!
//! Drawings name the light ones. The page's style sheet gives each of them a variable and redefines these for dark
//! screens, so that a drawing is made once. No two entries have the same light colour, or one would take the other's
//! dark one with it.

use std::fmt::Write;

use plotters::style::RGBColor;

/// One colour: what it is for, and how it looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Paint {
    name: &'static str,
    light: u32,
    dark: u32,
}

const fn paint(name: &'static str, light: u32, dark: u32) -> Paint {
    Paint { name, light, dark }
}

/// Text.
pub(super) const INK: Paint = paint("ink", 0x1f_2530, 0xe6_e9ef);
/// Text that is not read first.
pub(super) const MUTED: Paint = paint("muted", 0x5f_6b7d, 0x9a_a5b5);
/// Lines of a grid.
pub(super) const GRID: Paint = paint("grid", 0xe3_e7ed, 0x2b_323d);
/// The ground of every other lane.
pub(super) const STRIPE: Paint = paint("stripe", 0xf5_f7fa, 0x1b_2029);
/// Text on a filled bar.
pub(super) const ON_BAR: Paint = paint("on-bar", 0xff_fffe, 0x0f_1319);
/// The time after the faults.
pub(super) const CALM: Paint = paint("calm", 0xe4_f4ea, 0x16_2a20);
/// The time without a leader.
pub(super) const GAP: Paint = paint("gap", 0xf9_dada, 0x46_2026);
/// Done.
pub(super) const OK: Paint = paint("ok", 0x1f_9d55, 0x3f_c97d);
/// Surely not done, or ended badly.
pub(super) const FAIL: Paint = paint("fail", 0xd3_3a3a, 0xf2_6d6d);
/// Nobody knows.
pub(super) const UNKNOWN: Paint = paint("unknown", 0xd9_8413, 0xf0_b04c);
/// A submission's process.
pub(super) const WORK: Paint = paint("work", 0x7d_92b8, 0x8f_a6d0);
/// An application's process.
pub(super) const EXECUTOR: Paint = paint("executor", 0xb4_c3dc, 0x56_6a8e);
/// Reads.
pub(super) const READ: Paint = paint("read", 0x9a_a4b3, 0x6f_7b8c);
/// A node that is dead.
pub(super) const DOWN: Paint = paint("down", 0x3a_4252, 0xa8_b1c0);
/// A node that stands still.
pub(super) const STOPPED: Paint = paint("stopped", 0xe3_c48a, 0x7d_6330);
/// Something that is cut off.
pub(super) const CUT: Paint = paint("cut", 0xc9_b6e4, 0x5b_4a7d);
/// A fault of another kind.
pub(super) const FAULT: Paint = paint("fault", 0xb0_5a4a, 0xd9_8575);
/// The median of something.
pub(super) const MEDIAN: Paint = paint("median", 0x2f_6fd6, 0x6f_a2f5);
/// Its long tail.
pub(super) const TAIL: Paint = paint("tail", 0xa4_3f9a, 0xdd_82d4);

/// Masters, one after the other.
const LEADERS: [Paint; 7] = [
    paint("leader-1", 0x3b_6fd8, 0x7f_a8f8),
    paint("leader-2", 0x0e_8f8f, 0x4c_c4c0),
    paint("leader-3", 0x7a_5ad1, 0xae_96f5),
    paint("leader-4", 0xc2_478f, 0xec_86bf),
    paint("leader-5", 0x8a_6d3b, 0xcf_b27a),
    paint("leader-6", 0x4c_7a2e, 0x97_c772),
    paint("leader-7", 0x52_5d78, 0x9f_abc8),
];

const OTHERS: [Paint; 19] = [
    INK, MUTED, GRID, STRIPE, ON_BAR, CALM, GAP, OK, FAIL, UNKNOWN, WORK, EXECUTOR, READ, DOWN,
    STOPPED, CUT, FAULT, MEDIAN, TAIL,
];

/// The colour of the nth master.
pub(super) fn leader(n: usize) -> Paint {
    LEADERS[n % LEADERS.len()]
}

/// The style sheet: a variable for each colour, and rules that make drawings use them.
pub(super) fn css() -> String {
    let all = || OTHERS.iter().chain(&LEADERS);
    let (mut light, mut dark, mut rules) = (String::new(), String::new(), String::new());
    for Paint {
        name,
        light: by_day,
        dark: by_night,
    } in all()
    {
        // Writing to a string cannot fail.
        let _always = write!(light, "--{name}:#{by_day:06x};");
        let _always = write!(dark, "--{name}:#{by_night:06x};");
        let _always = writeln!(
            rules,
            "svg [fill=\"#{by_day:06X}\"]{{fill:var(--{name})}} svg [stroke=\"#{by_day:06X}\"]{{stroke:var(--{name})}}"
        );
    }
    format!(":root{{{light}}}\n@media (prefers-color-scheme:dark){{:root{{{dark}}}}}\n{rules}")
}

// === impl Paint ===

impl Paint {
    /// As drawings name it.
    pub(super) fn color(self) -> RGBColor {
        let [_, red, green, blue] = self.light.to_be_bytes();
        RGBColor(red, green, blue)
    }

    /// Its name in the style sheet.
    pub(super) fn name(self) -> &'static str {
        self.name
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_colour_has_a_light_one_and_a_name_of_its_own() {
        let all = || OTHERS.iter().chain(&LEADERS);
        let lights: BTreeSet<_> = all().map(|paint| paint.light).collect();
        let names: BTreeSet<_> = all().map(|paint| paint.name).collect();
        assert_eq!((lights.len(), names.len()), (26, 26));
    }
}
