// Attacks by clients without a credential: connections that send little or nothing, bodies that never end, bodies of tiny
// chunks, preflights, and sign-ins that fail. Strangers with many addresses say so in X-Forwarded-For, which the service trusts.
// Sizes are bytes, times milliseconds.

import { randomBytes } from 'node:crypto';
import { type Attack, json } from './attack.ts';
import { connections } from './connections.ts';

const LOGIN = '/api/auth/tenant/login';
const VICTIM = { 'x-tenant-id': 'victim' };
const CHUNKED_BYTES = 16_000;

const fromAnywhere = () => ({
  'x-forwarded-for': `2001:db8:${randomBytes(4)
    .toString('hex')
    .replace(/(.{4})/, '$1:')}::1`,
});
const head = (path: string, headers: readonly string[]): string =>
  [`POST ${path} HTTP/1.1`, 'Host: x', 'Content-Type: application/json', ...headers].join('\r\n');

/** The attacker's tenant is not used. */
export const STRANGERS_ATTACKS: readonly Attack[] = [
  {
    id: 'silent',
    label: '5,000 connections that send nothing',
    prepare:
      async ({ host }) =>
      (signal) =>
        connections(host, signal, 5_000, () => ({ first: '' })),
  },
  {
    id: 'slow-heads',
    label: '1,000 connections that send a byte of a request head every second',
    prepare:
      async ({ host }) =>
      (signal) =>
        connections(host, signal, 1_000, () => ({ first: `${head(LOGIN, [])}\r\nX-Slow: `, drip: 'a' })),
  },
  {
    id: 'half-bodies',
    label: '4,000 sign-ins from one address whose bodies never end',
    prepare:
      async ({ host }) =>
      (signal) =>
        connections(host, signal, 4_000, () => ({
          first: `${head(LOGIN, ['Content-Length: 16000'])}\r\n\r\n{`,
          drip: ' ',
        })),
  },
  {
    id: 'tiny-chunks',
    label: '8 connections that send bodies in chunks of one byte',
    prepare: async ({ host }) => {
      const body = json({ email: 'nobody@example.com', password: 'x'.repeat(CHUNKED_BYTES) });
      const chunks = `${[...body].map((character) => `1\r\n${character}\r\n`).join('')}0\r\n\r\n`;
      const first = `${head(LOGIN, ['Transfer-Encoding: chunked', 'Connection: close'])}\r\n\r\n${chunks}`;
      return (signal) => connections(host, signal, 8, () => ({ first }));
    },
  },
  {
    id: 'preflights',
    label: '32 clients that ask for a new origin each time',
    prepare: async (attacker) => (signal) =>
      attacker.flood(signal, 32, () => ({
        method: 'OPTIONS',
        path: '/api/entities',
        headers: {
          origin: `https://${randomBytes(8).toString('hex')}.example.com`,
          'access-control-request-method': 'GET',
          ...fromAnywhere(),
        },
      })),
  },
  {
    id: 'unknown-keys',
    label: '32 clients that try a key from a new address each time',
    prepare: async (attacker) => (signal) =>
      attacker.flood(signal, 32, () => ({
        method: 'GET',
        path: '/api/entities',
        headers: { authorization: `Bearer svc_pk_${randomBytes(24).toString('hex')}`, ...fromAnywhere() },
      })),
  },
  {
    id: 'page-files',
    label: "1,000 connections that each ask for Swagger UI's script, 1.7 MB",
    prepare:
      async ({ host }) =>
      (signal) =>
        connections(host, signal, 1_000, () => ({
          first: 'GET /swagger/assets/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n',
        })),
  },
  {
    id: 'sign-ins',
    label: "64 clients that fail to sign in to the victim's tenant, from a new address each time",
    prepare: async (attacker) => (signal) =>
      attacker.flood(signal, 64, () => ({
        method: 'POST',
        path: LOGIN,
        body: json({ email: `${randomBytes(4).toString('hex')}@example.com`, password: 'wrong password' }),
        headers: { ...VICTIM, ...fromAnywhere() },
      })),
  },
];
