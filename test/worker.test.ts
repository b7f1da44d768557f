// The loop of a background worker, whose rounds the test ends one by one.
import { expect, test } from 'bun:test';

import { createLog } from '../src/runtime/log.ts';
import { Retries } from '../src/runtime/retries.ts';
import { startWorker } from '../src/runtime/worker.ts';

const NEVER_MS = 1_000_000;

/** A worker whose rounds wait for the test: `next()` resolves when one has started, to the functions that end it. */
function stepped(pollMs = NEVER_MS) {
  const lines: string[] = [];
  const log = createLog({ level: 'debug', write: (line) => lines.push(line) });
  const started: ((round: Round) => void)[] = [];
  const waiting: Round[] = [];
  const once = (signal: AbortSignal): Promise<number> =>
    new Promise((resolve, reject) => {
      const round = { end: resolve, fail: reject, signal };
      const taker = started.shift();
      if (taker) taker(round);
      else waiting.push(round);
    });
  const next = (): Promise<Round> => {
    const round = waiting.shift();
    return round ? Promise.resolve(round) : new Promise((resolve) => started.push(resolve));
  };
  const worker = startWorker({ name: 'test', once, pollMs, log });
  return { worker, next, waiting, lines };
}

interface Round {
  end(done: number): void;
  fail(error: Error): void;
  signal: AbortSignal;
}

test('a round that found work is followed by another at once, an empty one by a pause', async () => {
  const { worker, next, waiting } = stepped();
  (await next()).end(3);
  (await next()).end(0);
  await Bun.sleep(20);
  expect(waiting).toHaveLength(0);
  await worker.stop();
});

test('a nudge starts the next round, even during one', async () => {
  const { worker, next } = stepped();
  (await next()).end(0);
  await Bun.sleep(5);
  worker.nudge();
  const second = await next();
  worker.nudge();
  second.end(0);
  (await next()).end(0);
  await worker.stop();
});

test('without a nudge the next round comes after the poll interval', async () => {
  const { worker, next } = stepped(20);
  (await next()).end(0);
  (await next()).end(0);
  await worker.stop();
});

test('a failed round is logged and retried', async () => {
  const { worker, next, lines } = stepped();
  (await next()).fail(new Error('no database'));
  (await next()).end(0);
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({
    level: 'error',
    worker: 'test',
    error: { message: 'no database' },
  });
  await worker.stop();
});

test('stopping aborts the signal and waits for the current round', async () => {
  const { worker, next } = stepped();
  const round = await next();
  let isStopped = false;
  const stopping = worker.stop().then(() => {
    isStopped = true;
  });
  await Bun.sleep(10);
  expect({ aborted: round.signal.aborted, isStopped }).toEqual({ aborted: true, isStopped: false });
  round.end(5);
  await stopping;
  expect(isStopped).toBe(true);
});

test('a round that fails repeatedly is tried at doubling intervals, and a cause is logged when it changes', () => {
  const retries = new Retries(5_000, 300_000);
  const due = (now: number): string[] => retries.due(['a', 'b'], (key) => key, now);
  const refused = new Error('refused');
  expect(due(0)).toEqual(['a', 'b']);
  expect(retries.failed('a', refused, 0)).toBe(true);
  expect(due(4_999)).toEqual(['b']);
  expect(due(5_000)).toEqual(['a', 'b']);
  expect(retries.failed('a', new Error('refused'), 5_000)).toBe(false);
  expect(due(14_999)).toEqual(['b']);
  expect(due(15_000)).toEqual(['a', 'b']);
  expect(retries.failed('a', new Error('another'), 15_000)).toBe(true);
  let at = 15_000;
  for (let i = 0; i < 10; i++) retries.failed('a', refused, at++);
  expect(due(at + 299_000)).toEqual(['b']);
  expect(due(at + 300_000)).toEqual(['a', 'b']);
  retries.succeeded('a');
  expect(due(at)).toEqual(['a', 'b']);
  retries.failed('a', refused, at);
  // Not tried for a long time, and then tried again: as if for the first time.
  retries.due(['b'], (key) => key, at);
  expect(due(at)).toEqual(['a', 'b']);
});
