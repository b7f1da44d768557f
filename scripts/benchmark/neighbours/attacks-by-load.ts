// Attacks by reads that are costly for Postgres or large, and by writes at full speed.
// Each works on tables of the attacker's own, filled before the victim is measured.
// Sizes are characters unless stated otherwise.

import { item } from '../dataset.ts';
import { createItems, createPeople } from '../service.ts';
import { type Attack, json, records } from './attack.ts';
import type { Attacker, Host } from './attacker.ts';
import { connections } from './connections.ts';

const LARGE_TABLE = 100_000;
const WIDE_RECORDS = 300;
const WIDE_TEXT = 900_000;

/** Reads that are costly for Postgres, or large. */
export const READ_ATTACKS: readonly Attack[] = [
  {
    id: 'aggregates',
    label: '20 aggregates over 100,000 records, clients gone after 300 ms',
    prepare: async (attacker) => {
      await largeTable(attacker);
      const path = `${records('items')}/aggregate?metrics=count,sum:amount,avg:price&groupBy=title`;
      return (signal) => attacker.flood(signal, 20, () => ({ path, goneAfterMs: 300 }));
    },
  },
  {
    id: 'contains',
    label: '24 lists with 40 `contains` terms over 100,000 records',
    prepare: async (attacker) => {
      await largeTable(attacker);
      const terms = Array.from({ length: 40 }, (_, at) => `notes contains "absent${at}"`).join(' OR ');
      const path = `${records('items')}?filters=${encodeURIComponent(terms)}`;
      return (signal) => attacker.flood(signal, 24, () => ({ path }));
    },
  },
  {
    id: 'gets-at-once',
    label: '1,000 connections that each ask for a record every second, all at once',
    prepare: async (attacker) => {
      await attacker.entity('small', [{ key: 'title', type: 'text' }]);
      const { id } = await attacker.api.call<{ id: string }>('POST', records('small'), { title: 'x' });
      const request = `GET ${records('small')}/${id} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${attacker.key}\r\n\r\n`;
      return (signal) => connections(attacker.host, signal, 1_000, () => ({ first: request, drip: request }));
    },
  },
  {
    id: 'resolve',
    label: '100 records with 16 relations to one record of 900 KB, resolved',
    prepare: async (attacker) => {
      await attacker.entity('wide', [{ key: 'text', type: 'text' }]);
      const { id } = await attacker.api.call<{ id: string }>('POST', records('wide'), { text: 'x'.repeat(WIDE_TEXT) });
      const keys = Array.from({ length: 16 }, (_, at) => `r${at}`);
      await attacker.entity(
        'links',
        keys.map((key) => ({ key, type: 'relation', entity: 'wide', onDelete: 'set_null' })),
      );
      const data = Object.fromEntries(keys.map((key) => [key, id]));
      await attacker.api.createMany('links', Array(100).fill(data));
      return (signal) => attacker.flood(signal, 4, () => ({ path: `${records('links')}?limit=100&resolve=true` }));
    },
  },
  {
    id: 'wide-export',
    label: 'exports of 300 records of 0.9 MB, read at full speed',
    prepare: async (attacker) => {
      await wideTable(attacker);
      return (signal) => attacker.flood(signal, 2, () => ({ path: `${records('wide')}/export?format=ndjson` }));
    },
  },
  {
    id: 'stalled-exports',
    label: '8 exports of 0.9 MB records whose readers take nothing',
    prepare: async (attacker) => {
      await wideTable(attacker);
      return (signal) => stalledReaders(attacker, signal, 8);
    },
  },
  {
    id: 'slow-exports',
    label: '2 exports of 54 MB by each of 8 tenants, whose readers take 64 KiB every 4 s',
    prepare: async (attacker) => {
      const tenants = [attacker, ...(await attacker.others(7))];
      for (const tenant of tenants) await wideTable(tenant, 60);
      return (signal) => Promise.all(tenants.map((tenant) => stalledReaders(tenant, signal, 2, 4_000)));
    },
  },
  {
    id: 'histories',
    label: '20 clients that read the history of a record of 0.9 MB',
    prepare: async (attacker) => {
      await attacker.entity('wide', [{ key: 'text', type: 'text' }]);
      const { id } = await attacker.api.call<{ id: string }>('POST', records('wide'), { text: 'x'.repeat(WIDE_TEXT) });
      for (let at = 0; at < 20; at++) {
        await attacker.api.call('PATCH', `${records('wide')}/${id}`, { text: `${at}`.padEnd(WIDE_TEXT, 'x') });
      }
      return (signal) => attacker.flood(signal, 20, () => ({ path: `${records('wide')}/${id}/history` }));
    },
  },
  {
    id: 'definitions',
    label: 'lists of 200 roles and 300 views as large as the limits admit',
    prepare: async (attacker) => {
      const keys = Array.from({ length: 190 }, (_, at) => `${'k'.repeat(50)}${at}`);
      await attacker.entity(
        'wide',
        keys.map((key) => ({ key, type: 'integer' })),
      );
      for (let at = 0; at < 200; at++) {
        const fields = { wide: at < 60 ? Array(4).fill(keys).flat() : keys };
        const role = { name: `role ${at}`, permissions: { wide: ['read'] }, fields };
        if (!(await attacker.tryCall('POST', '/api/roles', role))) break;
      }
      for (let at = 0; at < 300; at++) {
        if (!(await attacker.tryCall('POST', '/api/views', { name: `view-${at}`, entity: 'wide', fields: keys })))
          break;
      }
      return (signal) => attacker.flood(signal, 10, (at) => ({ path: at % 2 === 0 ? '/api/roles' : '/api/views' }));
    },
  },
];

