// How much of a quota is used: a bar, and the same in words. From 80 % it warns, from 100 % it is full.
import { counted } from './value.ts';

const NEARLY = 0.8;

interface Props {
  used: number;
  limit: number;
  /** "record", for "81 % of 1,000 records". */
  noun?: string;
  /** Shows a number in place of its digits, such as bytes. */
  shown?: (value: number) => string;
}

export function Meter({ used, limit, noun, shown }: Props) {
  const share = limit === 0 ? 1 : used / limit;
  const percent = Math.floor(share * 100);
  const of = shown?.(limit) ?? (noun === undefined ? limit.toLocaleString('en') : counted(limit, noun));
  return (
    <span className={`meter ${share >= 1 ? 'full' : share >= NEARLY ? 'near' : ''}`}>
      <span className="meter-bar" aria-hidden="true">
        <i style={{ width: `${Math.min(100, percent)}%` }} />
      </span>
      <span className="caption num">
        {percent} % of {of}
        {share >= 1 ? ', used up' : share >= NEARLY ? ', nearly used up' : ''}
      </span>
    </span>
  );
}
