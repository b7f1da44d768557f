// A state in a word, with a dot beside it: never colour alone.
import type { ReactNode } from 'react';

export type Tone = 'ok' | 'warn' | 'bad' | 'neutral';

export function Badge({ tone = 'neutral', children }: { tone?: Tone; children: ReactNode }) {
  return <span className={`badge ${tone}`}>{children}</span>;
}

/** A count, short above 999 and exact in its tooltip. */
export function Count({ value }: { value: number | null | undefined }) {
  if (value == null) return <span className="count">–</span>;
  return (
    <span className="count" title={value.toLocaleString('en')}>
      {value > 999 ? SHORT.format(value).toLowerCase() : value}
    </span>
  );
}

const SHORT = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });
