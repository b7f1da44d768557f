// The environment variables: name, parser, default. Read once at start; all faults are reported together
// and prevent the start. A `.env` file in the working directory is read too; the environment takes precedence.
// Contract: decisions#configuration.
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import ipaddr from 'ipaddr.js';

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** The configuration. Durations in ms, sizes in bytes. Secrets must never be logged. */
export interface Config {
  host: string;
  port: number;
  databaseUrl: string | null;
  redisUrl: string | null;
  dataDir: string;
  adminSecrets: readonly string[];
  jwtSecrets: readonly string[];
  appUrl: string | null;
  baseUrl: string | null;
  smtpUrl: string | null;
  mailFrom: string;
  demo: boolean;
  workers: number;
  /** Of the thread that serves requests, as for `nice`. */
  niceness: number;
  sse: { maxPerTenant: number; maxGlobal: number; heartbeatMs: number; idleTimeoutMs: number; maxQueuedEvents: number };
  ws: { maxPerTenant: number; maxSubscriptions: number };
  webhook: {
    timeoutMs: number;
    retryBaseMs: number;
    retryFactor: number;
    maxRetries: number;
    allowedCidrs: readonly string[];
  };
  maxBodyBytes: number;
  /** Requests that a process handles at once. */
  maxConnections: number;
  rateLimitPerMin: number;
  metricsToken: string | null;
  /** Tenants with metrics of their own. */
  metricsTenants: number;
  /** Days for which events and finished deliveries are kept. */
  eventRetentionDays: number;
  /** The variables OTEL_*, when spans are exported. */
  telemetry: Readonly<Record<string, string>> | null;
  shutdownTimeoutMs: number;
  trustProxy: number;
  /** Host names that no tenant may claim, in lower case. */
  reservedHosts: readonly string[];
  /** Addresses of DNS servers, with an optional port; empty for the system's. */
  dnsServers: readonly string[];
  logLevel: LogLevel;
}

/** Variables are missing or malformed; the message lists each with the accepted values. */
export class ConfigError extends Error {
  constructor(readonly faults: readonly string[]) {
    super(`the service cannot start:\n${faults.map((fault) => `  - ${fault}`).join('\n')}`);
    this.name = 'ConfigError';
  }
}

/** Names with their values, as in `process.env`. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Reads variables one by one and collects their names and faults. */
class Reader {
  readonly names: string[] = [];
  readonly faults: string[] = [];
  constructor(private readonly env: Environment) {}

  /** The value as it stands; undefined when unset or empty. */
  text(name: string): string | undefined {
    this.names.push(name);
    return this.env[name]?.trim() || undefined;
  }

  /** The parsed value; the default when unset, empty or invalid. */
  read<T>(name: string, fallback: T, accepted: string, parse: (text: string) => T | undefined): T {
    const text = this.text(name);
    if (text === undefined) return fallback;
    const value = parse(text);
    if (value !== undefined) return value;
    this.faults.push(`${name}: ${describe(name, text)} is not accepted; expected ${accepted}`);
    return fallback;
  }

  integer(name: string, fallback: number, min: number, max: number): number {
    return this.read(name, fallback, `a whole number from ${min} to ${max}`, (text) => {
      const value = /^-?\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
      return value >= min && value <= max ? value : undefined;
    });
  }

  url(name: string, schemes: readonly string[]): string | null {
    return this.read<string | null>(name, null, `a URL starting with ${schemes.join(' or ')}`, (text) =>
      URL.canParse(text) && schemes.some((scheme) => text.startsWith(scheme)) ? text : undefined,
    );
  }

  flag(name: string, fallback: boolean): boolean {
    return this.read(name, fallback, '0 or 1', (text) => (text === '1' ? true : text === '0' ? false : undefined));
  }

  list(name: string, accepted: string, isItem: (item: string) => boolean): readonly string[] {
    return this.read<readonly string[]>(name, [], accepted, (text) => {
      const items = text.split(',').map((item) => item.trim());
      return items.every(isItem) ? items : undefined;
    });
  }
}

/** Values that may contain secrets are never shown, not even malformed ones. */
function describe(name: string, text: string): string {
  return /SECRET|TOKEN|_URL$|ENDPOINT$/.test(name) ? 'the value' : JSON.stringify(text);
}

/** Parses the environment, which includes the `.env` file. Throws a `ConfigError` with every fault. */
export function readConfig(env: Environment): Config {
  const reader = new Reader(env);
  const config = readAll(reader, env);
  if (reader.faults.length > 0) throw new ConfigError(reader.faults);
  return config;
}

