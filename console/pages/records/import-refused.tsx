// Lines that were refused, or would be, with their numbers in the file and the reasons; the first of many.
import { Table } from '../../parts/table.tsx';
import type { Refusal } from './import-run.ts';

export function RefusedLines({ first, count, caption }: { first: readonly Refusal[]; count: number; caption: string }) {
  return (
    <div className="import-refused">
      <Table
        caption={caption}
        rows={first}
        keyOf={({ line }) => String(line)}
        columns={[
          { key: 'line', header: 'line', cell: ({ line }) => <span className="num">{line.toLocaleString('en')}</span> },
          { key: 'reason', header: 'reason', cell: ({ message }) => message },
        ]}
      />
      {count > first.length && (
        <p className="caption">
          The first {first.length} of {count.toLocaleString('en')}.
        </p>
      )}
    </div>
  );
}
