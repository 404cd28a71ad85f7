// Writes the dashboards as one TypeScript file in which every part has the type that Grafana gives it: the dashboard, its
// panels with the options of their kind, and their queries. What does not fit does not compile.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const raw = "./node_modules/@grafana/schema/dist/esm/raw";
const panelcfg = (kind, file) => `${raw}/composable/${kind}/panelcfg/x/${file}PanelCfg_types.gen`;
const kinds = {
  timeseries: { module: panelcfg("timeseries", "TimeSeries"), field: true },
  stat: { module: panelcfg("stat", "Stat"), field: false },
  "state-timeline": { module: panelcfg("statetimeline", "StateTimeline"), field: true },
};
const name = (kind) => kind.replaceAll("-", "_");
// What stands for the user: variables, which Grafana fills in.
const literal = (value) => JSON.stringify(value);

console.log(`import type * as dashboard from "${raw}/dashboard/x/dashboard_types.gen";`);
console.log(`import type * as common from "./node_modules/@grafana/schema/dist/esm/common/common.gen";`);
for (const [kind, { module }] of Object.entries(kinds)) {
  console.log(`import type * as ${name(kind)} from "${module}";`);
}
// Enums of TypeScript are no strings; in JSON they are. This takes them as what they are on the wire.
console.log(`type Wire<T> = T extends string ? \`\${T}\` : T extends number ? T : T extends boolean ? T
  : T extends (infer E)[] ? Wire<E>[] : T extends object ? { [K in keyof T]: Wire<T[K]> } : T;`);
// The package has the part that all queries share; what Prometheus' own have is as Grafana documents it.
console.log(`type Query = Wire<common.DataQuery> & { expr: string; instant: boolean; range: boolean; legendFormat: string;
  editorMode: "code" | "builder"; datasource: { type: "prometheus"; uid: string } };`);
let count = 0;
const folder = process.argv[2];
for (const file of readdirSync(folder).sort()) {
  const board = JSON.parse(readFileSync(join(folder, file), "utf8"));
  const panels = board.panels;
  for (const panel of panels) {
    count += 1;
    if (panel.type === "row") {
      console.log(`const row${count}: Wire<dashboard.RowPanel> = ${literal(panel)};`);
      continue;
    }
    const kind = kinds[panel.type];
    if (!kind) throw new Error(`${file}: no type for a panel of kind ${panel.type}`);
    const { options, targets, fieldConfig, ...rest } = panel;
    const { custom, ...defaults } = fieldConfig.defaults;
    console.log(`const panel${count}: Wire<Omit<dashboard.Panel, "options" | "targets" | "fieldConfig">> = ${literal(rest)};`);
    console.log(`const field${count}: Wire<dashboard.FieldConfig> = ${literal(defaults)};`);
    console.log(`const options${count}: Wire<${name(panel.type)}.Options> = ${literal(options)};`);
    if (kind.field) console.log(`const custom${count}: Wire<Partial<${name(panel.type)}.FieldConfig>> = ${literal(custom)};`);
    for (const [index, target] of targets.entries()) {
      console.log(`const query${count}_${index}: Query = ${literal(target)};`);
    }
  }
  const { panels: _panels, annotations, ...rest } = board;
  console.log(`const board${count}: Wire<Omit<dashboard.Dashboard, "panels" | "annotations">> = ${literal(rest)};`);
}
if (count < 50) throw new Error(`only ${count} panels`);
