// A relation as text: the titles of the records that it leads to, the beginnings of their ids until those are known.
import type { Field } from '../api/answers.ts';
import { useTitles } from './titles.ts';

const MOST_SHOWN = 20;

export function RelationText({ tenant, field, value }: { tenant: string; field: Field; value: unknown }) {
  const ids = (Array.isArray(value) ? value : [value]).map(String).slice(0, MOST_SHOWN);
  const text = useTitles(tenant, field.entity ?? '', ids).join(', ');
  return <span className="ellipsis">{text === '' ? '—' : text}</span>;
}
