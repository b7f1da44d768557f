// The spans of the statements that a traced request runs, by OpenTelemetry's conventions for databases. A span names the operations and
// their tables. It has neither the statement's text, whose constants may be values of a tenant, nor its parameters.
// Contract: neighbours#who-does-what.
import type { Tracing } from './tracing.ts';
import { currentWork } from './work.ts';

/** Called when a statement has ended. */
export type StatementObserver = (text: string, durationMs: number, error: unknown) => void;

const SUMMARIES_MAX = 2_000;
const OPERATIONS_MAX = 4;
const OPERATION =
  /\b(select|insert\s+into|update|delete\s+from|declare|fetch)\b(?:\s+(?:only\s+)?((?:"(?:[^"]|"")+"|[a-z_]\w*)(?:\.(?:"(?:[^"]|"")+"|[a-z_]\w*))+))?/gi;

export function traceStatements(tracing: Tracing): StatementObserver {
  const summaries = new Map<string, string>();
  const summaryOf = (text: string): string => {
    const known = summaries.get(text);
    if (known !== undefined) return known;
    const summary = summarize(text);
    if (summaries.size < SUMMARIES_MAX) summaries.set(text, summary);
    return summary;
  };
  return (text, durationMs, error) => {
    const { trace } = currentWork();
    if (trace === null || !trace.isSampled) return;
    const summary = summaryOf(text);
    const code = (error as { code?: unknown } | null | undefined)?.code;
    tracing.record('client', summary, trace, durationMs, {
      'db.system.name': 'postgresql',
      'db.query.summary': summary,
      ...(error === undefined ? {} : { 'error.type': typeof code === 'string' ? code : 'unknown' }),
    });
  };
}

/** The operations with their tables, such as `UPDATE platform.tenants`; those on CTEs are left out. */
export function summarize(statement: string): string {
  const text = statement.replaceAll(/'(?:[^']|'')*'/g, "''");
  const found: string[] = [];
  for (const [, operation = '', table] of text.matchAll(OPERATION)) {
    const verb = operation.split(/\s/, 1)[0]?.toUpperCase() ?? '';
    const name = table?.replaceAll('"', '');
    if (verb !== 'SELECT' && name !== undefined) found.push(`${verb} ${name}`);
    if (found.length === OPERATIONS_MAX) break;
  }
  if (found.length > 0) return found.join(' ');
  const from = /\bfrom\s+(?:only\s+)?((?:"(?:[^"]|"")+"|[a-z_]\w*)(?:\.(?:"(?:[^"]|"")+"|[a-z_]\w*))+)/i.exec(
    text,
  )?.[1];
  const verb = /^\s*([a-z]+)/i.exec(text)?.[1]?.toUpperCase() ?? 'STATEMENT';
  return from === undefined ? verb : `SELECT ${from.replaceAll('"', '')}`;
}
