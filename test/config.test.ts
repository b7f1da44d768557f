// The environment: defaults, and the messages about invalid values.
// Contract: decisions#configuration.
import { describe, expect, test } from 'bun:test';
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { ConfigError, readConfig, variableNames, withGeneratedSecrets } from '../src/config.ts';
import { unknownVariables } from '../src/runtime/unknown-variables.ts';
import { ROOT } from './support/source.ts';

const REAL = { DATABASE_URL: 'postgres://h/db', ADMIN_SECRET: 'admin-secret', JWT_SECRET: 'jwt-secret' };

function faultsOf(env: Record<string, string>): readonly string[] {
  try {
    readConfig(env);
  } catch (error) {
    if (error instanceof ConfigError) return error.faults;
    throw error;
  }
  return [];
}

describe('defaults', () => {
  test('an empty environment means 127.0.0.1:3000, the embedded database and the demo', () => {
    expect(readConfig({})).toMatchObject({
      host: '127.0.0.1',
      port: 3000,
      databaseUrl: null,
      redisUrl: null,
      dataDir: '.data',
      demo: true,
      workers: 1,
      niceness: -10,
      maxBodyBytes: 1_048_576,
      rateLimitPerMin: 0,
      shutdownTimeoutMs: 10_000,
      trustProxy: 0,
      logLevel: 'info',
      sse: { maxPerTenant: 500, maxGlobal: 1_000, heartbeatMs: 5_000, idleTimeoutMs: 600_000, maxQueuedEvents: 100 },
      ws: { maxPerTenant: 100, maxSubscriptions: 10 },
      webhook: { timeoutMs: 30_000, retryBaseMs: 5_000, retryFactor: 8, maxRetries: 5, allowedCidrs: [] },
    });
  });

  test('with DATABASE_URL there is no demo unless asked for', () => {
    expect(readConfig(REAL).demo).toBe(false);
    expect(readConfig({ ...REAL, DEMO: '1' }).demo).toBe(true);
  });

  test('an empty variable counts as unset', () => {
    expect(readConfig({ PORT: '', LOG_LEVEL: ' ' })).toMatchObject({ port: 3000, logLevel: 'info' });
  });

  test('several secrets, separated by commas, are all accepted', () => {
    expect(readConfig({ ...REAL, ADMIN_SECRET: 'first-secret, second-secret' }).adminSecrets).toEqual([
      'first-secret',
      'second-secret',
    ]);
  });
});

describe('faults', () => {
  for (const [name, value, accepted] of [
    ['PORT', '70000', 'a whole number from 0 to 65535'],
    ['PORT', '3000x', 'a whole number from 0 to 65535'],
    ['HOST', 'a b', 'a host name or address'],
    ['DATABASE_URL', 'mysql://h/db', 'a URL starting with postgres:// or postgresql://'],
    ['REDIS_URL', 'http://h', 'a URL starting with redis:// or rediss://'],
    ['APP_URL', 'example.com', 'a URL starting with http:// or https://'],
    ['SMTP_URL', 'mail.example', 'a URL starting with smtp:// or smtps://'],
    ['DEMO', 'yes', '0 or 1'],
    ['WORKERS', '0', 'a whole number from 1 to 64'],
    ['LOG_LEVEL', 'loud', 'debug, info, warn or error'],
    ['WEBHOOK_RETRY_FACTOR', '0.5', 'a number from 1 to 100'],
    ['WEBHOOK_ALLOWED_CIDRS', '10.0.0.0', 'CIDR ranges separated by commas'],
    ['WEBHOOK_ALLOWED_CIDRS', '10.0.0.0/99', 'CIDR ranges separated by commas'],
    ['WEBHOOK_ALLOWED_CIDRS', '::1/128,10.1/16x', 'CIDR ranges separated by commas'],
    ['METRICS_TOKEN', 'a b', 'visible ASCII characters without spaces'],
    ['SHUTDOWN_TIMEOUT_MS', '-1', 'a whole number from 100 to 600000'],
    ['ADMIN_SECRET', 'short', 'one or more secrets of at least 8 characters, separated by commas'],
    ['ADMIN_SECRET', 'long enough,', 'one or more secrets of at least 8 characters, separated by commas'],
    ['ADMIN_SECRET', ',', 'one or more secrets of at least 8 characters, separated by commas'],
    ['JWT_SECRET', 'long enough,,long enough', 'one or more secrets of at least 8 characters, separated by commas'],
  ] as const) {
    test(`${name}=${value} is rejected with the accepted values`, () => {
      const faults = faultsOf({ [name]: value });
      expect(faults).toHaveLength(1);
      expect(faults[0]).toStartWith(`${name}: `);
      expect(faults[0]).toEndWith(`is not accepted; expected ${accepted}`);
    });
  }

  test('all faults are reported together', () => {
    const faults = faultsOf({ PORT: 'x', DEMO: 'x', LOG_LEVEL: 'x' });
    expect(faults.map((fault) => fault.split(':')[0])).toEqual(['PORT', 'DEMO', 'LOG_LEVEL']);
  });

  test('values that may contain secrets are not repeated', () => {
    const faults = faultsOf({ ADMIN_SECRET: 'hushush', REDIS_URL: 'rdis://u:hushush@h', DATABASE_URL: 'pg://hushush' });
    expect(faults).toHaveLength(3);
    expect(faults.join()).not.toContain('hushush');
  });

  test('a real database requires secrets', () => {
    expect(faultsOf({ DATABASE_URL: 'postgres://h/db' })).toEqual([
      'ADMIN_SECRET: required when DATABASE_URL is set',
      'JWT_SECRET: required when DATABASE_URL is set',
    ]);
  });

  test('WORKERS above 1 requires DATABASE_URL and REDIS_URL', () => {
    const said = 'WORKERS: 2 needs DATABASE_URL and REDIS_URL; without them only 1 is accepted';
    expect(faultsOf({ WORKERS: '2' })).toEqual([said]);
    expect(faultsOf({ ...REAL, WORKERS: '2' })).toEqual([said]);
    expect(faultsOf({ ...REAL, WORKERS: '2', REDIS_URL: 'redis://h' })).toEqual([]);
  });
});

