// Attacks by what others could have to notice: a tenant that changes itself or its records without end, streams that open and close with
// names of entities that do not exist, and open streams of many keys in which nothing happens.
// Times are milliseconds.

import { type Attack, json, records } from './attack.ts';
import type { Attacker } from './attacker.ts';

const IDLE_STREAMS = 400;
const NAMES = 400;
const COSTLY_HOOKS = 500;
const SHUFFLED = 1_000;
const REPLAYS = 32;

export const CHANGE_ATTACKS: readonly Attack[] = [
  {
    id: 'costly-webhooks',
    label: `${COSTLY_HOOKS} webhook subscriptions with filters of 40 terms, bulk creates`,
    prepare: async (attacker) => {
      await attacker.entity('hooked', [{ key: 'text', type: 'text' }]);
      const terms = Array.from({ length: 40 }, (_, at) => `text CONTAINS "absent${at}"`).join(' OR ');
      for (let at = 0; at < COSTLY_HOOKS; at++) {
        await attacker.api.call('POST', '/api/webhooks/subscriptions', {
          entity_name: 'hooked',
          event_types: ['record.created'],
          url: `https://203.0.114.7/${at}`,
          filters: `${terms} OR text = "${at}"`,
        });
      }
      const operations = Array.from({ length: 100 }, () => ({ op: 'create', data: { text: 'x'.repeat(2_000) } }));
      const body = json({ operations });
      return (signal) => attacker.flood(signal, 4, () => ({ method: 'POST', path: `${records('hooked')}/bulk`, body }));
    },
  },
  {
    id: 'shuffled-bulk',
    label: `20 bulk calls at once that each change 900 of the same ${SHUFFLED} records, in any order`,
    prepare: async (attacker) => {
      await attacker.entity('shuffled', [{ key: 'title', type: 'text' }]);
      await attacker.api.importRecords('shuffled', SHUFFLED, (at) => ({ title: `title ${at}` }));
      const ids = await attacker.api.sampleIds('shuffled', SHUFFLED, SHUFFLED);
      const bodies = Array.from({ length: 40 }, (_, at) => {
        const some = ids
          .map((id) => ({ id, at: Math.random() }))
          .sort((a, b) => a.at - b.at)
          .slice(0, 900);
        return json({ operations: some.map(({ id }) => ({ op: 'update', id, data: { title: `changed ${at}` } })) });
      });
      const path = `${records('shuffled')}/bulk`;
      return (signal) =>
        attacker.flood(signal, 20, (at) => ({ method: 'POST', path, body: bodies[at % bodies.length] as string }));
    },
  },
  {
    id: 'self-changes',
    label: '16 clients that change the settings and origins of their tenant',
    prepare: async (attacker) => (signal) =>
      attacker.flood(signal, 16, (at) => ({
        method: 'PATCH',
        path: '/api/tenant',
        body: json({ name: `name ${at}`, settings: { allowedOrigins: [`https://o${at}.example.com`] } }),
      })),
  },
  {
    id: 'named-streams',
    label: `event streams, open for 50 ms each, that name ${NAMES} entities that do not exist`,
    prepare: async (attacker) => (signal) => {
      const path = (at: number): string => {
        const names = Array.from({ length: NAMES }, (_, i) => `n${at}_${i}`);
        return `/api/v1/tenants/${attacker.slug}/events/stream?entities=${names}`;
      };
      return attacker.flood(signal, 16, (at) => ({ path: path(at), goneAfterMs: 50 }));
    },
  },
  {
    id: 'replays',
    label: `${REPLAYS} event streams that replay 20,000 changes at full speed, again and again`,
    prepare: async (attacker) => {
      await attacker.entity('replayed', [{ key: 'text', type: 'text' }]);
      const { nextCursor } = await attacker.api.call<{ nextCursor: string }>('GET', '/api/changes?since=');
      await attacker.api.importRecords('replayed', 20_000, (at) => ({ text: `${at} `.repeat(40) }));
      const path = `/api/v1/tenants/${attacker.slug}/events/stream?since=${encodeURIComponent(nextCursor)}`;
      return (signal) => attacker.flood(signal, REPLAYS, () => ({ path, goneAfterMs: 4_000 }));
    },
  },
  {
    id: 'filtered-feed',
    label: '20 clients that look for a text that is nowhere in 10,000 changes of 4 KB',
    prepare: async (attacker) => {
      await attacker.entity('long', [{ key: 'text', type: 'text' }]);
      const { nextCursor } = await attacker.api.call<{ nextCursor: string }>('GET', '/api/changes?since=');
      await attacker.api.importRecords('long', 10_000, (at) => ({ text: `${at} `.repeat(800) }));
      const filters = encodeURIComponent('text contains "absent"');
      const path = `/api/changes?since=${encodeURIComponent(nextCursor)}&limit=1000&entities=long&filters=${filters}`;
      return (signal) => attacker.flood(signal, 20, () => ({ path }));
    },
  },
  {
    id: 'idle-streams',
    label: `${IDLE_STREAMS} idle event streams, each of a key of its own`,
    prepare: async (attacker) => {
      const keys = await platformKeys(attacker, IDLE_STREAMS);
      const path = `/api/v1/tenants/${attacker.slug}/events/stream`;
      return (signal) => attacker.flood(signal, keys.length, (at) => ({ path, key: keys[at % keys.length] as string }));
    },
  },
];

async function platformKeys(attacker: Attacker, count: number): Promise<string[]> {
  await attacker.entity('small', [{ key: 'title', type: 'text' }]);
  const access = { name: 'Idle', slug: 'idle', roles: ['reader'], permissions: { small: { reader: ['read'] } } };
  const { id } = await attacker.api.call<{ id: string }>('POST', '/api/apis', access);
  const keys: string[] = [];
  for (let at = 0; at < count; at++) {
    const request = { role: 'reader', label: `idle ${at}`, ttlDays: 1 };
    keys.push((await attacker.api.call<{ key: string }>('POST', `/api/apis/${id}/keys`, request)).key);
  }
  return keys;
}
