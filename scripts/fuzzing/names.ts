// What exists in the tenant of a round, as far as responses have shown it: the paths of things by template
// (`/api/views/{slug}`: `/api/views/all`), and words, cursors, tickets. Requests that name existing things reach the
// operations behind the checks. What the credentials of the round depend on is never learned, so that they last.

import type { Schema } from './json.ts';
import type { Random } from './random.ts';

const PER_TEMPLATE_MAX = 30;
const WORDS_MAX = 300;
const TEXT_MAX = 200;
/** The member of an item that stands in its path, by the name of the parameter. */
const MEMBERS: Record<string, string> = { slug: 'slug', entityName: 'name', name: 'name', key: 'key', token: 'token' };
/** The member by which a kind of thing is named elsewhere; without one: the id. */
const NAMED_BY: Record<string, string> = {
  entities: 'name',
  roles: 'name',
  views: 'slug',
  fields: 'key',
  tenants: 'slug',
  invitations: 'token',
};
/** Things that are listed at one path and addressed at another. */
const ALIASES: Record<string, string> = {
  invite: 'invitations',
  deleted: 'records',
  register: 'bots',
  history: 'records',
};
const ODD = [
  'nothing',
  'a%2Fb',
  '%00',
  '%ff',
  '..%2f',
  'x'.repeat(300),
  '-',
  '01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f',
  "'",
];

export class Names {
  readonly #templates: readonly string[];
  readonly #kept: ReadonlySet<string>;
  readonly #paths = new Map<string, string[]>();
  readonly #bySegment = new Map<string, string[]>();
  readonly #words: string[] = [];

  /** `templates` are the paths of the document, `kept` the ids and names that stay unknown. */
  constructor(templates: readonly string[], kept: readonly string[]) {
    this.#templates = templates;
    this.#kept = new Set(kept);
  }

  /** A word of the kind, or of any. */
  word(random: Random, kind?: string): string {
    const of = kind === undefined ? this.#words : (this.#bySegment.get(kind) ?? this.#words);
    return random.pick(of.length === 0 ? ODD : of);
  }

  add(kind: string, word: unknown): void {
    if (typeof word !== 'string' || word === '' || word.length > TEXT_MAX || this.#kept.has(word)) return;
    remember(this.#bySegment, kind, word);
    if (this.#words.includes(word)) return;
    if (this.#words.length >= WORDS_MAX) this.#words.shift();
    this.#words.push(word);
  }

  /** A path of existing things, mostly, for a template; `generic` is that of the document without a credential. */
  path(random: Random, template: string, generic: string): string {
    const segments = template.split('/');
    const genericSegments = generic.split('/');
    const last = segments.findLastIndex(isParameter);
    let filled: string[] = [];
    if (random.chance(0.95)) {
      for (let at = last; at > 0 && filled.length === 0; at--) {
        const known = this.#paths.get(genericSegments.slice(0, at + 1).join('/')) ?? [];
        const fitting = known.map((path) => path.split('/')).filter((path) => fits(path, segments));
        if (fitting.length > 0) filled = random.pick(fitting);
      }
    }
    const fill = (segment: string, at: number): string =>
      filled[at] ?? (isParameter(segment) ? this.#segment(random, segments[at - 1]) : segment);
    return segments.map(fill).join('/');
  }

  #segment(random: Random, before = ''): string {
    if (random.chance(0.2)) return random.pick(ODD);
    const kind = ALIASES[before] ?? before;
    return encodeURIComponent(this.word(random, this.#bySegment.has(kind) ? kind : undefined));
  }

  /** Learns from the data of a successful response to a request for `path`, of the template. */
  learn(template: string, path: string, data: Schema): void {
    const [collection = ''] = path.split('?');
    const list = Array.isArray(data) ? data : (data?.items ?? data?.results ?? [data]);
    const segment = collection.split('/').findLast((each) => each !== '') ?? '';
    const kind = ALIASES[segment] ?? segment;
    for (const item of Array.isArray(list) ? list.slice(0, 5) : []) {
      this.add(kind, item?.[NAMED_BY[kind] ?? 'id']);
      this.add(`${kind} id`, item?.id);
      this.add('token', item?.token);
      this.add('secret', item?.secret);
      for (const child of this.#templates) {
        const parameter = child.startsWith(`${template}/{`) ? child.slice(template.length + 2) : '';
        if (!parameter.endsWith('}') || parameter.includes('/')) continue;
        const value = item?.[MEMBERS[parameter.slice(0, -1)] ?? 'id'];
        if (typeof value !== 'string' || value.length > TEXT_MAX || this.#kept.has(value)) continue;
        remember(this.#paths, child, `${collection}/${encodeURIComponent(value)}`);
      }
    }
    for (const [name, member] of [
      ['cursor', data?.nextCursor],
      ['cursor', data?.items?.[0]?.cursor],
      ['ticket', data?.ticket],
      ['etag', data?.etags?.[0]],
    ])
      this.add(name, member);
  }

  /** Forgets what has been deleted, and all below it. */
  forget(path: string): void {
    const [deleted = ''] = path.split('?');
    for (const [template, known] of this.#paths) {
      const left = known.filter((each) => each !== deleted && !each.startsWith(`${deleted}/`));
      this.#paths.set(template, left);
    }
  }
}

const isParameter = (segment: string): boolean => segment.startsWith('{');

/** Whether a path has the fixed segments of a template. */
function fits(path: readonly string[], template: readonly string[]): boolean {
  return path.every((segment, at) => isParameter(template[at] ?? '') || segment === template[at]);
}

function remember(into: Map<string, string[]>, key: string, value: string): void {
  const known = into.get(key) ?? [];
  into.set(key, known);
  if (known.includes(value)) return;
  if (known.length >= PER_TEMPLATE_MAX) known.shift();
  known.push(value);
}
