import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SMTPServer } from 'smtp-server';
import { LIMITS } from '../src/limits.ts';
import { newId } from '../src/runtime/ids.ts';
import { createLog } from '../src/runtime/log.ts';
import { Mail, type Message } from '../src/runtime/mail.ts';
import { MailsOfDay } from '../src/runtime/mails-of-day.ts';
import { countFor, forClient, forStrangers, forTenant } from '../src/runtime/work.ts';
import { freePort } from './support/private-servers.ts';
import { startService, type TestService } from './support/service.ts';
import { measureStall } from './support/stalls.ts';
import { durationOf, fastest, retryWhenDelayed } from './support/timing.ts';

/** A local mail server. `reject` returns, for the nth connection's mail, an SMTP code, or null to accept it. */
async function sink(reject: (nth: number) => number | null = () => null, given?: number) {
  const received: { to: string[]; text: string }[] = [];
  let attempts = 0;
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS', 'AUTH'],
    onData: (stream, session, callback) => {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('end', () => {
        const code = reject(++attempts);
        if (code !== null) return callback(Object.assign(new Error('rejected'), { responseCode: code }));
        const to = session.envelope.rcptTo.map(({ address }) => address);
        received.push({ to, text: decoded(Buffer.concat(chunks).toString()) });
        callback();
      });
    },
  });
  server.on('error', () => undefined);
  const port = given ?? (await freePort());
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  return {
    url: `smtp://127.0.0.1:${port}`,
    port,
    received,
    attempts: () => attempts,
    stop: () => new Promise<void>((resolve) => server.close(resolve)),
  };
}