/** Writes at full speed. */
export const WRITE_ATTACKS: readonly Attack[] = [
  {
    id: 'default-import',
    label: 'imports of `{}` into fields with large defaults',
    prepare: async (attacker) => {
      const field = { key: 'a', type: 'text', default: 'x'.repeat(WIDE_TEXT) };
      if (!(await attacker.tryCall('POST', '/api/entities', { name: 'blank', fields: [field] }))) {
        const keys = Array.from({ length: 12 }, (_, at) => ({ ...field, key: `a${at}`, default: 'x'.repeat(16_000) }));
        await attacker.entity('blank', keys);
      }
      const body = '{}\n'.repeat(400);
      const path = `${records('blank')}/import?format=ndjson`;
      return (signal) =>
        attacker.flood(signal, 4, () => ({ method: 'POST', path, body, type: 'application/x-ndjson' }));
    },
  },
  {
    id: 'imports',
    label: '8 imports of small records',
    prepare: async (attacker) => {
      const people = await itemsAndPeople(attacker);
      const body = Array.from({ length: 5_000 }, (_, at) => json(item(at, 5_000, people))).join('\n');
      const path = `${records('items')}/import?format=ndjson`;
      return (signal) =>
        attacker.flood(signal, 8, () => ({ method: 'POST', path, body, type: 'application/x-ndjson' }));
    },
  },
  {
    id: 'creates',
    label: '32 clients that create records',
    prepare: async (attacker) => {
      await attacker.entity('small', [{ key: 'title', type: 'text' }]);
      const body = json({ title: 'a title' });
      return (signal) => attacker.flood(signal, 32, () => ({ method: 'POST', path: records('small'), body }));
    },
  },
  {
    id: 'index-changes',
    label: 'indexed fields added to 100,000 records and dropped',
    prepare: async (attacker) => {
      await largeTable(attacker);
      const path = '/api/entities/items/fields';
      return (signal) =>
        attacker.flood(signal, 4, (at) =>
          at % 2 === 0
            ? { method: 'POST', path, body: json({ key: `f${at}`, type: 'integer', indexed: true, default: 1 }) }
            : { method: 'DELETE', path: `${path}/f${at - 1}?confirm=f${at - 1}` },
        );
    },
  },
  {
    id: 'sockets',
    label: '100 WebSockets that flood messages',
    prepare: async (attacker) => {
      await attacker.entity('small', [{ key: 'title', type: 'text' }]);
      const key = await attacker.roleKey('small', 'read');
      return (signal) => floodingSockets(attacker.host, key, signal, 100);
    },
  },
];

function itemsAndPeople(attacker: Attacker): Promise<string[]> {
  return attacker.once('items and people', async () => {
    const people = await createPeople(attacker.api, 10);
    await createItems(attacker.api, 'items');
    return people;
  });
}

async function largeTable(attacker: Attacker): Promise<void> {
  const people = await itemsAndPeople(attacker);
  await attacker.once('large table', () =>
    attacker.api.importRecords('items', LARGE_TABLE, (at) => item(at, LARGE_TABLE, people)),
  );
}

async function wideTable(attacker: Attacker, count = WIDE_RECORDS): Promise<void> {
  await attacker.entity('wide', [{ key: 'text', type: 'text' }]);
  await attacker.once('wide table', async () => {
    for (let at = 0; at < count; at++) {
      await attacker.api.call('POST', records('wide'), { text: 'y'.repeat(WIDE_TEXT) });
    }
  });
}

/**
 * Exports over raw connections that are read a little every `everyMs`, or never; a connection that the service closes is
 * opened again.
 */
async function stalledReaders(
  { host, key }: Attacker,
  signal: AbortSignal,
  count: number,
  everyMs?: number,
): Promise<void> {
  const request = `GET ${records('wide')}/export?format=ndjson HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\n\r\n`;
  const reader = async (): Promise<void> => {
    while (!signal.aborted) {
      const closed = Promise.withResolvers<void>();
      const socket = await Bun.connect({
        hostname: '127.0.0.1',
        port: host.port,
        socket: {
          open: (opened) => {
            opened.write(request);
            opened.pause();
          },
          data: (receiving) => void receiving.pause(),
          close: () => closed.resolve(),
          error: () => closed.resolve(),
        },
      });
      signal.addEventListener('abort', () => socket.terminate(), { once: true });
      const reading = everyMs === undefined ? undefined : setInterval(() => socket.resume(), everyMs);
      await closed.promise;
      clearInterval(reading);
    }
  };
  await Promise.all(Array.from({ length: count }, reader));
}

async function floodingSockets({ port }: Host, key: string, signal: AbortSignal, count: number): Promise<void> {
  const flood = async (): Promise<void> => {
    const socket = new WebSocket(`ws://127.0.0.1:${port}/ws`);
    const closed = new Promise((resolve) => socket.addEventListener('close', resolve));
    socket.addEventListener('open', () => socket.send(json({ type: 'auth', token: key })));
    while (!signal.aborted && socket.readyState <= WebSocket.OPEN) {
      if (socket.readyState === WebSocket.OPEN) {
        for (let at = 0; at < 20; at++) socket.send(json({ type: 'subscribe', entity: 'small' }));
      }
      await Bun.sleep(5);
    }
    socket.close();
    await closed;
  };
  const again = async (): Promise<void> => {
    while (!signal.aborted) await flood();
  };
  await Promise.all(Array.from({ length: count }, again));
}
