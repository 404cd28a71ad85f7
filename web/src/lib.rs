//! What the pages of masters and agents share: style, script, formats, charts, lists, and the rules of their HTTP.
//!
//! Knows nothing of clusters: whoever makes a page turns what it shows into the types here, which write themselves as
//! HTML and escape what they are given. What must never happen: markup that is put together elsewhere from text.
//!
//! * [`assets`]: the style sheet, the script and the icon, embedded.
//! * [`answer`]: pages as HTTP answers, with the headers that keep a browser from being misused.
//! * [`mod@format`]: times, spans, sizes and counts for people.
//! * [`frame`]: what stands around every page.
//! * [`names`]: by which names a server on loopback may be asked.
//! * [`marks`]: states as pills, shares as bars, links.
//! * [`chart`]: a line over time.
//! * [`log_level`]: what a process logs, seen and changed over HTTP.
//! * [`server`]: the HTTP/1 server, and [`patience`]: how many connections it has, and for how long.
//! * [`list`]: tables with sorting, filters and pages, all of it in the address.

pub mod answer;
pub mod assets;
pub mod chart;
pub mod format;
pub mod frame;
pub mod list;
pub mod log_level;
pub mod marks;
pub mod names;
pub mod patience;
pub mod server;
