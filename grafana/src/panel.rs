//! One panel: a title, a sentence for whoever wonders whether this is normal, and its queries.
//!
//! In an expression `@` stands for the matchers of the dashboard's variables, so that none of them is forgotten.

use serde_json::{Value, json};

/// What `@` stands for.
const MATCHERS: &str = r#"cluster=~"$cluster",instance=~"$instance""#;

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// A number of things.
    Count,
    /// Things a second.
    PerSecond,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// 0 to 1.
    Ratio,
}

/// How it is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Series,
    /// What adds up to a whole.
    Stacked,
    /// One number.
    Number,
    /// The name of what is.
    Name,
    /// A bar a series, coloured by what it is at.
    Timeline,
}

/// A panel.
#[derive(Debug, Clone)]
pub(crate) struct Panel {
    title: &'static str,
    description: &'static str,
    unit: Unit,
    look: Look,
    width: u64,
    height: u64,
    /// The names of their series, and the expressions.
    queries: Vec<(String, String)>,
    /// From there it is coloured: as a warning, and as trouble.
    limits: Option<(f64, f64)>,
    /// Words for values.
    words: &'static [(&'static str, &'static str, &'static str)],
}

// === impl Unit ===

impl Unit {
    fn grafana(self) -> &'static str {
        match self {
            Self::Count => "short",
            Self::PerSecond => "ops",
            Self::Seconds => "s",
            Self::Bytes => "bytes",
            Self::Ratio => "percentunit",
        }
    }
}

// === impl Panel ===

impl Panel {
    /// Lines over time.
    pub(crate) fn series(title: &'static str, unit: Unit, description: &'static str) -> Self {
        Self::new(title, unit, description, Look::Series, 8, 8)
    }

    /// Areas over time that add up.
    pub(crate) fn stacked(title: &'static str, unit: Unit, description: &'static str) -> Self {
        Self::new(title, unit, description, Look::Stacked, 8, 8)
    }

    /// One number, as it is now.
    pub(crate) fn number(title: &'static str, unit: Unit, description: &'static str) -> Self {
        Self::new(title, unit, description, Look::Number, 4, 4)
    }

    /// The name of the series that there is.
    pub(crate) fn name(title: &'static str, description: &'static str) -> Self {
        Self::new(title, Unit::Count, description, Look::Name, 8, 4)
    }