/** The names of all variables that are read. */
export function variableNames(): readonly string[] {
  const reader = new Reader({});
  readAll(reader, {});
  return reader.names;
}

function readAll(reader: Reader, env: Environment): Config {
  const databaseUrl = reader.url('DATABASE_URL', ['postgres://', 'postgresql://']);
  const redisUrl = reader.url('REDIS_URL', ['redis://', 'rediss://']);
  const embedded = databaseUrl === null;
  const config: Config = {
    host: reader.read('HOST', '127.0.0.1', 'a host name or address', (text) =>
      /^[A-Za-z0-9.:_-]+$/.test(text) ? text : undefined,
    ),
    port: reader.integer('PORT', 3000, 0, 65_535),
    databaseUrl,
    redisUrl,
    dataDir: reader.text('DATA_DIR') ?? '.data',
    adminSecrets: readSecrets(reader, 'ADMIN_SECRET'),
    jwtSecrets: readSecrets(reader, 'JWT_SECRET'),
    appUrl: trimSlash(reader.url('APP_URL', ['http://', 'https://'])),
    baseUrl: trimSlash(reader.url('BASE_URL', ['http://', 'https://'])),
    smtpUrl: reader.url('SMTP_URL', ['smtp://', 'smtps://']),
    mailFrom: reader.read('MAIL_FROM', 'Tenant Data Service <no-reply@localhost>', 'a mail address', (text) =>
      /^[^\r\n]*[^\s@<>]+@[^\s@<>]+>?$/.test(text) ? text : undefined,
    ),
    demo: reader.flag('DEMO', embedded),
    workers: reader.integer('WORKERS', 1, 1, 64),
    niceness: reader.integer('NICENESS', -10, -20, 19),
    ...readChannels(reader),
    maxBodyBytes: reader.integer('MAX_BODY_BYTES', 1_048_576, 1_024, 1_073_741_824),
    maxConnections: reader.integer('MAX_CONNECTIONS', 10_000, 2, 1_000_000),
    rateLimitPerMin: reader.integer('RATE_LIMIT_PER_MIN', 0, 0, 100_000_000),
    metricsToken: reader.read<string | null>(
      'METRICS_TOKEN',
      null,
      'visible ASCII characters without spaces',
      (text) => (/^[\x21-\x7e]+$/.test(text) ? text : undefined),
    ),
    metricsTenants: reader.integer('METRICS_TENANTS', 50, 0, 1_000),
    eventRetentionDays: reader.integer('EVENT_RETENTION_DAYS', 30, 1, 3_650),
    telemetry: readTelemetry(reader, env),
    shutdownTimeoutMs: reader.integer('SHUTDOWN_TIMEOUT_MS', 10_000, 100, 600_000),
    trustProxy: reader.integer('TRUST_PROXY', 0, 0, 32),
    reservedHosts: reader
      .list('RESERVED_HOSTS', 'host names separated by commas', (host) => /^[A-Za-z0-9.:_-]+$/.test(host))
      .map((host) => host.toLowerCase().replace(/\.$/, '')),
    dnsServers: reader.list('DNS_SERVERS', 'IP addresses separated by commas, each with an optional port', isDnsServer),
    logLevel: reader.read<LogLevel>('LOG_LEVEL', 'info', 'debug, info, warn or error', (text) =>
      LOG_LEVELS.find((level) => level === text),
    ),
  };
  checkTogether(config, reader);
  return config;
}

function readChannels(reader: Reader): Pick<Config, 'sse' | 'ws' | 'webhook'> {
  const day = 86_400_000;
  return {
    sse: {
      maxPerTenant: reader.integer('SSE_MAX_CONNECTIONS_PER_TENANT', 500, 1, 1_000_000),
      maxGlobal: reader.integer('SSE_MAX_CONNECTIONS_GLOBAL', 1_000, 1, 1_000_000),
      heartbeatMs: reader.integer('SSE_HEARTBEAT_INTERVAL_MS', 5_000, 10, day),
      idleTimeoutMs: reader.integer('SSE_IDLE_TIMEOUT_MS', 600_000, 10, day),
      maxQueuedEvents: reader.integer('SSE_MAX_QUEUED_EVENTS', 100, 1, 1_000_000),
    },
    ws: {
      maxPerTenant: reader.integer('WS_MAX_CONNECTIONS_PER_TENANT', 100, 1, 1_000_000),
      maxSubscriptions: reader.integer('WS_MAX_SUBSCRIPTIONS', 10, 1, 10_000),
    },
    webhook: {
      timeoutMs: reader.integer('WEBHOOK_TIMEOUT_MS', 30_000, 10, 600_000),
      retryBaseMs: reader.integer('WEBHOOK_RETRY_BASE_MS', 5_000, 1, day),
      retryFactor: reader.read('WEBHOOK_RETRY_FACTOR', 8, 'a number from 1 to 100', (text) => {
        const factor = Number(text);
        return factor >= 1 && factor <= 100 ? factor : undefined;
      }),
      maxRetries: reader.integer('WEBHOOK_MAX_RETRIES', 5, 0, 50),
      allowedCidrs: reader.list('WEBHOOK_ALLOWED_CIDRS', 'CIDR ranges separated by commas', (item) =>
        ipaddr.isValidCIDR(item),
      ),
    },
  };
}

