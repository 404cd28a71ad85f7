//! One dashboard: rows of panels, the variables that all of them have, and links to the others.

use serde_json::{Value, json};

use crate::panel::{Panel, datasource, with_matchers};

/// Columns of Grafana's grid.
const COLUMNS: u64 = 24;
/// The version of the JSON that this is written for.
const SCHEMA_VERSION: u64 = 39;
/// What finds the dashboards of Interrex, for the links.
const TAG: &str = "interrex";

/// A dashboard.
#[derive(Debug)]
pub struct Board {
    pub(crate) file: &'static str,
    /// Stable, so that links to it stay true.
    pub(crate) uid: &'static str,
    pub(crate) title: &'static str,
    pub(crate) description: &'static str,
    /// The time that it opens with.
    pub(crate) from: &'static str,
    pub(crate) rows: Vec<Row>,
}

/// Panels under one heading.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) title: &'static str,
    pub(crate) panels: Vec<Panel>,
}

// === impl Board ===

impl Board {
    /// As Grafana imports it.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "uid": self.uid,
            "title": self.title,
            "description": self.description,
            "tags": [TAG],
            "schemaVersion": SCHEMA_VERSION,
            "version": 1,
            "editable": true,
            "graphTooltip": 1,
            "refresh": "10s",
            "time": {"from": self.from, "to": "now"},
            "timezone": "browser",
            "fiscalYearStartMonth": 0,
            "templating": {"list": variables()},
            "annotations": {"list": [annotation()]},
            "links": [links()],
            "panels": self.panels(),
        })
    }

    /// Left to right, and down where a line is full.
    fn panels(&self) -> Vec<Value> {
        let (mut all, mut id, mut y) = (Vec::new(), 0, 0);
        for row in &self.rows {
            id += 1;
            all.push(json!({
                "id": id,
                "type": "row",
                "title": row.title,
                "collapsed": false,
                "gridPos": {"x": 0, "y": y, "w": COLUMNS, "h": 1},
                "panels": [],
            }));
            y += 1;
            let (mut x, mut line) = (0, 0);
            for panel in &row.panels {
                let (width, height) = panel.size();
                if x + width > COLUMNS {
                    (x, y, line) = (0, y + line, 0);
                }
                id += 1;
                all.push(panel.json(id, x, y));
                x += width;
                line = line.max(height);
            }
            y += line;
        }
        all
    }
}

/// The datasource first: the others are asked of it.
fn variables() -> Value {
    let query = |name: &str, label: &str, query: &str| {
        json!({
            "name": name,
            "label": label,
            "type": "query",
            "datasource": datasource(),
            "query": {"query": query, "refId": format!("variable-{name}"), "qryType": 1},
            "refresh": 2,
            "sort": 1,
            "multi": true,
            "includeAll": true,
            // Also what has no such label.
            "allValue": ".*",
            "current": {"text": ["All"], "value": ["$__all"]},
            "options": [],
            "hide": 0,
            "skipUrlSync": false,
        })
    };
    let datasource = json!({
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "refresh": 1,
        "multi": false,
        "includeAll": false,
        "options": [],
        "hide": 0,
        "skipUrlSync": false,
    });
    json!([
        datasource,
        query(
            "cluster",
            "Cluster",
            "label_values(interrex_build_info, cluster)"
        ),
        query(
            "instance",
            "Node",
            r#"label_values(interrex_build_info{cluster=~"$cluster"}, instance)"#
        ),
    ])
}

/// A line through every panel where a leader was elected.
fn annotation() -> Value {
    let won = "changes(interrex_elections_won_total{@}[$__rate_interval]) > 0";
    json!({
        "name": "Elections",
        "enable": true,
        "hide": false,
        "iconColor": "purple",
        "datasource": datasource(),
        "expr": with_matchers(won),
        "step": "10s",
        "titleFormat": "a new leader",
        "textFormat": "{{instance}}",
        "tagKeys": "instance",
    })
}

/// To every other dashboard of Interrex, with the variables and the time that are shown.
fn links() -> Value {
    json!({
        "type": "dashboards",
        "title": "Interrex",
        "tags": [TAG],
        "asDropdown": false,
        "includeVars": true,
        "keepTime": true,
        "targetBlank": false,
        "icon": "external link",
        "tooltip": "",
        "url": "",
    })
}
