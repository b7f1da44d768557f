// The rows of the table: what each row compares, and its limits (`must` and `goal`) on the ratio of CPU per request.
// A comparison that fails becomes a row with its reason, so no row is ever missing.
// Rows are measured one after the other.

import { farPage, type Workloads } from './fixture.ts';
import { type Conditions, compare, type Figure, totalCpu, type Workload } from './measure.ts';
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
  /** CPU per request of the subject, divided by that of the baseline. */
  ratio?: number;
  failure?: string;
  /** Why nothing was measured: the service does not offer it. */
  skipped?: string;
}

/** Every comparison of the service with the bare handler. */
export function bareComparisons(bare: Workloads, service: Workloads, records: number): Comparison[] {
  const row = (
    id: keyof Workloads,
    label: string,
    against: string,
    baseline: Workload,
    must: number,
    goal: number,
  ): Comparison => {
    return { id, label, against, baseline, subject: service[id], must, goal };
  };
  return [
    row('get', 'get by id', 'bare', bare.get, 2.0, 1.6),
    row('list', 'list page 1, exact total', 'bare with a counter', bare.list, 2.0, 1.5),
    row('filter', 'filter, 12 % match, total known', 'bare without total', bare.filter, 2.5, 1.8),
    row('filterCold', 'filter, 12 % match, cold', 'bare with count(*)', bare.filterCold, 1.0, 0.4),
    row('page', `page ${farPage(records)}, total`, 'bare by id first, count(*)', bare.page, 0.6, 0.4),
    row('searchRare', 'search, 10 hits', 'bare', bare.searchRare, 2.0, 1.5),
    row('searchCommon', 'search, 20 % hit, cold', 'bare', bare.searchCommon, 1.2, 1.0),
    row('related', 'list with relation', 'the same, bare with a counter', bare.related, 4.0, 2.7),
    row('create', 'create', 'bare', bare.create, 2.5, 2.0),
    row('update', 'update 2 fields', 'bare', bare.update, 3.0, 2.2),
    row('delete', 'delete', 'bare', bare.delete, 4.0, 3.0),
  ];
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
    const measured = await compare(comparison.baseline, comparison.subject, conditions, scratch);
    return { ...named, ...measured, ratio: totalCpu(measured.subject) / totalCpu(measured.baseline) };
  } catch (error) {
    return { ...named, failure: (error as Error).message };
  }
}
