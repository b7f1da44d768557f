// The rows of the table: what each row compares, and its limits (`must` and `goal`) on the ratio of CPU per request.
// A comparison that fails becomes a row with its reason, so no row is ever missing.
// Rows are measured one after the other.

import type { Workloads } from './fixture.ts';
import { type Conditions, compare, type Figure, medianFigure, totalCpus, type Workload } from './measure.ts';
import type { OPERATIONS } from './options.ts';
import { type PairedFigures, pairedFigures } from './paired.ts';
import type { Scratch } from './scratch.ts';

export interface Comparison {
  id: string;
  label: string;
  /** Names the baseline. */
  against: string;
  baseline: Workload;
  subject: Workload;
  must: number;
  goal: number;
}

export interface Row extends Pick<Comparison, 'id' | 'label' | 'against'> {
  /** Null where nothing was measured. */
  must: number | null;
  goal: number | null;
  baseline?: Figure;
  subject?: Figure;
  /** CPU per request of the subject, divided by that of the baseline: median, lowest and highest of the rounds. */
  ratio?: PairedFigures['ratio'];
  spread?: PairedFigures['spread'];
  /** The ratio of each round. */
  ratios?: PairedFigures['ratios'];
  /** The ratio is above `must`, and the noise of the machine may explain it. */
  isUnsure?: boolean;
  failure?: string;
  /** Why nothing was measured: the service does not offer it. */
  skipped?: string;
}

type Definition = Pick<Comparison, 'label' | 'against' | 'must' | 'goal'>;

const SORTED = { against: 'bare with a counter and that index', must: 1.5, goal: 1.3 };

/** The comparisons of the service with the bare handler. */
const DEFINITIONS: Record<(typeof OPERATIONS)[number], Definition> = {
  get: { label: 'get by id', against: 'bare', must: 1.6, goal: 1.2 },
  list: { label: 'list page 1, exact total', against: 'bare with a counter', must: 1.5, goal: 1.3 },
  sortCreated: { label: 'list by createdAt', ...SORTED },
  sortUpdated: { label: 'list by updatedAt', ...SORTED },
  sortIndexed: { label: 'list by an indexed field', ...SORTED },
  sortTwo: { label: 'list by two fields, indexed together', ...SORTED },
  sortUnindexed: { label: 'list by an unindexed field', against: 'bare with a counter', must: 1.5, goal: 1.3 },
  filter: { label: 'filter, 12 % match, total known', against: 'bare without total', must: 1.8, goal: 1.5 },
  filterCold: { label: 'filter, 12 % match, cold', against: 'bare with count(*)', must: 1.0, goal: 0.6 },
  filterSorted: {
    label: 'two fields filtered, sorted by a third, cold',
    against: 'bare with count(*) and fitting indexes',
    must: 1.5,
    goal: 1.0,
  },
  page: { label: 'page 2000, total', against: 'bare by id first, count(*)', must: 0.4, goal: 0.3 },
  searchRare: { label: 'search, 10 hits', against: 'bare', must: 1.7, goal: 1.4 },
  searchCommon: { label: 'search, 20 % hit, cold', against: 'bare', must: 1.2, goal: 1.0 },
  related: { label: 'list with relation', against: 'the same, bare with a counter', must: 3.0, goal: 2.2 },
  create: { label: 'create', against: 'bare', must: 2.0, goal: 1.6 },
  update: { label: 'update 2 fields', against: 'bare', must: 2.2, goal: 1.8 },
  delete: { label: 'delete', against: 'bare', must: 2.4, goal: 2.0 },
  mixed: { label: '80 % reads of four kinds, 20 % writes', against: 'bare doing the same', must: 2.0, goal: 1.6 },
};

/** Every comparison of the service with the bare handler. */
export function bareComparisons(bare: Workloads, service: Workloads): Comparison[] {
  return Object.entries(DEFINITIONS).map(([name, definition]) => {
    const id = name as keyof Workloads;
    return { id, ...definition, baseline: bare[id], subject: service[id] };
  });
}

/** Measures the comparisons one after the other; calls `progress` after each row. */
export async function measureRows(
  comparisons: readonly Comparison[],
  conditions: Conditions,
  scratch: Scratch,
  progress: (row: Row) => void,
): Promise<Row[]> {
  const rows: Row[] = [];
  for (const comparison of comparisons) {
    const row = await measureRow(comparison, conditions, scratch);
    progress(row);
    rows.push(row);
  }
  return rows;
}

async function measureRow(comparison: Comparison, conditions: Conditions, scratch: Scratch): Promise<Row> {
  const { id, label, against, must, goal } = comparison;
  const named = { id, label, against, must, goal };
  try {
    const pairs = await compare(comparison.baseline, comparison.subject, conditions, scratch);
    const { ratio, spread, ratios } = pairedFigures(totalCpus(pairs));
    const [baseline, subject] = [pairs.map((pair) => pair.baseline), pairs.map((pair) => pair.subject)];
    return { ...named, baseline: medianFigure(baseline), subject: medianFigure(subject), ratio, spread, ratios };
  } catch (error) {
    return { ...named, failure: (error as Error).message };
  }
}
