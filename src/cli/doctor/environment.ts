// The settings of an installation, checked on its own machine: the variables of this shell and of `.env`, as the service reads
// them, and the folder of its data. No value of a secret is shown.
// Sizes are bytes.
import { accessSync, constants, existsSync, statfsSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { type Config, ConfigError, readConfig, readEnvironment } from '../../config.ts';
import { unknownVariables } from '../../runtime/unknown-variables.ts';
import { type Finding, fault, note, ok } from './finding.ts';

const SECRET_LENGTH = 24;
const SECRET_CHARACTERS = 8;
const KNOWN_SECRETS = /^(change.?me|secret|password|admin|jwt|test|example|default|your|dev|local)/i;
const GIB = 1_073_741_824;
const FREE_SHARE = 0.05;

/** The findings, and the configuration when the service could start with it. */
export function checkEnvironment(directory = '.'): { findings: Finding[]; config: Config | null } {
  const environment = readEnvironment(directory);
  const misspelt = unknownVariables(environment).map((text) =>
    note('misspelt', text, 'correct the name, or remove it'),
  );
  try {
    const config = readConfig(environment);
    const findings = [
      ok('configuration', 'the variables are well formed'),
      ...(misspelt.length > 0 ? misspelt : [ok('misspelt', 'no variable looks misspelt')]),
      ...secrets(config),
      ...exposure(config),
      ranges(config),
      mail(config),
      ...dataDir(config),
    ];
    return { findings, config };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const cure = 'the service refuses to start with it; the page "Configuration" lists what each variable takes';
    return { findings: [...error.faults.map((text) => fault('configuration', text, cure)), ...misspelt], config: null };
  }
}

function secrets({ adminSecrets, jwtSecrets, databaseUrl }: Config): Finding[] {
  const cure =
    'make one with `openssl rand -base64 32`; the old one may stay behind the new one, after a comma, for a while';
  const weak = [
    ...adminSecrets.map((secret) => ['ADMIN_SECRET', secret] as const),
    ...jwtSecrets.map((secret) => ['JWT_SECRET', secret] as const),
  ].filter(([, secret]) => isWeak(secret));
  const names = [...new Set(weak.map(([name]) => name))];
  const findings = names.map((name) =>
    fault('secrets', `${name} can be guessed: it is short, well known or repetitive`, cure),
  );
  if (adminSecrets.some((secret) => jwtSecrets.includes(secret))) {
    findings.push(fault('secrets', 'ADMIN_SECRET and JWT_SECRET are the same: whoever learns one has both', cure));
  }
  const source = databaseUrl === null && adminSecrets.length === 0 ? 'generated' : 'long enough';
  return findings.length > 0 ? findings : [ok('secrets', `the secrets are ${source}`)];
}

function isWeak(secret: string): boolean {
  return secret.length < SECRET_LENGTH || new Set(secret).size < SECRET_CHARACTERS || KNOWN_SECRETS.test(secret);
}

function exposure({ host, baseUrl, appUrl, trustProxy }: Config): Finding[] {
  const isLocal = /^(127\.|localhost$|::1$)/.test(host);
  if (isLocal || (baseUrl !== null && appUrl !== null)) return [ok('exposure', `it listens on ${host}`)];
  const cure = 'set BASE_URL and APP_URL to the public address, and TRUST_PROXY to the number of proxies in front';
  const missing = [baseUrl === null ? 'BASE_URL' : '', appUrl === null ? 'APP_URL' : ''].filter(Boolean).join(' and ');
  const proxies = trustProxy === 0 ? ', and no proxy is trusted' : '';
  return [note('exposure', `it listens on ${host} without ${missing}${proxies}: links name this machine`, cure)];
}

function ranges({ webhook }: Config): Finding {
  const wide = webhook.allowedCidrs.filter((range) => /\/[0-7]$/.test(range));
  if (wide.length === 0) return ok('ranges', 'webhooks reach no private network that is not named');
  const cure = 'name the few networks that have receivers';
  return fault('ranges', `WEBHOOK_ALLOWED_CIDRS has ${wide.join(', ')}: every tenant can call inner services`, cure);
}

function mail({ smtpUrl, databaseUrl, dataDir }: Config): Finding {
  if (smtpUrl !== null || databaseUrl === null)
    return ok('mail', smtpUrl === null ? 'mail goes to files' : 'mail goes to SMTP_URL');
  return note('mail', `nobody gets mail: it is written to ${join(dataDir, 'mail')}`, 'set SMTP_URL and MAIL_FROM');
}

function dataDir({ dataDir: given }: Config): Finding[] {
  const path = resolve(given);
  return [existsSync(path) ? rights(path) : ok('data-dir', `${path} does not exist yet`), space(path)];
}

function rights(path: string): Finding {
  try {
    accessSync(path, constants.W_OK | constants.X_OK);
  } catch {
    return fault('data-dir', `${path} cannot be written by this user`, `chown it to the user of the service`);
  }
  const open = ['admin-secret', 'jwt-secret']
    .map((name) => join(path, name))
    .filter((file) => existsSync(file) && (statSync(file).mode & 0o077) !== 0);
  if (open.length === 0) return ok('data-dir', `${path} can be written, its secrets are private`);
  return fault(
    'data-dir',
    `others can read ${open.join(' and ')}`,
    `chmod 600 ${open.join(' ')}; then change the secrets`,
  );
}

function space(path: string): Finding {
  let place = path;
  while (!existsSync(place)) place = dirname(place);
  const { bavail, blocks, bsize } = statfsSync(place);
  const free = bavail * bsize;
  const text = `${(free / GIB).toFixed(1)} GiB are free for ${path}`;
  const isLow = free < GIB || bavail / blocks < FREE_SHARE;
  return isLow ? fault('disk', `only ${text}`, 'make room: a full disk stops writes') : ok('disk', text);
}
