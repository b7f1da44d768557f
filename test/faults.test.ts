// A short fault run (`scripts/faults`): kills processes, Redis and Postgres while records are written, and compares the
// acknowledged changes with the delivered and streamed ones. .ci/nightly runs it at full length.
// Contract: decisions#events.
import { expect, test } from 'bun:test';
import { execFile } from 'node:child_process';
import process from 'node:process';
import { ROOT } from './support/source.ts';

/** Three kills, and each other fault once. A delivery that a killed process had in flight waits for its lease to expire. */
const FAULTS = '--kills 3 --redis 1 --postgres 1 --backends 1 --outage 1'.split(' ');
const TIMEOUT_MS = 300_000;

function runFaults(): Promise<{ code: number; said: string; errors: string }> {
  return new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      ['--no-env-file', 'scripts/fault/main.ts', ...FAULTS],
      { cwd: ROOT, timeout: TIMEOUT_MS },
      (_, said, errors) => resolve({ code: child.exitCode ?? -1, said, errors }),
    );
  });
}

// The run starts its own servers, whose programs a machine without real stores may lack.
if (process.env.DATABASE_URL && process.env.REDIS_URL) {
  test(
    'after any kill, no acknowledged write is lost, no stream has a gap, and the feed has each change once',
    async () => {
      const { code, said, errors } = await runFaults();
      const verdict = JSON.parse(said.trim().split('\n').at(-1) || '{}');
      const once = { lost: 0, doubled: 0, disordered: 0, unexpected: [] };
      const whole = { gaps: 0, duplicated: 0 };
      expect(verdict, said + errors).toMatchObject({
        ...{ lost: 0, outOfOrder: 0, missing: 0, orphaned: 0, pending: 0, failed: 0, unexpectedExits: [] },
        streams: { sse: whole, ws: whole },
        feed: { poll: once, sse: once, ws: once },
      });
      expect(verdict.streams.sse.received).toBeGreaterThan(0);
      expect(code).toBe(0);
    },
    TIMEOUT_MS,
  );
}
