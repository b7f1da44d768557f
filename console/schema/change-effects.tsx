// What a change of a field breaks, before it is made: how many records it concerns, what must be changed first, and what
// programs will see. The numbers are counted by the service.
import { useQuery } from '@tanstack/react-query';
import type { Entity } from '../api/answers.ts';
import { countQuery } from '../api/queries.ts';
import { useParams } from '../app/params.ts';
import { Notice } from '../parts/states.tsx';
import { counted } from '../parts/value.ts';
import { type Dependent, nameDependents } from './dependents.ts';
import type { Definition } from './field-draft.ts';

export interface Effect {
  /** A sentence; the counted records come after it. */
  text: string;
  /** The records that it concerns, as a filter; '' for all. */
  filter?: string;
  /** What is said of them: "12 records have no value." */
  say?: string;
  isBlocking?: boolean;
}

/** The effects of a change; none when nothing that exists can break. */
export function effectsOf(
  entity: Entity,
  field: Definition,
  changes: Record<string, unknown>,
  dependents: readonly Dependent[],
): Effect[] {
  const { key } = field;
  const effects: Effect[] = [];
  const isMoved = 'key' in changes || 'type' in changes || 'entity' in changes;
  const blocking = dependents.filter(({ isBlocking }) => isBlocking);
  if (('key' in changes || 'type' in changes) && blocking.length > 0)
    effects.push({
      text: `${key} is used by ${nameDependents(blocking)}. Change these first; until then the service refuses.`,
      isBlocking: true,
    });
  if ('key' in changes)
    effects.push({
      text: `${key} becomes ${changes.key}. Programs that read or write ${key} in ${entity.name} fail until they use the new key.`,
    });
  if ('type' in changes)
    effects.push({
      text: `Values of ${key} are converted from ${field.type} to ${changes.type}. If a value has no exact counterpart, the change is refused; nothing is rounded or cut.`,
      filter: `${key} is not null`,
      say: 'have a value to convert',
    });
  if ('entity' in changes && !('type' in changes))
    effects.push({
      text: `${key} links to ${changes.entity} instead of ${field.entity}.`,
      filter: `${key} is not null`,
      say: 'have a link that must exist there',
    });
  if (changes.required === true)
    effects.push({
      text: `${key} becomes required.`,
      filter: `${key} is null`,
      say: 'have no value and block the change',
    });
  if (changes.unique === true)
    effects.push({ text: `${key} becomes unique. If two records have the same value, the change is refused.` });
  if ('options' in changes && !isMoved) effects.push(...optionEffects(field, changes.options as string[]));
  for (const name of ['min', 'max', 'minLength', 'maxLength', 'pattern'] as const)
    if (changes[name] !== undefined && changes[name] !== null)
      effects.push({
        text: `${name} becomes ${changes[name]}. If stored values do not fit, the change is refused.`,
      });
  return effects;
}

function optionEffects(field: Definition, options: readonly string[]): Effect[] {
  const gone = (field.options ?? []).filter((option) => !options.includes(option));
  return gone.map((option) => {
    const text = `"${option.replace(/[\\"]/g, '\\$&')}"`;
    const operator = field.type === 'multiselect' ? 'contains' : '=';
    return {
      text: `The option ${option} is removed.`,
      filter: `${field.key} ${operator} ${text}`,
      say: 'have it and block the change',
    };
  });
}

export function ChangeEffects({ effects, entity }: { effects: readonly Effect[]; entity: Entity }) {
  return (
    <ul className="stack schema-effects" aria-label="What this change does">
      {effects.map((effect) => (
        <li key={effect.text}>
          <Notice {...(effect.isBlocking ? { tone: 'bad' as const } : { tone: 'warn' as const })}>
            {effect.text}{' '}
            {effect.filter !== undefined && <Records entity={entity} filter={effect.filter} say={effect.say ?? ''} />}
          </Notice>
        </li>
      ))}
    </ul>
  );
}

/** "12 records have no value." */
export function Records({ entity, filter, say }: { entity: Entity; filter: string; say: string }) {
  const { tenant } = useParams();
  const { data, isError } = useQuery(countQuery(tenant, entity.name, filter === '' ? {} : { filters: filter }));
  if (isError) return null;
  if (data === undefined) return <span>Counting…</span>;
  const count = data ?? 0;
  return (
    <strong>
      {counted(count, 'record')}{' '}
      {count === 1 ? say.replace(/^have/, 'has').replace(/ and block /, ' and blocks ') : say}.
    </strong>
  );
}
