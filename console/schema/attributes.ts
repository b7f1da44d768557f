// Which attributes a field of each type has, and how it is called. test/console-schema.test.ts compares this with the
// service's table of types.
import type { FieldType } from '../api/answers.ts';

export type Attribute = 'min' | 'max' | 'minLength' | 'maxLength' | 'pattern' | 'options' | 'entity' | 'onDelete';

interface About {
  label: string;
  attributes: readonly Attribute[];
  canBeUnique: boolean;
  canBeIndexed: boolean;
}

const TEXT: readonly Attribute[] = ['minLength', 'maxLength', 'pattern'];
const RANGE: readonly Attribute[] = ['min', 'max'];
const TARGET: readonly Attribute[] = ['entity', 'onDelete'];

const about = (
  label: string,
  attributes: readonly Attribute[] = [],
  canBeUnique = true,
  canBeIndexed = true,
): About => ({
  label,
  attributes,
  canBeUnique,
  canBeIndexed,
});

export const TYPES: Readonly<Record<FieldType, About>> = {
  text: about('Text', TEXT),
  email: about('E-mail address', TEXT),
  url: about('Web address', TEXT),
  uuid: about('UUID'),
  integer: about('Whole number', RANGE),
  number: about('Number', RANGE),
  decimal: about('Decimal, exact, such as money', RANGE),
  boolean: about('Yes or no', [], false),
  date: about('Day'),
  datetime: about('Time', []),
  select: about('One of several options', ['options']),
  multiselect: about('Some of several options', ['options'], false),
  json: about('JSON', [], false, false),
  relation: about('Link to a record', TARGET),
  relations: about('Links to records', TARGET, false),
};

export const TYPE_NAMES = Object.keys(TYPES) as FieldType[];

/** A key made from a label: "Close date" becomes `close_date`; empty when nothing remains. */
export function keyFrom(label: string): string {
  const plain = label.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase();
  return plain
    .replace(/[^a-z0-9]+/g, '_')
    .replace(/^[_0-9]+|_+$/g, '')
    .slice(0, 63);
}

/** Why a key cannot be used; undefined when it can. */
export function keyProblem(key: string): string | undefined {
  if (key === 'name') return 'name is taken by the system. Use title.';
  if (['id', 'entityId', 'createdAt', 'updatedAt', 'createdBy', 'updatedBy'].includes(key))
    return `${key} is taken by the system.`;
  return /^[a-zA-Z][a-zA-Z0-9_]{0,62}$/.test(key) ? undefined : 'begins with a letter; letters, digits and _ only';
}
