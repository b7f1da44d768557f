// What a change of the schema would do, before it is made: the service tries it and keeps nothing. It says what breaks, or why it
// would refuse. A trial that fails for another reason, such as a busy service, does not stand in the way of the change.
// Contract: trying#dry-runs, trying#breaks.
import { useQuery } from '@tanstack/react-query';
import type { DryRun } from '../../client/src/transport.ts';
import { call } from '../api/call.ts';
import { statusOf } from '../api/errors.ts';
import { keyOf } from '../api/queries.ts';
import { useParams } from '../app/params.ts';
import { ErrorPanel } from '../parts/error-panel.tsx';
import { Notice, Skeleton } from '../parts/states.tsx';
import { counted } from '../parts/value.ts';

export interface Change {
  method: 'PATCH' | 'DELETE';
  path: string;
  query?: Record<string, string>;
  body?: unknown;
}

export interface Trial {
  report: DryRun | undefined;
  error: unknown;
  again: () => unknown;
  /** Why the change cannot be confirmed; null when it can. */
  block: string | null;
}

/** Tries a change; nothing while it is null. */
export function useDryRun(change: Change | null): Trial {
  const { tenant } = useParams();
  const { data, error, isFetching, refetch } = useQuery({
    queryKey: keyOf(tenant, 'dry-run', change),
    queryFn: async ({ signal }) => {
      const { method, path, query, body } = change as Change;
      const options = { tenant, signal, body, query: { ...query, dryRun: true } };
      return (await call(method, path, options)).dryRun ?? NOTHING;
    },
    enabled: change !== null,
    // The answer is valid for one moment, and each question costs the service as much as the change.
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
    refetchOnReconnect: false,
  });
  const again = change !== null && isFetching ? 'The change is being tried' : null;
  return { report: data, error, again: refetch, block: again ?? (isRefusal(error) ? 'The service refuses it' : null) };
}

const NOTHING: DryRun = { rules: [], events: 0, webhooks: 0, breaks: [] };
const PASSING = [408, 429];

function isRefusal(error: unknown): boolean {
  const status = statusOf(error);
  return status >= 400 && status < 500 && !PASSING.includes(status);
}

export function DryRunReport({ trial: { report, error, again } }: { trial: Trial }) {
  if (error !== null)
    return (
      <ErrorPanel
        title={isRefusal(error) ? 'This change would be refused.' : 'What this change breaks is not known.'}
        error={error}
        onRetry={again}
      />
    );
  if (report === undefined) return <Skeleton lines={2} />;
  const { breaks } = report;
  if (breaks.length === 0) return <Notice>A dry run breaks no view, role or rule, and no record loses a value.</Notice>;
  return (
    <ul className="stack schema-breaks" aria-label="What this change breaks">
      {breaks.map((one) => (
        <li key={`${one.kind} ${one.name} ${one.text}`}>
          <Notice tone={one.kind === 'record' ? 'bad' : 'warn'}>{sentenceOf(one)}</Notice>
        </li>
      ))}
    </ul>
  );
}

/** "2 records of deals lose their value of stage." or "Role sales: no longer shows stage of deals." */
function sentenceOf({ kind, name, text, count = 0 }: DryRun['breaks'][number]): string {
  if (kind !== 'record') return `${kind.charAt(0).toUpperCase()}${kind.slice(1)} ${name}: ${text}.`;
  const verb = count === 1 ? text.replace(/^lose their /, 'loses its ').replace(/^are /, 'is ') : text;
  return `${counted(count, 'record')} of ${name} ${verb}.`;
}