describe('an unknown variable that looks like one of the service is named with', () => {
  for (const [name, hint] of [
    ['WEBHOOK_TIMEOUT', 'did you mean WEBHOOK_TIMEOUT_MS?'],
    ['WEBHOK_TIMEOUT_MS', 'did you mean WEBHOOK_TIMEOUT_MS?'],
    ['WORKER', 'did you mean WORKERS?'],
    ['port', 'did you mean PORT?'],
    ['WS_MAX_CONNECTIONS', 'there are WS_MAX_CONNECTIONS_PER_TENANT, WS_MAX_SUBSCRIPTIONS'],
    ['SMTP_HOST', 'there is SMTP_URL'],
  ] as const) {
    test(`${name}: ${hint}`, () => {
      const said = unknownVariables({ ...REAL, [name]: 'hushush', PATH: '/bin' });
      expect(said).toEqual([`unknown environment variable ${name}; ${hint}`]);
    });
  }

  test('nothing for known and empty ones, those of OpenTelemetry and other programs, and those that Kubernetes adds', () => {
    const known = Object.fromEntries(variableNames().map((name) => [name, 'x']));
    const others = { HOME: '/', TERM: 'xterm', NODE_ENV: 'production', OTEL_SERVICE_NAME: 'x', SERVICE_PROCESS: '1' };
    const links = {
      REDIS_SERVICE_HOST: '10.0.0.1',
      REDIS_PORT: 'tcp://10.0.0.1:6379',
      REDIS_PORT_6379_TCP_ADDR: '::1',
    };
    expect(unknownVariables({ ...known, ...others, ...links, SSE_HEARTBEAT: '' })).toEqual([]);
  });
});

describe('.env.example and compose.yaml', () => {
  const read = (name: string): Promise<string> => readFile(join(ROOT, name), 'utf8');
  const ASSIGNMENT = /^(?:# )?(?=[A-Z_]+=)/gm;
  const ONLY_COMPOSE = ['POSTGRES_PASSWORD', 'PUBLISH'];

  test('the example names every variable once, with its default, and sets none', async () => {
    const example = await read('.env.example');
    const names = [...example.matchAll(/^(?:# )?([A-Z_]+)=/gm)].map(([, name]) => name as string);
    expect(names.toSorted()).toEqual([...variableNames(), ...ONLY_COMPOSE].toSorted());
    expect(Object.values(parseEnv(example)).filter((value) => value !== '')).toEqual([]);
    expect(readConfig(parseEnv(example.replace(ASSIGNMENT, '')))).toEqual(readConfig({}));
  });

  test('compose passes the whole file, and names no variable that the example lacks', async () => {
    const text = await read('compose.yaml');
    const { services } = Bun.YAML.parse(text) as { services: { service: Record<string, unknown> } };
    const { env_file: files, environment } = services.service;
    expect(files).toEqual([{ path: '.env', required: false }]);
    const named = [...text.matchAll(/\$\{([A-Z_]+)/g)].map(([, name]) => name as string);
    const known = [...variableNames(), ...ONLY_COMPOSE];
    expect([...named, ...Object.keys(environment as object)].filter((name) => !known.includes(name))).toEqual([]);
    expect(unknownVariables(Object.fromEntries(known.map((name) => [name, 'x'])))).toEqual([]);
  });
});

test('generated secrets are stored in DATA_DIR, readable by the owner only, and reused at the next start', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'svc-config-'));
  const first = withGeneratedSecrets(readConfig({ DATA_DIR: dataDir }));
  expect(first.adminSecrets[0]).toMatch(/^[\w-]{43}$/);
  expect(first.jwtSecrets).not.toEqual(first.adminSecrets);
  expect(withGeneratedSecrets(readConfig({ DATA_DIR: dataDir }))).toEqual(first);
  for (const name of ['admin-secret', 'jwt-secret']) {
    expect((await stat(join(dataDir, name))).mode & 0o777).toBe(0o600);
  }
  await rm(dataDir, { recursive: true });
});
