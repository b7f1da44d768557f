// What each rule did last, as the tenant's event stream tells it while the page is open: rules after a change emit
// rule.executed and rule.failed. Rules before a change act within it and emit nothing.
import { useState } from 'react';
import type { LiveState } from '../../api/changes.ts';
import { useEvents } from '../../api/use-changes.ts';
import { Link } from '../../app/router.tsx';
import { Badge } from '../../parts/badge.tsx';
import { ago, exactTime } from '../../parts/value.ts';
import type { Rule } from './rule.ts';

interface Run {
  at: string;
  record: string;
  /** Why it failed; null when it did not. */
  error: string | null;
}

/** The last run of each rule that ran since the page was opened. */
export interface LastRuns {
  state: LiveState;
  of: (rule: Rule) => Run | undefined;
}

interface RuleEvent {
  timestamp: string;
  data: { rule_name: string; trigger_type: string; entity: string; record_id: string; error?: string };
}

export function useLastRuns(tenant: string): LastRuns {
  const [runs, setRuns] = useState<ReadonlyMap<string, Run>>(new Map());
  const { state } = useEvents(
    tenant,
    { events: ['rule.executed', 'rule.failed'] },
    {
      onEvent: (_, text) => {
        const { timestamp, data } = JSON.parse(text) as RuleEvent;
        const run = { at: timestamp, record: data.record_id, error: data.error ?? null };
        setRuns((before) => new Map(before).set(keyOf(data.rule_name, data.entity, data.trigger_type), run));
      },
    },
  );
  return { state, of: ({ name, entity, trigger }) => runs.get(keyOf(name, entity, trigger)) };
}

/** An event names its rule, entity and trigger, not its id. */
const keyOf = (...parts: readonly string[]): string => parts.join('\n');

export function LastRun({ tenant, rule, runs }: { tenant: string; rule: Rule; runs: LastRuns }) {
  if (rule.trigger.startsWith('before')) return <span className="dim">acts within the change</span>;
  const run = runs.of(rule);
  if (run === undefined) return <span className="dim">{runs.state === 'live' ? 'waiting' : '—'}</span>;
  const record = (
    <Link href={`/app/t/${tenant}/records/${rule.entity}/${run.record}`} title={exactTime(run.at)}>
      {ago(run.at)}
    </Link>
  );
  return (
    <div className="rules-run">
      <span className="row">
        <Badge tone={run.error === null ? 'ok' : 'bad'}>{run.error === null ? 'ran' : 'failed'}</Badge> {record}
      </span>
      {run.error !== null && <span className="field-error">{run.error}</span>}
    </div>
  );
}