/** Decodes quoted-printable text. */
function decoded(text: string): string {
  return text
    .replaceAll('=\r\n', '')
    .replaceAll(/=([0-9A-F]{2})/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
}

const directories: string[] = [];
afterAll(async () => {
  for (const directory of directories) await rm(directory, { recursive: true, force: true });
});

async function open(smtpUrl: string | null, retryAfterMs: number[] = [5, 10, 15]) {
  const dataDir = await mkdtemp(join(tmpdir(), 'svc-mail-'));
  directories.push(dataDir);
  const logged: string[] = [];
  const log = createLog({ level: 'info', write: (line) => void logged.push(line), readable: false });
  const mail = new Mail({ smtpUrl, from: 'Service <service@example.com>', dataDir, log, retryAfterMs });
  const kept = async (): Promise<string[]> => {
    const names = await readdir(join(dataDir, 'mail')).catch(() => []);
    return Promise.all(names.map((name) => readFile(join(dataDir, 'mail', name), 'utf8')));
  };
  return { mail, logged, kept, dataDir };
}

const MESSAGE = { to: 'ada@example.com', subject: 'Hello', text: 'A link:\nhttp://localhost/?token=canary-token\n' };

describe('mail', () => {
  test('reaches the mail server complete, and is logged without its text', async () => {
    const smtp = await sink();
    const { mail, logged, kept } = await open(smtp.url);
    mail.send(MESSAGE);
    await mail.whenIdle();
    expect(smtp.received[0]?.to).toEqual(['ada@example.com']);
    expect(smtp.received[0]?.text).toContain('http://localhost/?token=canary-token');
    expect(await kept()).toEqual([]);
    expect(logged.join('')).toContain('mail sent');
    expect(logged.join('')).not.toContain('canary-token');
    await mail.close();
    await smtp.stop();
  });

  test('is sent again after a temporary rejection, and written to a file at once after a permanent one', async () => {
    const busy = await sink((nth) => (nth <= 2 ? 451 : null));
    const first = await open(busy.url);
    first.mail.send(MESSAGE);
    await first.mail.whenIdle();
    expect([busy.attempts(), busy.received.length]).toEqual([3, 1]);
    const strict = await sink(() => 550);
    const second = await open(strict.url);
    second.mail.send(MESSAGE);
    await second.mail.whenIdle();
    expect(strict.attempts()).toBe(1);
    expect((await second.kept()).join('')).toContain('token=canary-token');
    expect(second.logged.join('')).not.toContain('canary-token');
    for (const { mail } of [first, second]) await mail.close();
    await Promise.all([busy.stop(), strict.stop()]);
  });

  test('waits while the server is down, and is written to a file when it stays down', async () => {
    const gone = await sink();
    await gone.stop();
    const { mail, kept, logged } = await open(gone.url);
    mail.send(MESSAGE);
    await mail.whenIdle();
    expect(await kept()).toHaveLength(1);
    expect(logged.join('').match(/could not be sent/g)).toHaveLength(4);
    const late = await open(gone.url, [300, 300, 300]);
    late.mail.send(MESSAGE);
    const back = await sink(() => null, gone.port);
    await late.mail.whenIdle();
    expect(back.received).toHaveLength(1);
    for (const each of [mail, late.mail]) await each.close();
    await back.stop();
  });

  test('is not lost at shutdown: one last attempt, then a file', async () => {
    // The last attempts must fit into the shutdown's grace period.
    await retryWhenDelayed(LIMITS.mail.closeMs, async () => {
      const smtp = await sink(() => 451);
      const { mail, kept, logged } = await open(smtp.url, [600_000]);
      for (let i = 0; i < 5; i++) mail.send(MESSAGE);
      // Waits until every mail has failed once: a first attempt that fails during the shutdown would be the last.
      const failures = () => logged.join('').match(/could not be sent/g)?.length ?? 0;
      while (failures() < 5) await new Promise((resolve) => setTimeout(resolve, 5));
      await mail.close();
      expect(smtp.attempts()).toBe(10);
      expect(await kept()).toHaveLength(5);
      await smtp.stop();
    });
  });

  test('to a server that does not respond is written to a file after the shutdown’s grace period', async () => {
    const silent = createServer(() => undefined);
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    const { port } = silent.address() as AddressInfo;
    const limitMs = LIMITS.mail.closeMs + 1_000;
    const closing = async (): Promise<number> => {
      const { mail, kept } = await open(`smtp://127.0.0.1:${port}`);
      mail.send(MESSAGE);
      const ms = await durationOf(() => mail.close());
      expect((await kept()).join('')).toContain('token=canary-token');
      return ms;
    };
    expect(await fastest(limitMs, closing)).toBeLessThan(limitMs);
    silent.close();
  });

  test('has one recipient and one subject line, even if the subject contains line breaks', async () => {
    const smtp = await sink();
    const { mail } = await open(smtp.url);
    mail.send({ ...MESSAGE, subject: 'Hi\r\nBcc: eve@example.com\r\n\r\nbody' });
    await mail.whenIdle();
    expect(smtp.received[0]?.to).toEqual(['ada@example.com']);
    expect(smtp.received[0]?.text).not.toMatch(/^Bcc:/m);
    await mail.close();
    await smtp.stop();
  });

  test('of one tenant beyond half of the queue is dropped and logged, while those of others are queued', async () => {
    const { mail, logged } = await open(null);
    const never = new Promise<undefined>(() => undefined);
    const half = LIMITS.mail.queuedMax / 2;
    forTenant('flooding', () => {
      for (let i = 0; i < half + 5; i++) mail.send(() => never);
    });
    expect(logged.join('').match(/"warn","msg":"mail dropped/g)).toHaveLength(5);
    for (let i = 0; i < 100; i++) forTenant(`other ${i}`, () => mail.send(() => never));
    expect(logged.join('').match(/"warn","msg":"mail dropped/g)).toHaveLength(5);
    expect(mail.length).toBe(half + 100);
  });

  test('of one tenant beyond the daily limit is not sent, which is logged once, while that of others and strangers is sent', async () => {
    const { mail, logged, kept } = await open(null);
    const { perDay } = LIMITS.mail;
    const send = (n: number): number => Array.from({ length: n }, () => mail.send(MESSAGE)).filter(Boolean).length;
    for (let sent = 0; sent < perDay; sent += 100) {
      expect(forTenant('flooding', () => send(100))).toBe(100);
      await mail.whenIdle();
    }
    expect(forTenant('flooding', () => send(5))).toBe(0);
    expect(forTenant('other', () => send(1))).toBe(1);
    expect(forStrangers('flooding', () => send(1))).toBe(1);
    await mail.whenIdle();
    expect(await kept()).toHaveLength(perDay + 2);
    expect(logged.join('').match(/"warn","msg":"mails dropped: too many today/g)).toHaveLength(1);
    await mail.close();
  });

  test('of strangers to one tenant, and of operators, is limited by day and by address, and unknown addresses do not count', async () => {
    const { mail, logged, kept } = await open(null);
    const { perDay } = LIMITS.mail;
    const { operators: operatorsMax, toAddress } = LIMITS.mailsOfDay;
    const to = (address: string) => async () => ({ ...MESSAGE, to: address });
    const ask = async (tenant: string, count: number, make: (n: number) => () => Promise<Message | undefined>) => {
      for (let n = 0; n < count; n++) {
        forStrangers(tenant, () => mail.send(make(n)));
        if (n % 100 === 99) await mail.whenIdle();
      }
      await mail.whenIdle();
    };
    await ask('asked', perDay + 5, () => async () => undefined);
    expect(await kept()).toHaveLength(0);
    await ask('asked', toAddress + 5, () => to('One@example.com'));
    await ask('other', 5, () => to('one@example.com'));
    expect(await kept()).toHaveLength(toAddress);
    await ask('asked', perDay, (n) => to(`${n}@example.com`));
    expect(await kept()).toHaveLength(perDay);
    await ask('other', 5, (n) => to(`other-${n}@example.com`));
    expect(forTenant('asked', () => mail.send(MESSAGE))).toBe(true);
    await mail.whenIdle();
    expect(await kept()).toHaveLength(perDay + 6);
    expect(logged.join('').match(/"warn","msg":"mails dropped: too many today/g)).toHaveLength(2);
    const operators = new MailsOfDay(createLog({ level: 'error', write: () => undefined }));
    const sent = await asOperator(operatorsMax + 5, () => operators.ofWork());
    expect(sent).toHaveLength(operatorsMax);
    expect(await asOperator(100, () => operators.toAddress('a@b.example'))).toHaveLength(toAddress);
    await mail.close();
  });

  test('of a full queue goes to files a few at a time, so that the event loop does not stall', async () => {
    const { mail, kept } = await open(null);
    const fill = async (): Promise<number> => {
      const send = (to: string): boolean => forTenant(newId(), () => mail.send({ ...MESSAGE, to }));
      const { stallMs } = await measureStall(async () => {
        for (let i = 0; i < LIMITS.mail.queuedMax; i++) expect(send(`ada${i}@example.com`)).toBe(true);
        await mail.whenIdle();
      });
      return stallMs;
    };
    expect(await fastest(50, fill, 3)).toBeLessThan(50);
    expect((await kept()).length).toBeGreaterThanOrEqual(LIMITS.mail.queuedMax);
  });

  test('in a file is deleted after 30 days', async () => {
    const { mail, dataDir } = await open(null);
    const directory = join(dataDir, 'mail');
    await mkdir(directory);
    const named = (days: number): string => `${idAt(Date.now() - days * 86_400_000)}.eml`;
    const [old, recent] = [named(31), named(29)] as const;
    for (const name of [old, recent, 'notes.eml', 'notes.txt']) await writeFile(join(directory, name), '');
    mail.send(MESSAGE);
    await mail.whenIdle();
    const names = await readdir(directory);
    expect(names).toHaveLength(4);
    expect(names).not.toContain(old);
    expect(names).toContain(recent);
    await mail.close();
  });
});

/** Which of these mails an operator may send. */
function asOperator(count: number, mayBeSent: () => boolean): Promise<boolean[]> {
  return forClient(
    '127.0.0.1',
    () => new AbortController().signal,
    null,
    async () => {
      countFor(null, true);
      return Array.from({ length: count }, mayBeSent).filter(Boolean);
    },
  );
}

/** An id that was made at this time. */
function idAt(ms: number): string {
  const hex = ms.toString(16).padStart(12, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7000-8000-000000000000`;
}

describe('a mail server that is down', () => {
  let service: TestService;
  let smtp: Awaited<ReturnType<typeof sink>>;
  beforeAll(async () => {
    smtp = await sink(() => 451);
    await smtp.stop();
    service = await startService({ SMTP_URL: smtp.url, APP_URL: 'https://app.example/' });
  });
  afterAll(async () => service.stop());

  test('invitations say whether their link is mailed', async () => {
    const tenant = await service.tenant();
    const inside = { 'x-tenant-id': tenant.slug };
    const named = await tenant.post('/api/invitations', { email: 'named@example.org' }, inside);
    const open = await tenant.post('/api/invitations', {}, inside);
    expect([named.body.data.mailed, open.body.data.mailed]).toEqual([true, false]);
    const user = await tenant.post('/api/users', { email: 'user@example.org', name: 'U', role: 'viewer' });
    expect(user.body.data).toMatchObject({ mailed: true, inviteUrl: null });
  });

  test('neither fails nor slows requests that send mail; links begin with APP_URL', async () => {
    const tenant = await service.tenant();
    const times: number[] = [];
    for (let i = 0; i < 10; i++) {
      const body = { email: `slow${i}@example.com`, name: 'S', role: 'member' };
      times.push(await durationOf(async () => expect((await tenant.post('/api/users', body)).status).toBe(201)));
    }
    // A request that waited for its mail would take as long as all retries.
    expect(Math.min(...times)).toBeLessThan(1_000);
    await service.app.mail.close();
    const directory = join(service.app.config.dataDir, 'mail');
    const texts = await Promise.all((await readdir(directory)).map((name) => readFile(join(directory, name), 'utf8')));
    const addresses = texts.map((text) => /^To: (slow.+)\r$/m.exec(text)?.[1]).filter(Boolean);
    expect(new Set(addresses).size).toBe(10);
    for (const text of texts) expect(text).toMatch(/https:\/\/app\.example\/invite\/svc_inv_[0-9a-f]{48}\r\n/);
  });
});
