// Which connection a call gets, tested with connections that only report whom they have served. Times are milliseconds.
import { describe, expect, test } from 'bun:test';
import type { Connection } from '../src/runtime/postgres/connection.ts';
import { Connections, type Wish } from '../src/runtime/postgres/connections.ts';
import { ServerCache } from '../src/runtime/postgres/server-cache.ts';

const HOMES = 4;
const MANY_TENANTS = 100;
const WISH: Wish = { home: 0, tenantId: 'tenant' };

/** A connection that knows some tenants, but not the asking one. */
const served = (tenants: number): Connection => {
  const serverCache = new ServerCache({ hasProcess: true });
  for (let n = 0; n < tenants; n++) serverCache.addTenant(`tenant ${n}`);
  return { lentAt: 0, serverCache } as Connection;
};

function openConnections(): { connections: Connections; home: Connection } {
  const connections = new Connections(HOMES, HOMES);
  const all = Array.from({ length: HOMES }, () => served(MANY_TENANTS));
  for (const connection of all) connections.add(connection, 0);
  for (const connection of all) connections.release(connection, 0);
  return { connections, home: all[0] as Connection };
}

/** Lends and takes back a connection, many times. */
function callMany(connections: Connections, tookMs: number, count: number): void {
  for (let i = 0; i < count; i++) connections.release(connections.take(WISH, 0, 1), 1 + tookMs);
}

/** How long the home connection must have been lent before another connection is used. */
function passedOverAfter(connections: Connections, home: Connection): number {
  expect(connections.take(WISH, 0, 1)).toBe(home);
  let ms = 0;
  while (connections.suited(WISH, 0, 1 + ms) === undefined) ms++;
  connections.release(home, 1);
  return ms;
}

describe('the connection that suits a tenant', () => {
  test('is its home, until that has been lent for 25 ms, where calls are short', () => {
    const { connections, home } = openConnections();
    callMany(connections, 2, 200);
    expect(passedOverAfter(connections, home)).toBe(25);
    expect(connections.patienceMs).toBe(50);
  });

  test('is its home for longer where calls usually take long, but for no longer than 100 ms', () => {
    const { connections, home } = openConnections();
    callMany(connections, 15, 200);
    expect(passedOverAfter(connections, home)).toBeGreaterThan(50);
    callMany(connections, 4_000, 200);
    expect(passedOverAfter(connections, home)).toBe(100);
    callMany(connections, 2, 200);
    expect(passedOverAfter(connections, home)).toBe(25);
  });

  test('is not its home for longer because few calls of many take long', () => {
    const { connections, home } = openConnections();
    for (let i = 0; i < 200; i++) callMany(connections, i % 4 === 0 ? 4_000 : 2, 1);
    expect(passedOverAfter(connections, home)).toBe(25);
  });

  test('is one that has prepared the call’s statement, before its home, and one that knows it, before one that knows few', () => {
    const connections = new Connections(HOMES, HOMES);
    const all = Array.from({ length: HOMES }, (_, slot) => served(slot));
    for (const connection of all) connections.add(connection, 0);
    for (const connection of all) connections.release(connection, 0);
    const [home, , knowsTenant, knowsStatement] = all as [Connection, Connection, Connection, Connection];
    expect(connections.suited(WISH, 0, 1)).toBe(home);
    knowsTenant.serverCache.addTenant('tenant');
    expect(connections.suited(WISH, 0, 1)).toBe(knowsTenant);
    knowsStatement.serverCache.addStatement('select 1');
    expect(connections.suited({ ...WISH, text: 'select 1' }, 0, 1)).toBe(knowsStatement);
    expect(connections.suited({ ...WISH, text: 'select 2' }, 0, 1)).toBe(knowsTenant);
    home.serverCache.addStatement('select 1');
    expect(connections.suited({ ...WISH, text: 'select 1' }, 0, 1)).toBe(home);
  });
});
