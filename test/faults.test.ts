// A short run of what `scripts/faults` does at length: processes, Redis and Postgres are killed while records are
// written, and the ledger of what was acknowledged, delivered and shown is balanced at the end.
// Contract: decisions#events.
import { expect, test } from 'bun:test';
import { execFile } from 'node:child_process';
import process from 'node:process';
import { ROOT } from './support/source.ts';

/** Kills, and each of the other faults once; a delivery that a killed process had on its way waits for its lease. */
const FAULTS = '--kills 3 --redis 1 --postgres 1 --backends 1 --outage 1'.split(' ');
const ENDS_MS = 300_000;

function runFaults(): Promise<{ code: number; said: string; errors: string }> {
  return new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      ['--no-env-file', 'scripts/fault/main.ts', ...FAULTS],
      { cwd: ROOT, timeout: ENDS_MS },
      (_, said, errors) => resolve({ code: child.exitCode ?? -1, said, errors }),
    );
  });
}

// The run's own servers need the programs of both, which a machine that only has embedded stores may lack.
if (process.env.DATABASE_URL && process.env.REDIS_URL) {
  test(
    'whatever is killed, nothing that was acknowledged is lost, and no stream leaves anything out',
    async () => {
      const { code, said, errors } = await runFaults();
      const verdict = JSON.parse(said.trim().split('\n').at(-1) || '{}');
      const whole = { gaps: 0, doubled: 0 };
      expect(verdict, said + errors).toMatchObject({
        ...{ lost: 0, disordered: 0, undelivered: 0, unfounded: 0, pending: 0, failed: 0, fallen: [] },
        streams: { sse: whole, ws: whole },
      });
      expect(verdict.streams.sse.shown).toBeGreaterThan(0);
      expect(code).toBe(0);
    },
    ENDS_MS,
  );
}
