// "Check all lines": reads the whole file and says which lines do not fit their fields, before anything is sent. It is the
// page that checks, and it says so: the service has the last word.
import { useEffect, useRef, useState } from 'react';
import { isAborted } from '../../api/errors.ts';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { Notice, Progress } from '../../parts/states.tsx';
import { counted } from '../../parts/value.ts';
import type { Plan } from './import-plan.ts';
import { RefusedLines } from './import-refused.tsx';
import type { Refusal } from './import-run.ts';
import { recordsOf, type Source } from './import-source.ts';

const PER_LOOKUP = 1_000;
const MOST_SHOWN = 100;

interface Found {
  share: number;
  lines: number;
  problems: number;
  first: readonly Refusal[];
  isDone: boolean;
}

export interface Check {
  found: Found | null;
  failure: unknown;
  isRunning: boolean;
  run: (source: Source, plan: Plan) => Promise<void>;
  reset: () => void;
}

export function useCheck(): Check {
  const [found, setFound] = useState<Found | null>(null);
  const [failure, setFailure] = useState<unknown>(null);
  const running = useRef<AbortController | null>(null);
  useEffect(() => () => running.current?.abort(), []);
  const reset = (): void => {
    running.current?.abort();
    setFound(null);
    setFailure(null);
  };
  const run = async (source: Source, plan: Plan): Promise<void> => {
    reset();
    const abort = new AbortController();
    running.current = abort;
    try {
      for await (const one of checked(source, plan, abort.signal)) setFound(one);
    } catch (cause) {
      if (isAborted(cause)) return;
      setFound(null);
      setFailure(cause);
    }
  };
  return { found, failure, isRunning: found !== null && !found.isDone, run, reset };
}

async function* checked(source: Source, plan: Plan, signal: AbortSignal): AsyncGenerator<Found> {
  const first: Refusal[] = [];
  const found: Found = { share: 0, lines: 0, problems: 0, first, isDone: false };
  for await (const { records, bytes } of recordsOf(source, signal)) {
    for (let at = 0; at < records.length; at += PER_LOOKUP) {
      const part = records.slice(at, at + PER_LOOKUP);
      await plan.learn(part);
      signal.throwIfAborted();
      for (const record of part) {
        const result = plan.check(record);
        if (!('problem' in result)) continue;
        found.problems += 1;
        if (first.length < MOST_SHOWN) first.push({ line: record.line, message: result.problem });
      }
      found.lines += part.length;
    }
    yield { ...found, share: bytes / Math.max(1, source.blob.size) };
  }
  yield { ...found, share: 1, isDone: true };
}

export function CheckResult({ check: { found, failure } }: { check: Check }) {
  if (failure !== null) return <ErrorPanel title="The lines were not checked." error={failure} />;
  if (found === null) return null;
  const { lines, problems, first, share, isDone } = found;
  if (!isDone) return <Progress value={share} max={1} label={`${counted(lines, 'line')} checked`} />;
  return (
    <div role="status" className="stack">
      <Notice {...(problems === 0 ? {} : { tone: 'warn' as const })}>
        {problems === 0
          ? `All ${counted(lines, 'line')} fit their fields.`
          : `${counted(problems, 'line')} of ${lines.toLocaleString('en')} ${problems === 1 ? 'does' : 'do'} not fit.`}{' '}
        Checked in this page; unique values, rules and rights are checked by the service during the import.
      </Notice>
      {problems > 0 && <RefusedLines first={first} count={problems} caption="Lines that do not fit" />}
    </div>
  );
}
