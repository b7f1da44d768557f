// Two states of a record, field by field: the old value struck through and marked "−", the new one marked "+".
import { shown } from './value.ts';

interface Change {
  field: string;
  before: unknown;
  after: unknown;
}

export function changesBetween(before: Record<string, unknown>, after: Record<string, unknown>): Change[] {
  const fields = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return fields
    .filter((field) => JSON.stringify(before[field] ?? null) !== JSON.stringify(after[field] ?? null))
    .map((field) => ({ field, before: before[field] ?? null, after: after[field] ?? null }));
}

export function Diff({ changes }: { changes: readonly Change[] }) {
  return (
    <dl className="diff">
      {changes.map(({ field, before, after }) => (
        <div key={field}>
          <dt>{field}</dt>
          <dd>
            <del>
              <span aria-hidden="true">− </span>
              {shown(before)}
            </del>
            <ins>
              <span aria-hidden="true">+ </span>
              {shown(after)}
            </ins>
          </dd>
        </div>
      ))}
    </dl>
  );
}
