// Whether the service can be reached: its address, what answers there, its clock, its version, and whether it can serve.
// Later checks need it to answer, so these run first and tell whether to continue.
// Times are milliseconds.
import { reasonOf } from '../reasons.ts';
import { type CheckContext, type Finding, fault, look, note, ok } from './finding.ts';

/** A smaller clock difference is not reported: a `Date` header has whole seconds, and the response takes time. */
const SKEW_NOTE_MS = 5_000;
/** Receivers of webhooks refuse signatures that are older than this. */
const SKEW_FAULT_MS = 240_000;

/** The findings, and whether the service answered at all. */
export async function checkNetwork(context: CheckContext): Promise<{ findings: Finding[]; isThere: boolean }> {
  const { service } = context;
  const { url } = service.target;
  let response: Response;
  const sentAt = Date.now();
  try {
    response = await look(service, '/health');
  } catch (error) {
    const cure =
      'check host and port with --url; on its own machine, see that the service runs: it prints `listening on`';
    return { findings: [fault('address', `${url} cannot be reached: ${reasonOf(error)}`, cure)], isThere: false };
  }
  const receivedAt = Date.now();
  const body = await response.text().catch(() => '');
  if (!/^\{"success":(true|false)/.test(body)) {
    const text = `${url} answers ${response.status}, and not as this service does`;
    const cure = 'another program has this port, or a proxy answers by itself: check --url and where the proxy leads';
    return { findings: [ok('address', `${url} answers`), fault('service', text, cure)], isThere: false };
  }
  const findings = [
    ok('address', `${url} answers`),
    ok('service', 'it is this service'),
    encryption(url),
    clock(response.headers.get('date'), sentAt, receivedAt),
    await readiness(context),
    ...(await versionAndAddress(context)),
  ];
  return { findings, isThere: true };
}

function encryption(url: string): Finding {
  const { protocol, hostname } = new URL(url);
  if (protocol === 'https:') return ok('encryption', 'the connection is encrypted');
  if (/^(localhost|127\.|\[::1\])/.test(hostname)) return ok('encryption', 'the connection stays on this machine');
  const cure = 'put a proxy with TLS in front, and use its https:// address';
  return note('encryption', `${url} is not encrypted: everyone on the way can read the credential`, cure);
}

function clock(date: string | null, sentAt: number, receivedAt: number): Finding {
  const there = Date.parse(date ?? '');
  if (Number.isNaN(there)) return ok('clock', 'the answer has no date to compare');
  const skew = there > receivedAt ? there - receivedAt : Math.max(0, sentAt - 1_000 - there);
  const seconds = Math.round(skew / 1_000);
  const cure = 'let NTP set the clock on both machines; `timedatectl` shows whether it does';
  if (skew > SKEW_FAULT_MS)
    return fault('clock', `the clocks differ by ${seconds} s: tokens and signatures will fail`, cure);
  if (skew > SKEW_NOTE_MS) return note('clock', `the clocks differ by ${seconds} s`, cure);
  return ok('clock', 'the clocks agree');
}

async function readiness({ service }: CheckContext): Promise<Finding> {
  const response = await look(service, '/ready');
  if (response.ok) return ok('ready', 'it can serve');
  const { error } = (await response.json()) as { error?: { message?: string } };
  const cure = 'start what is missing; on the machine of the service, `tds doctor --local` looks at both';
  return fault('ready', `it cannot serve: ${error?.message ?? `status ${response.status}`}`, cure);
}

async function versionAndAddress({ service, version }: CheckContext): Promise<Finding[]> {
  const response = await look(service, '/swagger/json');
  if (!response.ok) return [];
  const { info, servers } = (await response.json()) as { info: { version: string }; servers: { url: string }[] };
  const isSame = info.version === version;
  const cure = `install the same version: this is ${version}, the service is ${info.version}`;
  return [
    isSame ? ok('version', `both are of version ${version}`) : note('version', 'the versions differ', cure),
    baseUrl(service.target.url, servers[0]?.url ?? ''),
  ];
}

function baseUrl(url: string, stated: string): Finding {
  const own = URL.canParse(stated) ? new URL(stated) : null;
  const here = new URL(url);
  const isLocal = (name: string): boolean => /^(localhost|127\.|\[::1\]|0\.0\.0\.0)/.test(name);
  if (
    own === null ||
    own.host === here.host ||
    (isLocal(own.hostname) && isLocal(here.hostname) && own.port === here.port)
  ) {
    return ok('base-url', 'the service knows this address');
  }
  const cure = `set BASE_URL=${here.origin} where the service runs`;
  return note('base-url', `the API document and links name ${own.origin}, not ${here.origin}`, cure);
}
