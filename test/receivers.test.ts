// The receivers that docs/how-to/receive-webhooks.md shows, in each installed language: they handle a signed
// event, accept its repetition without handling it again, and reject an invalid signature.
// Contract: interface#webhooks.
import { afterAll, describe, expect, test } from 'bun:test';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';
import { page } from './support/markdown.ts';

const SECRET = 'a shared secret';
const NODE = Bun.which('node') ?? process.execPath;

/** `isStateless`: the program keeps nothing between requests. */
type Program = { needs: string; build?: string[]; command: string[]; isStateless?: true };

const PROGRAMS: Record<string, (port: number) => Program> = {
  js: () => ({ needs: NODE, command: [NODE, 'receiver.mjs'] }),
  python: () => ({ needs: 'python3', command: ['python3', 'receiver.py'] }),
  go: () => ({ needs: 'go', build: ['build', 'receiver.go'], command: ['./receiver'] }),
  php: (port) => ({ needs: 'php', command: ['php', '-S', `127.0.0.1:${port}`, 'receiver.php'], isStateless: true }),
};
const BODY = JSON.stringify({ id: 'evt_1', event: 'record.created', entity: 'tasks', record_id: 'rec_1', data: {} });

const blocks = page('docs/how-to/receive-webhooks.md').blocks;
const children = new Set<ChildProcess>();
const directories: string[] = [];

afterAll(async () => {
  for (const child of children) child.kill('SIGKILL');
  for (const directory of directories) await rm(directory, { recursive: true, force: true });
});

test('the page has a receiver in each language', () => {
  const shown = blocks.map(({ language }) => language).filter((language) => language in PROGRAMS);
  expect(shown).toEqual(Object.keys(PROGRAMS));
});

describe('a receiver verifies the signature and handles an event once', () => {
  for (const language of Object.keys(PROGRAMS).filter((name) => Bun.which(PROGRAMS[name]?.(0).needs ?? ''))) {
    test(language, async () => {
      const receiver = await start(language);
      expect(await receiver.post(signature(BODY, SECRET))).toBe(204);
      expect(await receiver.post(signature(BODY, SECRET))).toBe(204);
      for (const wrong of ['', 'zz', signature(BODY, 'another secret'), signature(`${BODY} `, SECRET)]) {
        expect(await receiver.post(wrong), wrong).toBe(401);
      }
      await receiver.prints('record.created rec_1');
      if (!receiver.isStateless) expect(receiver.output().split('rec_1').length - 1).toBe(1);
    });
  }
});

function signature(body: string, secret: string): string {
  return createHmac('sha256', secret).update(body).digest('hex');
}

async function start(language: string) {
  const port = await freePort();
  const { needs, build, command, isStateless = false } = (PROGRAMS[language] as (port: number) => Program)(port);
  const directory = await mkdtemp(join(tmpdir(), 'svc-receiver-'));
  directories.push(directory);
  const text = blocks.find((block) => block.language === language)?.text ?? '';
  await writeFile(join(directory, `receiver.${language === 'js' ? 'mjs' : language.replace('python', 'py')}`), text);
  const { PATH = '', HOME = '' } = process.env;
  const env = { PATH, HOME, PORT: String(port), SECRET };
  if (build) spawnSync(needs, build, { cwd: directory });
  const [program = '', ...parameters] = command;
  const child = spawn(program, parameters, { cwd: directory, env, stdio: ['ignore', 'pipe', 'ignore'] });
  children.add(child);
  let output = '';
  child.stdout.on('data', (piece) => {
    output += String(piece);
  });
  const post = async (sent: string): Promise<number> => {
    const headers = { 'content-type': 'application/json', 'x-svc-signature': sent };
    return (await fetch(`http://127.0.0.1:${port}/`, { method: 'POST', headers, body: BODY })).status;
  };
  while (!(await post('').catch(() => false))) await delay(50);
  const prints = async (expected: string): Promise<void> => {
    while (!output.includes(expected)) await delay(10);
  };
  return { post, prints, isStateless, output: () => output };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}
