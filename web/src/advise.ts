// What `advise` and `diff` found.

import type { AdviceDocument, Advised, AdvisedLayout, DiffDocument, DiffFigures, SurveyDocument } from "./documents";
import { h, section } from "./dom";
import { table } from "./table";
import { change, exact, fixed, percent, signed } from "./number";
import { interleavings } from "./text";
import { editsOf, mark } from "./whatif";

export function adviceView(advice: Advised): HTMLElement {
  return "front" in advice ? layoutAdvice(advice) : survey(advice);
}

function layoutAdvice(advice: AdviceDocument): HTMLElement {
  const best = advice.recommended;
  const root = section("advise", "Advice", `The search found ${advice.found} layouts of ${advice.type}; replay confirms or rejects them.`);
  if (best) root.append(...recommended(advice, best));
  else root.append(h("p", { class: "empty" }, noGain(advice.others.length)));
  root.append(...withGrowth(advice), ...aligned(advice));
  return root;
}

function recommended(advice: AdviceDocument, best: AdvisedLayout): HTMLElement[] {
  return [
    h("h3", {}, `Recommended: ${best.moves} ${best.moves === 1 ? "move" : "moves"}`),
    effects("Effects of the recommended layout", best.effects, advice.machines),
    ...(best.starts_lines
      ? [h("p", { class: "note" }, "With this layout objects start on cache lines, unlike the recorded ones: part of the gain can come from that alone.")]
      : []),
    h("details", { open: true }, h("summary", {}, "The edit"), editsOf(best.edits)),
    groups(best),
    h("h3", {}, "Moves against gain"),
    table({
      label: "Moves against gain",
      columns: [
        { title: "moves", value: (p) => p.moves },
        { title: "cost by the fast model", value: (p) => p.model, text: (p) => percent(p.model), help: "relative to the recorded order's" },
        { title: "by replay", value: (p) => p.replayed ?? Infinity, text: (p) => (p.replayed === null ? "-" : percent(p.replayed)) },
        { title: "", value: (p) => (p.recommended ? "recommended" : "") },
      ],
      rows: advice.front,
    }),
  ];
}

/** What more lines gain, where none was allowed. */
function withGrowth(advice: AdviceDocument): HTMLElement[] {
  const grown = advice.with_growth;
  if (!grown) return [];
  return [
    h("h3", {}, `With more lines: --max-growth ${grown.max_growth}`),
    effects("Effects of a layout with more lines", grown.layout.effects, advice.machines),
    h("details", {}, h("summary", {}, "Its edit"), editsOf(grown.layout.edits)),
  ];
}

/** What objects gain that start lines. */
function aligned(advice: AdviceDocument): HTMLElement[] {
  const found = advice.aligned;
  if (!found) return [];
  return [
    h("h3", {}, `Objects aligned to lines: ${found.astray} of ${found.objects} are not`),
    h("p", {}, found.advice),
    effects("Effects of objects aligned to lines", found.effects, advice.machines),
    h("details", {}, h("summary", {}, "The edit"), editsOf(found.edits)),
  ];
}

function effects(label: string, of: AdvisedLayout["effects"], machines: string[]): HTMLElement {
  const rows = of.flatMap((list, recording) =>
    list.map((effect, i) => ({ recording: recording + 1, machine: machines[i] ?? "", effect })));
  return table({
    label,
    columns: [
      { title: "recording", value: (row) => `${row.recording}` },
      { title: "machine", value: (row) => row.machine },
      { title: "the type", value: (row) => row.effect.types.difference, text: (row) => change(row.effect.types.difference, row.effect.types.ci95, row.effect.types.without) },
      { title: "everything", value: (row) => row.effect.whole.difference, text: (row) => change(row.effect.whole.difference, row.effect.whole.ci95, row.effect.whole.without) },
      { title: "verdict", value: (row) => row.effect.types.difference, text: (row) => mark(row.effect.types, row.effect.types.without) },
    ],
    rows,
  });
}

function groups(layout: AdvisedLayout): HTMLElement {
  return h("div", {}, h("h3", {}, "Why"), ...layout.groups.map((group) =>
    h("div", { class: "reasons" },
      h("h4", {}, `${group.name}${group.sealed ? ", alone on its lines" : ""}`),
      h("p", {}, `${group.members.map((m) => m.name).join(", ")}: ` +
        (group.loads_per_write === null ? "never written" : `${fixed(group.loads_per_write, 1)} loads for each write`) +
        `; saves ${percent(group.saves)} of the type's cost.`),
      group.read_in.length > 0 && h("p", {}, `Read in ${group.read_in.join(", ")}.`),
      group.written_in.length > 0 && h("p", {}, `Written in ${group.written_in.join(", ")}.`),
      group.kept_from.length > 0 && h("p", {}, `Kept apart from ${group.kept_from.map((k) => `${k.name} (one line with it costs ${percent(k.share)})`).join(", ")}.`))));
}

