// After random requests, everything that tells of a tenant's records must agree: an export, the lists and their totals, the
// feed read from its beginning, and the tenant that an import of the export makes.
// Each disagreement is a finding, as a sentence. After rules may still run: what differs is looked at again for a while.
// Contract: feed#guarantee, portability#import.

import { setTimeout as delay } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Schema } from './json.ts';

const ATTEMPTS = 8;
const PAUSE_MS = 250;

type Headers = Record<string, string>;

interface Told {
  entity: string;
  version: number;
  data: Schema;
}

/** What an export holds. */
interface Exported {
  text: string;
  /** Without those that an import changes. */
  definitions: string[];
  records: Map<string, Told>;
}

/** What differs in the tenant of this owner key; nothing if the key has no access any more. */
export async function disagreements(url: string, key: string, secret: string): Promise<string[]> {
  const tenant = new Reader(url, { 'x-api-key': key });
  let found: string[] = [];
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    if (attempt > 0) await delay(PAUSE_MS);
    const before = await tenant.exported();
    if (before === null) return [];
    found = [...(await listsAgainst(tenant, before)), ...(await feedAgainst(tenant, before))];
    if (found.length === 0) return await copyAgainst(new Reader(url, { 'x-admin-secret': secret }), before, url);
  }
  return found;
}

async function listsAgainst(tenant: Reader, { records }: Exported): Promise<string[]> {
  const found: string[] = [];
  const listed = new Set<string>();
  for (const { name } of await tenant.get('/api/entities')) {
    const path = `/api/entities/${name}/records`;
    const { total } = await tenant.get(`${path}?limit=1`);
    let count = 0;
    for (let cursor: string | null = ''; cursor !== null; ) {
      const page: Schema = await tenant.get(`${path}?limit=100&cursor=${encodeURIComponent(cursor)}`);
      for (const record of page.items) {
        listed.add(record.id);
        if (!isDeepStrictEqual(records.get(record.id)?.data, record))
          found.push(`a list of ${name} shows ${JSON.stringify(record)}, an export ${shown(records, record.id)}`);
      }
      count += page.items.length;
      cursor = page.nextCursor;
    }
    if (count !== total) found.push(`the total of ${name} is ${total}, its pages have ${count} records`);
  }
  for (const id of records.keys()) if (!listed.has(id)) found.push(`no list shows ${shown(records, id)}`);
  return found;
}

/** Puts the records together that the feed tells of. A change of their definition changes versions and values. */
async function feedAgainst(tenant: Reader, { records }: Exported): Promise<string[]> {
  const told = new Map<string, Told>();
  for (let since = 'earliest', hasMore = true; hasMore; ) {
    const page = await tenant.get(`/api/changes?limit=1000&since=${encodeURIComponent(since)}`);
    for (const { event, entity, record_id: id, version, data, erased } of page.items) {
      if (event === 'record.deleted') told.delete(id);
      else if (event === 'definition.changed') forgetValues(told, entity);
      else if (id !== null) told.set(id, { entity, version, data: erased === undefined ? data : null });
    }
    ({ nextCursor: since, hasMore } = page);
  }
  const found: string[] = [];
  for (const id of new Set([...told.keys(), ...records.keys()])) {
    const [fed, exported] = [told.get(id), records.get(id)];
    if (fed !== undefined && exported !== undefined && isUpToDate(fed, exported)) continue;
    found.push(`the feed tells of ${JSON.stringify(fed)}, an export of ${shown(records, id)}`);
  }
  return found;
}

/** What is left of a dropped field is removed later, with a version and without an event. */
function isUpToDate(fed: Told, exported: Told): boolean {
  const isSame = fed.data === null || isDeepStrictEqual(fed.data, exported.data);
  return isSame && fed.entity === exported.entity && fed.version <= exported.version;
}

function forgetValues(told: Map<string, Told>, entity: string): void {
  for (const each of told.values()) if (each.entity === entity) each.data = null;
}

/** Imports the export as another tenant, whose export must be the same, and deletes it. */
async function copyAgainst(operator: Reader, before: Exported, url: string): Promise<string[]> {
  const slug = `copy-${Date.now().toString(36)}`;
  const type = { 'content-type': 'application/x-ndjson' };
  const path = '/api/admin/platform/tenants';
  const answer = await operator.request('POST', `${path}/import?slug=${slug}&name=copy`, before.text, type);
  const text = await answer.text();
  if (answer.status !== 201) return [`an export cannot be imported: ${answer.status} ${text.slice(0, 600)}`];
  const after = await new Reader(url, { 'x-api-key': JSON.parse(text).data.apiKey }).exported();
  await (await operator.request('DELETE', `${path}/${slug}?confirm=${slug}`)).text();
  if (after === null) return ['the tenant that an import has made cannot be exported'];
  const found: string[] = [];
  if (!isDeepStrictEqual(after.definitions, before.definitions)) {
    const at = before.definitions.findIndex((line, index) => line !== after.definitions[index]);
    found.push(`an import has made ${after.definitions[at]} of ${before.definitions[at]}`);
  }
  for (const id of new Set([...before.records.keys(), ...after.records.keys()])) {
    if (isDeepStrictEqual(before.records.get(id), after.records.get(id))) continue;
    found.push(`an import has made ${shown(after.records, id)} of ${shown(before.records, id)}`);
  }
  return found;
}

const shown = (records: Exported['records'], id: string): string =>
  JSON.stringify(records.get(id) ?? null).slice(0, 500);

class Reader {
  constructor(
    private readonly url: string,
    private readonly headers: Headers,
  ) {}

  async request(method: string, path: string, body: string | null = null, headers: Headers = {}): Promise<Response> {
    return await fetch(this.url + path, { method, body, headers: { ...this.headers, ...headers } });
  }

  /** The data of a response. Throws unless it is 200. */
  async get(path: string): Promise<Schema> {
    const answer = await this.request('GET', path);
    const text = await answer.text();
    if (answer.status !== 200) throw new Error(`GET ${path}: ${answer.status} ${text.slice(0, 400)}`);
    return JSON.parse(text).data;
  }

  /** Null if the credential may not. */
  async exported(): Promise<Exported | null> {
    const answer = await this.request('GET', '/api/tenant/export');
    const text = await answer.text();
    if (answer.status === 401 || answer.status === 403) return null;
    if (answer.status !== 200) throw new Error(`no export: ${answer.status} ${text.slice(0, 400)}`);
    const lines = text.trimEnd().split('\n');
    const definitions = lines.filter((line) => /^\{"type":"(entity|role|user|view|rule|api)"/.test(line));
    const records: Exported['records'] = new Map();
    for (const line of lines) {
      const { type, entity, version, data } = JSON.parse(line);
      if (type === 'record') records.set(data.id, { entity, version, data });
    }
    return { text, definitions, records };
  }
}
