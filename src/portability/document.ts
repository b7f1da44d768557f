// The document of a tenant: NDJSON with a header, one line for each item of the tenant, and last the counts of each kind; without
// the last line, a document is incomplete. Lines have the members of the API. A record is nested in `data`, beside its version,
// because its fields may have any name.
// Contract: portability#document.
import type { Tenant } from '../tenants/tenants.ts';

export const FORMAT = 'tenant-data-service';
export const FORMAT_VERSION = 1;

/** The kinds in the order of the document: a line refers only to earlier kinds, but records refer to each other in any order. */
export const KINDS = ['entity', 'role', 'user', 'view', 'rule', 'api', 'subscription', 'record'] as const;
export type Kind = (typeof KINDS)[number];

/** The number of lines of each kind. */
export type Counts = Record<Kind, number>;

export function noCounts(): Counts {
  return Object.fromEntries(KINDS.map((kind) => [kind, 0])) as Counts;
}

export interface Header {
  type: 'header';
  format: typeof FORMAT;
  version: typeof FORMAT_VERSION;
  tenant: Pick<Tenant, 'slug' | 'name' | 'settings'>;
  /** ISO 8601. */
  exportedAt: string;
  /** The changes after this cursor are exactly those that the document does not contain. */
  cursor: string;
}

export interface End {
  type: 'end';
  counts: Counts;
}

/** A document of a tenant with one entity and one record. */
export function exampleDocument(): string {
  const at = '2026-03-01T09:30:00.000Z';
  const times = { createdAt: at, updatedAt: at };
  const id = '01993b1b-0a10-7d3e-8c44-1f2a3b4c5d6e';
  const field = { id: '01993b1b-0a11-7d3e-8c44-1f2a3b4c5d6e', key: 'title', type: 'text' };
  const data = { id: '01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f', entityId: id, title: 'Call back', ...times };
  const tenant = { slug: 'acme', name: 'Acme Ltd', settings: {} };
  return [
    { type: 'header', format: FORMAT, version: FORMAT_VERSION, tenant, exportedAt: at, cursor: '' } as const,
    { type: 'entity', id, name: 'tasks', isSystem: false, fields: [field], ...times },
    { type: 'record', entity: 'tasks', version: 1, data: { ...data, createdBy: null, updatedBy: null } },
    { type: 'end', counts: { ...noCounts(), entity: 1, record: 1 } } as const,
  ]
    .map(lineOf)
    .join('');
}

/** A line of the document, with its line feed. */
export function lineOf(line: Header | End | ({ type: string } & Record<string, unknown>)): string {
  return `${JSON.stringify(line)}\n`;
}
