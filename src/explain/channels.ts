// What each channel shows of an entity, determined by the code that serves it: the access scope and the read statement for REST
// and MCP, the feed reader for changes, the projection for streams, and the delivery judge for webhooks.
// Contract: decisions#explanations.
import type { TenantCaller } from '../access/caller.ts';
import type { PublicScope } from '../access/resolve-caller.ts';
import type { Operation } from '../access/rights.ts';
import type { Access } from '../access/route-access.ts';
import type { App } from '../app.ts';
import { EventReader } from '../changes/reader.ts';
import type { AccessScope } from '../entities/access-scope.ts';
import type { Entity, Field } from '../entities/field.ts';
import type { FeedEvent } from '../events/feed.ts';
import { projectionOf } from '../realtime/projection.ts';
import { isSeenNow } from '../records/read/read.ts';
import type { RecordRow } from '../records/row.ts';
import { Judge } from '../webhooks/audience.ts';

export const CHANNELS = ['rest', 'mcp', 'changes', 'sse', 'websocket', 'webhook'] as const;
export type Channel = (typeof CHANNELS)[number];

/** Whose access to what a question is about; `scope` is that of `caller`. */
export interface Asking {
  app: App;
  caller: TenantCaller;
  entity: Entity;
  scope: AccessScope;
}

/** What a channel shows: fields, and the records that it admits. */
export interface Shown {
  fields: readonly Field[];
  admits(row: RecordRow): Promise<boolean>;
}

interface ChannelRules {
  /** The scope that a public key needs for the channel. */
  scope: PublicScope;
  /** The method of a request, and the access of its route. Webhooks need none. */
  request?: (operation: Operation) => { method: string; access: Access };
  onlyReads: boolean;
  /** Null if the channel shows nothing of the entity. */
  shown(asking: Asking): Promise<Shown | null>;
}

const METHODS = { read: 'GET', create: 'POST', update: 'PATCH', delete: 'DELETE' } as const;

const READS = { scope: 'channels:read', onlyReads: true } as const;
/** A credential that cannot open a stream itself opens it with a ticket. */
const STREAM: ChannelRules = {
  ...READS,
  request: () => ({ method: 'POST', access: 'ticket' }),
  shown: async ({ caller, entity }) => {
    const projection = projectionOf(caller, entity);
    return projection && { fields: projection.fields, admits: async () => true };
  },
};

export const RULES: Readonly<Record<Channel, ChannelRules>> = {
  rest: {
    scope: 'records:read',
    onlyReads: false,
    request: (operation) => ({ method: METHODS[operation], access: 'tenant' }),
    shown: shownInRequests,
  },
  mcp: {
    scope: 'records:read',
    onlyReads: false,
    request: () => ({ method: 'POST', access: 'any' }),
    shown: shownInRequests,
  },
  changes: {
    ...READS,
    request: () => ({ method: 'GET', access: 'tenant' }),
    shown: async ({ app, caller, entity, scope }) => ({
      fields: scope.fields,
      admits: async (row) => {
        const reader = await EventReader.open(app, caller, EVERYTHING);
        return (await reader.see(changeOf(caller, entity, row))) !== null;
      },
    }),
  },
  sse: STREAM,
  websocket: STREAM,
  webhook: {
    ...READS,
    shown: async ({ app, caller, entity }) => {
      const judge = await Judge.of(app, caller.tenant);
      const audience = { role: caller.role, filters: null, field_ids: null };
      const fields = judge.fieldsOf(audience, entity);
      if (fields === null) return null;
      const at = new Date().toISOString();
      return { fields, admits: async (row) => judge.isVisible(audience, entity, { row, at }) };
    },
  },
};

async function shownInRequests({ app, scope }: Asking): Promise<Shown> {
  return { fields: scope.fields, admits: ({ id }) => isSeenNow(app.db, scope, id) };
}

const EVERYTHING = { entities: null, events: null, filters: [], view: null, transitions: false };

/** An update made now that leaves the record unchanged. */
function changeOf({ tenant }: TenantCaller, { id: entityId, name: entity }: Entity, row: RecordRow): FeedEvent {
  const about = { id: row.id, seq: 0, xid: '0', tenantId: tenant.id, entityId, entity, recordId: row.id };
  const made = { at: new Date().toISOString(), actor: null, triggeredBy: 'api', depth: 0 } as const;
  return { ...about, ...made, type: 'record.updated', row, before: row, payload: null };
}
