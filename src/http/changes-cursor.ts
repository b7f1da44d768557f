// Cursors of the feed: sealed, so that they reveal nothing, and bound to a tenant. A cursor contains a position and the key of
// the rights that its caller had. Every response with records has a cursor in `Changes-Cursor`, taken before the records are
// read: a follower that starts from it misses nothing that the response did not contain. It costs no query while a recent head
// is known.
// Failures: 400 for a text that is not a cursor, 403 for another tenant's, 410 for one older than the kept events.
// Contract: feed#cursors.
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';
import type { TenantCaller } from '../access/caller.ts';
import { addResponseHeaders } from '../access/request-context.ts';
import { type Rights, readRightsOf } from '../access/rights.ts';
import { type App, perApp } from '../app.ts';
import { forbidden, invalidField, ServiceError } from '../errors.ts';
import { type FeedPosition, positionAt } from '../events/feed.ts';
import { type FeedHead, feedHeadsOf } from '../events/feed-heads.ts';
import { parseSnapshot } from '../events/snapshot.ts';
import { LIMITS } from '../limits.ts';
import { sha256 } from '../runtime/tokens.ts';
import { keptSince, type Tenant } from '../tenants/tenants.ts';

/** The content of a cursor: how far its bearer has read, with which rights, and with which definitions. */
export interface ChangesCursor {
  position: FeedPosition;
  rightsKey: string;
  /**
   * How many of the tenant's announced changes of definitions its bearer knows, or has been told of. Undefined where the bearer has
   * not been shown any record yet, and in cursors of an earlier version.
   */
  definitionChanges?: number | undefined;
}

const HEADER = 'Changes-Cursor';
/** The response header for the API document. */
export const CHANGES_CURSOR = {
  [HEADER]: 'where to follow the changes from; not sent to a public key without the scope `channels:read`',
};

const ALGORITHM = 'aes-256-gcm';
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
/** The length of every cursor is a multiple of this, so that it does not reveal how many transactions are running. */
const BLOCK = 192;
const RADIX = 36;

/** The first JWT secret seals cursors; all of them open cursors. */
const keysOf = perApp(({ config }) =>
  config.jwtSecrets.map((secret) => new Uint8Array(hkdfSync('sha256', secret, '', 'feed cursor', 32))),
);

export function sealCursor(
  app: App,
  tenantId: string,
  { position, rightsKey, definitionChanges }: ChangesCursor,
): string {
  const [key] = keysOf(app);
  if (key === undefined) throw new Error('there is no secret for cursors');
  const { seen, at, cut } = position;
  const until = cut && [packed(cut.until), cut.until.floor, cut.until.last, cut.until.at, cut.number];
  const text = JSON.stringify([tenantId, rightsKey, packed(seen), seen.floor, at, until, seen.last, definitionChanges]);
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(ALGORITHM, key, nonce);
  const sealed = cipher.update(text.padEnd(Math.ceil(text.length / BLOCK) * BLOCK), 'utf8');
  return Buffer.concat([nonce, sealed, cipher.final(), cipher.getAuthTag()]).toString('base64url');
}

type RetainingTenant = Pick<Tenant, 'id' | 'settings'>;

/** Opens a cursor. 400 naming the parameter, 403 for the cursor of another tenant, 410. */
export function openCursor(app: App, tenant: RetainingTenant, text: string, parameter = 'since'): ChangesCursor {
  const cursor = openedCursor(app, tenant, text, parameter);
  const { at } = cursor.position;
  if (at !== null && at < keptSince(app, tenant)) {
    throw new ServiceError(
      'GONE',
      'changes since this cursor are no longer kept; read everything again, and follow from there',
    );
  }
  return cursor;
}

/** Like `openCursor` without the 410: its position, whether or not one can still follow from there. */
export function openedCursor(app: App, { id }: Pick<Tenant, 'id'>, text: string, parameter = 'since'): ChangesCursor {
  const opened = text.length > LIMITS.changes.cursorMax ? null : openedBy(keysOf(app), text);
  if (opened === null) throw invalidField(parameter, 'is not a cursor');
  const [owner, rightsKey, snapshot, floor, at, until, last = null, definitionChanges] = opened;
  if (owner !== id) throw forbidden('this cursor belongs to another tenant');
  const cut = until && {
    until: { snapshot: unpacked(until[0]), floor: until[1], last: until[2], at: until[3] },
    number: until[4],
  };
  const position = { seen: { snapshot: unpacked(snapshot), floor, last }, at, cut };
  return { rightsKey, position, definitionChanges: definitionChanges ?? undefined };
}

/** Cached, because many cursors of a page have the same snapshots. */
const packedTexts = new WeakMap<object, string>();

/** A snapshot in few characters, however many transactions run: their ids are written as distances from the first. */
function packed(head: Pick<FeedHead, 'snapshot'>): string {
  const known = packedTexts.get(head);
  if (known !== undefined) return known;
  const { xmin, xmax, running } = parseSnapshot(head.snapshot);
  const distances = [...running].map((xid) => (xid - xmin).toString(RADIX));
  const text = `~${[xmin.toString(RADIX), (xmax - xmin).toString(RADIX), ...distances].join(' ')}`;
  packedTexts.set(head, text);
  return text;
}

