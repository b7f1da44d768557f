// The columns of the grid: the entity's fields and when a record changed, with widths by type. `cols` of the link names
// those that are shown, in order, each with a width if it was changed: `title,stage:140`.
import type { Entity, Field, FieldType } from '../api/answers.ts';

export interface GridColumn {
  key: string;
  label: string;
  field: Field;
  width: number;
  isNumber: boolean;
  /** Why a cell of it cannot be changed; null when it can. */
  fixed: string | null;
  canSort: boolean;
}

const WIDTHS: Partial<Record<FieldType, number>> = {
  boolean: 88,
  integer: 112,
  number: 112,
  decimal: 124,
  date: 128,
  datetime: 196,
  select: 136,
  json: 200,
};
const WIDTH = 220;
const NARROWEST = 72;
const WIDEST = 720;
const UNSORTABLE: readonly FieldType[] = ['json', 'multiselect', 'relations'];
const NUMBERS: readonly FieldType[] = ['integer', 'number', 'decimal'];
/** Shown unless the link says otherwise. */
const MOST_AT_FIRST = 12;

const system = (key: string, type: FieldType): Field => ({
  id: key,
  key,
  type,
  label: null,
  description: null,
  required: true,
  unique: false,
  indexed: true,
});
const SYSTEM: readonly Field[] = [
  system('updatedAt', 'datetime'),
  system('createdAt', 'datetime'),
  system('createdBy', 'text'),
  system('updatedBy', 'text'),
  system('id', 'uuid'),
];

/** All columns that there are, those of the entity first. */
export function columnsOf(entity: Entity): GridColumn[] {
  const isSystem = (field: Field): boolean => SYSTEM.includes(field);
  return [...entity.fields, ...SYSTEM].map((field) => ({
    key: field.key,
    label: field.label ?? field.key,
    field,
    width: WIDTHS[field.type] ?? WIDTH,
    isNumber: NUMBERS.includes(field.type),
    fixed: isSystem(field) ? `${field.key} is set by the system` : null,
    canSort: !UNSORTABLE.includes(field.type),
  }));
}

/** The columns that `cols` names; without it the first fields and when a record changed. */
export function chosenColumns(all: readonly GridColumn[], cols: string): GridColumn[] {
  const named = cols.split(',').flatMap((text) => {
    const [key = '', width] = text.split(':');
    const column = all.find((one) => one.key === key.trim());
    return column === undefined ? [] : [{ ...column, width: widthOf(Number(width), column.width) }];
  });
  if (named.length > 0) return named;
  const fields = all.filter(({ fixed }) => fixed === null).slice(0, MOST_AT_FIRST);
  return [...fields, ...all.filter(({ key }) => key === 'updatedAt')];
}

export function colsOf(columns: readonly GridColumn[], all: readonly GridColumn[]): string {
  return columns
    .map(({ key, width }) => (all.find((one) => one.key === key)?.width === width ? key : `${key}:${width}`))
    .join(',');
}

export function widthOf(width: number, otherwise: number): number {
  return Number.isFinite(width) && width > 0 ? Math.round(Math.min(WIDEST, Math.max(NARROWEST, width))) : otherwise;
}

/** The direction in which a list is sorted by a key, and its place among several. */
export function sortOf(sort: string, key: string): { direction: 'ascending' | 'descending' | null; place: number } {
  const keys = sort.split(',').filter(Boolean);
  const place = keys.findIndex((one) => one.replace(/^-/, '') === key);
  if (place < 0) return { direction: null, place };
  return { direction: keys[place]?.startsWith('-') ? 'descending' : 'ascending', place };
}

/** The sort after a click on a header: ascending, descending, none; with Shift beside the other keys. */
export function nextSort(sort: string, key: string, isAdded: boolean): string {
  const { direction } = sortOf(sort, key);
  const next = direction === null ? [key] : direction === 'ascending' ? [`-${key}`] : [];
  if (!isAdded) return next.join(',');
  const keys = sort.split(',').filter(Boolean);
  if (direction === null) return [...keys, key].join(',');
  return keys.flatMap((one) => (one.replace(/^-/, '') === key ? next : [one])).join(',');
}
