// A dashboard in JSON, by the types of Grafana.

import type { AnnotationQuery, Dashboard, FieldConfig, FieldConfigSource, Panel, RowPanel } from "@grafana/schema";
import type * as stat from "@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen";
import type * as series from "@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen";

/** Options of which some are given: Grafana has a default for each. */
type Some<T> = T extends (infer Item)[] ? Item[] : T extends object ? { [Name in keyof T]?: Some<T[Name]> } : T;

/** In JSON the values of an enum are plain. */
type Json<T> = T extends string
  ? `${T}`
  : T extends (infer Item)[]
    ? Json<Item>[]
    : T extends object
      ? { [Name in keyof T]: Json<T[Name]> }
      : T;

/** A panel whose options and fields are those of its type, and no others. */
type Drawn<Type, Options, Field> = Omit<Panel, "options" | "fieldConfig"> & {
  type: Type;
  options: Some<Options>;
  fieldConfig: Omit<FieldConfigSource, "defaults"> & {
    defaults: Omit<FieldConfig, "custom"> & { custom?: Some<Field> };
  };
};

/** What the data source of Prometheus reads of an annotation; Grafana has no type for it. */
type Annotation = AnnotationQuery & { expr: string; step: string; titleFormat: string; tagKeys: string };

/** A dashboard with the kinds of panels that there are here. */
export type OurDashboard = Json<
  Omit<Dashboard, "annotations" | "panels"> & {
    annotations: { list: Annotation[] };
    panels: (
      | Drawn<"timeseries", series.Options, series.FieldConfig>
      | Drawn<"stat", stat.Options, Record<string, never>>
      | (RowPanel & { type: "row" })
    )[];
  }
>;