/** The snapshot as Postgres writes it, which is also the form in cursors of an earlier version. */
function unpacked(text: string): string {
  if (!text.startsWith('~')) return text;
  const [xmin = 0, width = 0, ...distances] = text
    .slice(1)
    .split(' ')
    .map((part) => Number.parseInt(part, RADIX));
  return `${xmin}:${xmin + width}:${distances.map((distance) => xmin + distance).join()}`;
}

type Content = [
  tenantId: string,
  rightsKey: string,
  snapshot: string,
  floor: number,
  at: number | null,
  until: [snapshot: string, floor: number, last: number, at: number, number: number] | null,
  last?: number | null,
  definitionChanges?: number | null,
];

/** The content, if one of the keys has sealed it. */
function openedBy(keys: readonly Uint8Array[], text: string): Content | null {
  const bytes = /^[A-Za-z0-9_-]+$/.test(text) ? Buffer.from(text, 'base64url') : Buffer.alloc(0);
  if (bytes.length < NONCE_BYTES + TAG_BYTES) return null;
  for (const key of keys) {
    const content = unsealed(key, bytes);
    if (content !== null) return content;
  }
  return null;
}

function unsealed(key: Uint8Array, bytes: Buffer): Content | null {
  const decipher = createDecipheriv(ALGORITHM, key, bytes.subarray(0, NONCE_BYTES));
  decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
  try {
    const opened = decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES));
    return JSON.parse(Buffer.concat([opened, decipher.final()]).toString()) as Content;
  } catch {
    return null;
  }
}

/** Keys by the objects that stay the same while the rights do: those of a cached role or key. */
const knownKeys = new WeakMap<object, WeakMap<object, string>>();

/** A key that is equal for callers that see the same rows and fields of every record. */
export function rightsKeyOf({ rights, asRole, id, email, role, kind }: TenantCaller): string {
  const key = keyOfRights(rights);
  if (rights.isUnlimited) return key;
  const user = asRole === undefined ? [id, email, role, kind] : [asRole];
  return short(JSON.stringify([key, user]));
}

/** The key for a cursor that belongs to nobody. */
export function keyOfRights(rights: Rights): string {
  const { permissions, restrictions, isUnlimited } = rights;
  const byRestrictions = knownKeys.get(permissions) ?? new WeakMap<object, string>();
  knownKeys.set(permissions, byRestrictions);
  let key = byRestrictions.get(restrictions);
  if (key === undefined) {
    const readable = Object.keys(readRightsOf(rights).permissions).sort();
    key = short(JSON.stringify([isUnlimited, readable, restrictions]));
    byRestrictions.set(restrictions, key);
  }
  return key;
}

function short(text: string): string {
  return sha256(text).toString('base64url').slice(0, 16);
}

/** Whether a cursor was issued under the caller's rights. */
export function isOfRights({ rightsKey }: ChangesCursor, caller: TenantCaller): boolean {
  return rightsKey === rightsKeyOf(caller) || rightsKey === keyOfRights(caller.rights);
}

/** Whether the caller may follow changes at all. */
export function mayFollow({ publicKey, scopes }: Pick<TenantCaller, 'publicKey' | 'scopes'>): boolean {
  return publicKey === undefined || scopes?.includes('channels:read') === true;
}

/** The sealed cursors of the newest head, which many responses share. */
const sealedOf = perApp(() => ({ head: null as FeedHead | null, cursors: new Map<string, string>() }));

/**
 * Adds the header to the response. Must be called before the records are read, with the number of changes in the definitions that are
 * current then. Resolves at once while a recent head is known.
 */
export function addChangesCursor(
  app: App,
  caller: TenantCaller,
  request: Request,
  definitionChanges: number,
): Promise<void> | undefined {
  if (!mayFollow(caller)) return undefined;
  const heads = feedHeadsOf(app);
  const recent = heads.recent();
  if (recent === undefined) return heads.take().then((head) => add(app, caller, request, head, definitionChanges));
  add(app, caller, request, recent, definitionChanges);
  return undefined;
}

function add(app: App, caller: TenantCaller, request: Request, head: FeedHead, definitionChanges: number): void {
  const sealed = sealedOf(app);
  if (sealed.head !== head) {
    sealed.head = head;
    sealed.cursors.clear();
  }
  const tenantId = caller.tenant.id;
  const rightsKey = rightsKeyOf(caller);
  const key = `${tenantId} ${rightsKey} ${definitionChanges}`;
  let cursor = sealed.cursors.get(key);
  if (cursor === undefined) {
    cursor = sealCursor(app, tenantId, { rightsKey, position: positionAt(head), definitionChanges });
    sealed.cursors.set(key, cursor);
  }
  addResponseHeaders(request, { [HEADER]: cursor });
}