/** `1.1.1.1`, `1.1.1.1:53`, `2606::1` or `[2606::1]:53`. */
function isDnsServer(text: string): boolean {
  const [, bracketed, plain] = /^(?:\[([^\]]+)\](?::\d{1,5})?|([\d.]+)(?::\d{1,5})?)$/.exec(text) ?? [];
  return ipaddr.isValid(bracketed ?? plain ?? text);
}

/** Null unless an endpoint is set. The OpenTelemetry SDK reads the variables itself. */
function readTelemetry(reader: Reader, env: Environment): Readonly<Record<string, string>> | null {
  const names = ['OTEL_EXPORTER_OTLP_ENDPOINT', 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'];
  const endpoints = names.map((name) => reader.url(name, ['http://', 'https://']));
  const isDisabled = reader.text('OTEL_SDK_DISABLED')?.toLowerCase() === 'true';
  const isOff = reader.text('OTEL_TRACES_EXPORTER') === 'none' || isDisabled;
  if (isOff || endpoints.every((endpoint) => endpoint === null)) return null;
  const given = Object.entries(env).filter(([name, value]) => /^OTEL_/.test(name) && value !== undefined);
  return Object.fromEntries(given as [string, string][]);
}

const SECRET_MIN = 8;

function readSecrets(reader: Reader, name: string): readonly string[] {
  const accepted = `one or more secrets of at least ${SECRET_MIN} characters, separated by commas`;
  return reader.list(name, accepted, (secret) => secret.length >= SECRET_MIN);
}

function trimSlash(url: string | null): string | null {
  return url === null ? null : url.replace(/\/+$/, '');
}

/** Checks that involve several variables. With a real database, secrets are required and not generated. */
function checkTogether(config: Config, reader: Reader): void {
  const { faults } = reader;
  const isValid = (name: string): boolean => !faults.some((fault) => fault.startsWith(`${name}:`));
  if (config.databaseUrl !== null) {
    for (const [name, secrets] of [
      ['ADMIN_SECRET', config.adminSecrets],
      ['JWT_SECRET', config.jwtSecrets],
    ] as const) {
      if (secrets.length === 0 && isValid(name)) faults.push(`${name}: required when DATABASE_URL is set`);
    }
  }
  if (config.workers > 1 && (config.databaseUrl === null || config.redisUrl === null)) {
    faults.push(`WORKERS: ${config.workers} needs DATABASE_URL and REDIS_URL; without them only 1 is accepted`);
  }
}

/** The process environment, on top of the working directory's `.env` file if it exists. */
export function readEnvironment(directory = '.'): Environment {
  const file = join(directory, '.env');
  return existsSync(file) ? { ...parseEnv(readFileSync(file, 'utf8')), ...process.env } : process.env;
}

/** Adds missing secrets, generated once and stored in DATA_DIR (mode 0600); for the embedded database only. */
export function withGeneratedSecrets(config: Config): Config {
  const secret = (name: string, given: readonly string[]): readonly string[] =>
    given.length > 0 ? given : [storedSecret(config.dataDir, name)];
  return {
    ...config,
    adminSecrets: secret('admin-secret', config.adminSecrets),
    jwtSecrets: secret('jwt-secret', config.jwtSecrets),
  };
}

function storedSecret(dataDir: string, name: string): string {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const file = join(dataDir, name);
  if (!existsSync(file)) writeFileSync(file, `${randomBytes(32).toString('base64url')}\n`, { mode: 0o600, flag: 'wx' });
  return readFileSync(file, 'utf8').trim();
}