    /// A coloured bar for each series. `words`: value, word, colour.
    pub(crate) fn timeline(
        title: &'static str,
        description: &'static str,
        words: &'static [(&'static str, &'static str, &'static str)],
    ) -> Self {
        let mut panel = Self::new(title, Unit::Count, description, Look::Timeline, 12, 6);
        panel.words = words;
        panel
    }

    fn new(
        title: &'static str,
        unit: Unit,
        description: &'static str,
        look: Look,
        width: u64,
        height: u64,
    ) -> Self {
        Self {
            title,
            description,
            unit,
            look,
            width,
            height,
            queries: Vec::new(),
            limits: None,
            words: &[],
        }
    }

    /// Another query; `legend` names its series.
    pub(crate) fn query(mut self, legend: &str, expression: &str) -> Self {
        self.queries
            .push((legend.to_owned(), with_matchers(expression)));
        self
    }

    /// A gauge of each process.
    pub(crate) fn instances(self, metric: &str) -> Self {
        self.query("{{instance}}", &format!("{metric}{{@}}"))
    }

    /// A gauge, added up over all processes for each value of `label`.
    pub(crate) fn summed(self, label: &str, metric: &str) -> Self {
        self.by(label, &format!("{metric}{{@}}"))
    }

    /// A counter a second, for each value of `label`.
    pub(crate) fn rates(self, label: &str, metric: &str) -> Self {
        self.by(label, &format!("rate({metric}{{@}}[$__rate_interval])"))
    }

    /// How much a counter has grown from point to point, for each value of `label`.
    pub(crate) fn increases(self, label: &str, metric: &str) -> Self {
        self.by(label, &format!("increase({metric}{{@}}[$__rate_interval])"))
    }

    /// The mean of what a histogram has taken in from point to point.
    pub(crate) fn mean(self, legend: &str, histogram: &str) -> Self {
        let sum = |part: &str| format!("sum(rate({histogram}_{part}{{@}}[$__rate_interval]))");
        self.query(legend, &format!("{} / {}", sum("sum"), sum("count")))
    }

    fn by(self, label: &str, expression: &str) -> Self {
        let sum = format!("sum by ({label}) ({expression})");
        self.query(&format!("{{{{{label}}}}}"), &sum)
    }

    /// Percentiles (50 and 99) of a histogram over all that `by` tells apart; empty: nothing.
    pub(crate) fn percentiles(mut self, histogram: &str, by: &str) -> Self {
        let (groups, of) = match by {
            "" => (String::from("le"), String::new()),
            label => (format!("le, {label}"), format!("{{{{{label}}}}} ")),
        };
        let (name, matchers) = histogram.split_once('{').unwrap_or((histogram, "@}"));
        for (share, words) in [("0.5", "p50"), ("0.99", "p99")] {
            let rate =
                format!("sum by ({groups}) (rate({name}_bucket{{{matchers}[$__rate_interval]))");
            let quantile = format!("histogram_quantile({share}, {rate})");
            self = self.query(&format!("{of}{words}"), &quantile);
        }
        self
    }

    /// Coloured from `warning` and from `trouble` on; falling where `trouble` is the smaller.
    pub(crate) fn limits(mut self, warning: f64, trouble: f64) -> Self {
        self.limits = Some((warning, trouble));
        self
    }

    /// As wide as this, of 24.
    pub(crate) fn wide(mut self, width: u64) -> Self {
        self.width = width;
        self
    }

    /// Columns and rows of the grid that it takes.
    pub(crate) fn size(&self) -> (u64, u64) {
        (self.width, self.height)
    }

    /// As Grafana has it, at a place of the grid.
    pub(crate) fn json(&self, id: u64, x: u64, y: u64) -> Value {
        let instant = match self.look {
            Look::Number | Look::Name => true,
            Look::Series | Look::Stacked | Look::Timeline => false,
        };
        let targets: Vec<Value> = self
            .queries
            .iter()
            .zip('A'..)
            .map(|((legend, expression), name)| {
                json!({
                    "datasource": datasource(),
                    "editorMode": "code",
                    "expr": expression,
                    "instant": instant,
                    "range": !instant,
                    "legendFormat": legend,
                    "refId": name.to_string(),
                })
            })
            .collect();
        json!({
            "id": id,
            "type": self.kind(),
            "title": self.title,
            "description": self.description,
            "datasource": datasource(),
            "gridPos": {"x": x, "y": y, "w": self.width, "h": self.height},
            "fieldConfig": {"defaults": self.field(), "overrides": []},
            "options": self.options(),
            "targets": targets,
        })
    }

    fn kind(&self) -> &'static str {
        match self.look {
            Look::Series | Look::Stacked => "timeseries",
            Look::Number | Look::Name => "stat",
            Look::Timeline => "state-timeline",
        }
    }

    fn field(&self) -> Value {
        let custom = match self.look {
            Look::Series => json!({"fillOpacity": 0, "lineWidth": 1, "showPoints": "never"}),
            Look::Stacked => json!({
                "fillOpacity": 40, "lineWidth": 1, "showPoints": "never",
                "stacking": {"group": "A", "mode": "normal"},
            }),
            Look::Number | Look::Name => json!({}),
            Look::Timeline => json!({"fillOpacity": 80, "lineWidth": 0}),
        };
        let options: serde_json::Map<String, Value> = self
            .words
            .iter()
            .zip(0..)
            .map(|((value, word, color), index)| {
                let shown = json!({"text": word, "color": color, "index": index});
                ((*value).to_owned(), shown)
            })
            .collect();
        let mappings = match options.is_empty() {
            true => json!([]),
            false => json!([{"type": "value", "options": options}]),
        };
        json!({
            "unit": self.unit.grafana(),
            "min": 0,
            "color": {"mode": if self.limits.is_some() || !self.words.is_empty() { "thresholds" } else { "palette-classic" }},
            "thresholds": {"mode": "absolute", "steps": self.steps()},
            "mappings": mappings,
            "custom": custom,
        })
    }

    fn steps(&self) -> Value {
        match self.limits {
            None => json!([{"color": "green", "value": null}]),
            Some((warning, trouble)) if warning <= trouble => json!([
                {"color": "green", "value": null},
                {"color": "orange", "value": warning},
                {"color": "red", "value": trouble},
            ]),
            // The less there is, the worse.
            Some((warning, trouble)) => json!([
                {"color": "red", "value": null},
                {"color": "orange", "value": trouble},
                {"color": "green", "value": warning},
            ]),
        }
    }

    fn options(&self) -> Value {
        let text = if self.look == Look::Name {
            "name"
        } else {
            "auto"
        };
        match self.look {
            Look::Series | Look::Stacked => json!({
                "legend": {"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []},
                "tooltip": {"mode": "multi", "sort": "desc"},
            }),
            Look::Number | Look::Name => json!({
                "colorMode": "value",
                "graphMode": "none",
                "justifyMode": "auto",
                "orientation": "auto",
                "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": false},
                "textMode": text,
                "wideLayout": true,
                "showPercentChange": false,
                "percentChangeColorMode": "standard",
            }),
            Look::Timeline => json!({
                "alignValue": "left",
                "mergeValues": true,
                "rowHeight": 0.9,
                "showValue": "auto",
                "legend": {"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []},
                "tooltip": {"mode": "single", "sort": "none"},
            }),
        }
    }
}

/// The datasource that the dashboard's variable names.
pub(crate) fn datasource() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

/// `expression` with the variables' matchers in the place of `@`.
pub(crate) fn with_matchers(expression: &str) -> String {
    expression.replace('@', MATCHERS)
}