/** Why no layout is recommended. */
function noGain(replayed: number): string {
  if (replayed === 0) return "The search found no layout that is worth a replay.";
  return `Replay confirmed no gain for ${replayed === 1 ? "1 candidate" : `${replayed} candidates`}.`;
}

function survey(document: SurveyDocument): HTMLElement {
  return section("advise", "Where a layout can gain", `On ${document.machines.join(", ")}, ${interleavings(document.interleavings ?? 1, document.seed)}; the estimate is the fast model's best layout of a short search, without cold and capacity misses; in brackets: the struct inside the type that it reorders.`,
    table({
      label: "Types by what a layout can gain",
      columns: [
        { title: "type", value: (row) => (row.inside ? `${row.name} (${row.inside})` : row.name) },
        { title: "not true sharing", bar: true, value: (row) => row.cost * (row.false_sharing + row.other_misses), text: (row) => exact(row.cost * (row.false_sharing + row.other_misses)) },
        { title: "cycles", value: (row) => row.cost, text: (row) => exact(row.cost) },
        { title: "of all", value: (row) => row.share, text: (row) => percent(row.share) },
        { title: "true sharing", value: (row) => row.true_sharing, text: (row) => percent(row.true_sharing) },
        { title: "false sharing", value: (row) => row.false_sharing, text: (row) => percent(row.false_sharing) },
        { title: "estimate", value: (row) => row.estimate?.gain ?? 0, text: (row) => (row.estimate ? `${exact(row.estimate.gain)}, ${percent(row.estimate.share)}${row.estimate.sampled_from > row.estimate.rated ? ", on a sample" : ""}` : "-") },
        { title: "moves", value: (row) => row.estimate?.moves ?? 0, text: (row) => (row.estimate ? `${row.estimate.moves}` : "-") },
        { title: "not searched because", value: (row) => row.why_not ?? "" },
      ],
      rows: document.types,
      sorted: 1,
      search: (row) => row.name,
      copy: true,
    }));
}

const NONE: DiffFigures = { loads: 0, stores: 0, misses: 0, cycles: 0, sharing_misses: 0, sharing_cycles: 0 };

export function diffView(diff: DiffDocument): HTMLElement {
  const names = [...new Set([...Object.keys(diff.a.fields), ...Object.keys(diff.b.fields)])].sort();
  const rows = names.map((name) => ({ name, a: diff.a.fields[name] ?? null, b: diff.b.fields[name] ?? null }));
  type Row = (typeof rows)[number];
  const side = (title: string, of: (row: Row) => DiffFigures | null, value: (f: DiffFigures) => number) => ({
    title,
    value: (row: Row) => value(of(row) ?? NONE),
    text: (row: Row) => {
      const figures = of(row);
      return figures ? exact(value(figures)) : "-";
    },
  });
  const both = (title: string, value: (f: DiffFigures) => number) => [
    side(`${title} A`, (row) => row.a, value),
    side(`${title} B`, (row) => row.b, value),
  ];
  const difference = (value: (f: DiffFigures) => number) => (row: Row) => value(row.b ?? NONE) - value(row.a ?? NONE);
  const changed = difference((f) => (diff.machine === null ? f.loads + f.stores : f.cycles));
  return section("diff", `${diff.type ?? "All types"} in two recordings`,
    `A has ${exact(diff.a.accesses)} accesses by ${diff.a.cpus} CPUs, B ${exact(diff.b.accesses)} by ${diff.b.cpus}. - marks a field that the other kernel does not have, or that was not accessed.`,
    table<Row>({
      label: "Fields in both recordings",
      columns: [
        { title: "field", value: (row) => row.name },
        ...both("loads", (f) => f.loads),
        ...both("stores", (f) => f.stores),
        ...(diff.machine === null ? [] : both("cycles", (f) => f.cycles)),
        {
          title: "B minus A", help: diff.machine === null ? "accesses" : "cycles", value: (row) => Math.abs(changed(row)),
          text: (row) => signed(changed(row), 0),
        },
      ],
      rows,
      sorted: diff.machine === null ? 5 : 7,
      search: (row) => row.name,
      copy: true,
    }));
}
