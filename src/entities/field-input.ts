// Parses field definitions from a request and reports all problems of all fields at once. Pure: whether
// stored records satisfy a definition is checked in stored-validation.ts.
// Contract: decisions#entities.
import { invalid, type Problem } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import type { JsonObject } from '../runtime/text.ts';
import type { Catalog } from './catalog.ts';
import { type Field, type FieldRules, type FieldType, type OnDelete, RESERVED_KEYS } from './field.ts';
import { compareLimits, isDecimal, isPattern } from './field-parsers.ts';
import { FIELD_TYPE_NAMES, fieldRef, specOf, type TypeAttribute } from './field-types.ts';

const KEY_PATTERN = /^[a-zA-Z][a-zA-Z0-9_]{0,62}$/;
export const NAME_PATTERN = /^[a-z][a-z0-9_]{0,47}$/;

/** A field as defined, before it has an id and a slot. */
export type FieldDraft = Omit<Field, 'id' | 'slot' | 'position' | 'ref'>;

const ATTRIBUTES = new Set([
  ...['key', 'type', 'label', 'description', 'required', 'unique', 'indexed', 'default'],
  ...['min', 'max', 'minLength', 'maxLength', 'pattern', 'options', 'entity', 'onDelete'],
]);
const ON_DELETE: readonly OnDelete[] = ['restrict', 'set_null', 'cascade'];
const RULES = ['min', 'max', 'minLength', 'maxLength', 'pattern', 'options'] as const;
const TYPE_ATTRIBUTES: ReadonlySet<string> = new Set([...RULES, 'entity', 'onDelete'] satisfies TypeAttribute[]);

/** Whether an attribute of a definition exists for a type. */
export function attributeApplies(name: string, type: FieldType): boolean {
  return !TYPE_ATTRIBUTES.has(name) || specOf({ type }).attributes.some((attribute) => attribute === name);
}

/** What relations may point at: the catalog, and the entity that is being created. */
export interface Targets {
  catalog: Catalog;
  self: { id: string; name: string };
}

/** Parses one definition at `path` in the body. Adds problems to the list instead of throwing. */
export function parseField(input: JsonObject, path: string, targets: Targets, problems: Problem[]): FieldDraft {
  const check = new Checks(input, path, problems);
  for (const name of Object.keys(input)) if (!ATTRIBUTES.has(name)) check.fail(name, 'is not an attribute of a field');
  const key = check.text('key', KEY_PATTERN.source, 64) ?? '';
  if (RESERVED_KEYS.has(key)) check.fail('key', `"${key}" is a reserved name`);
  else if (!KEY_PATTERN.test(key)) check.fail('key', `must match ${KEY_PATTERN.source}`);
  const type = check.oneOf('type', FIELD_TYPE_NAMES) ?? 'text';
  if (input.type === undefined) check.fail('type', `is required: one of ${FIELD_TYPE_NAMES.join(', ')}`);
  const draft: FieldDraft = {
    key,
    type,
    label: check.text('label', 'a text', LIMITS.entity.labelMax) ?? null,
    description: check.text('description', 'a text', LIMITS.entity.descriptionMax) ?? null,
    required: check.flag('required'),
    unique: check.flag('unique'),
    indexed: check.flag('indexed'),
    default: undefined,
    ...readRules(check, type),
    targetId: readTarget(check, type, targets),
    onDelete: attributeApplies('onDelete', type) ? (check.oneOf('onDelete', ON_DELETE) ?? 'restrict') : null,
  };
  const { canBeUnique, index } = specOf(draft);
  if (draft.unique && !canBeUnique) check.fail('unique', `does not apply to ${type} fields`);
  if (draft.indexed && index === null) check.fail('indexed', `does not apply to ${type} fields`);
  if (input.onDelete !== undefined && draft.onDelete === null) check.fail('onDelete', 'applies to relations only');
  if (draft.onDelete === 'set_null' && draft.required && type === 'relation') {
    check.fail('onDelete', 'set_null does not go with a required relation');
  }
  readDefault(check, draft);
  return draft;
}

/** Collects the problems of one definition. */
class Checks {
  constructor(
    readonly input: JsonObject,
    private readonly path: string,
    private readonly problems: Problem[],
  ) {}

  fail(name: string, message: string): void {
    this.problems.push({ path: this.path === '' ? name : `${this.path}.${name}`, message });
  }

  text(name: string, expected: string, max: number): string | undefined {
    const value = this.input[name];
    if (value === undefined || value === null) return undefined;
    if (typeof value === 'string' && value.length <= max) return value;
    this.fail(name, `must be ${expected} of at most ${max} characters`);
    return undefined;
  }

  flag(name: string): boolean {
    const value = this.input[name];
    if (value !== undefined && typeof value !== 'boolean') this.fail(name, 'must be true or false');
    return value === true;
  }

  oneOf<T extends string>(name: string, accepted: readonly T[]): T | undefined {
    const value = this.input[name];
    if (value === undefined || value === null) return undefined;
    const found = accepted.find((item) => item === value);
    if (found === undefined) this.fail(name, `must be one of ${accepted.join(', ')}`);
    return found;
  }

  count(name: string): number | undefined {
    const value = this.input[name];
    if (value === undefined || value === null) return undefined;
    if (Number.isSafeInteger(value) && (value as number) >= 0) return value as number;
    this.fail(name, 'must be a whole number of at least 0');
    return undefined;
  }

  given(name: string): boolean {
    return this.input[name] !== undefined && this.input[name] !== null;
  }
}

function readRules(check: Checks, type: FieldType): FieldRules {
  for (const name of RULES) {
    if (check.given(name) && !attributeApplies(name, type)) check.fail(name, `does not apply to ${type} fields`);
  }
  if (attributeApplies('min', type)) return readRange(check, type);
  if (attributeApplies('minLength', type)) return readLengths(check);
  return attributeApplies('options', type) ? { options: readOptions(check) } : {};
}

function readRange(check: Checks, type: FieldType): FieldRules {
  const rules: FieldRules = {};
  for (const name of ['min', 'max'] as const) {
    const value = check.input[name];
    if (value === undefined || value === null) continue;
    const isValid = typeof value === 'number' ? Number.isFinite(value) : type === 'decimal' && isDecimal(value);
    if (isValid) rules[name] = value as number | string;
    else check.fail(name, 'must be a number');
  }
  const { min, max } = rules;
  if (min !== undefined && max !== undefined && compareLimits(min, max) > 0) {
    check.fail('max', 'must not be less than min');
  }
  return rules;
}

function readLengths(check: Checks): FieldRules {
  const minLength = check.count('minLength');
  const maxLength = check.count('maxLength');
  const pattern = check.text('pattern', 'a pattern', 1_000);
  if (minLength !== undefined && maxLength !== undefined && minLength > maxLength) {
    check.fail('maxLength', 'must not be less than minLength');
  }
  if (pattern !== undefined && !isPattern(pattern)) check.fail('pattern', 'is not a valid pattern (RE2 syntax)');
  return {
    ...(minLength === undefined ? {} : { minLength }),
    ...(maxLength === undefined ? {} : { maxLength }),
    ...(pattern === undefined ? {} : { pattern }),
  };
}

function readOptions(check: Checks): string[] {
  const value = check.input.options;
  const options = Array.isArray(value) ? value : [];
  const isValid =
    options.length > 0 &&
    options.length <= LIMITS.entity.optionsMax &&
    options.every((option) => typeof option === 'string' && option !== '' && option.length <= LIMITS.entity.labelMax) &&
    new Set(options).size === options.length;
  if (!isValid) check.fail('options', `must be a list of 1 to ${LIMITS.entity.optionsMax} different texts`);
  return isValid ? options : [];
}

function readTarget(check: Checks, type: FieldType, { catalog, self }: Targets): string | null {
  const name = check.input.entity;
  if (!attributeApplies('entity', type)) {
    if (check.given('entity')) check.fail('entity', 'applies to relations only');
    return null;
  }
  if (name === self.name) return self.id;
  const target = typeof name === 'string' ? catalog.byName.get(name) : undefined;
  if (target === undefined) check.fail('entity', 'must name an entity of this tenant');
  return target?.id ?? null;
}

function readDefault(check: Checks, draft: FieldDraft): void {
  if (!check.given('default')) return;
  if (draft.targetId !== null) {
    check.fail('default', 'does not apply to relations');
    return;
  }
  const parsed = specOf(draft).parse(check.input.default, fieldOf(draft, '', '', 0));
  if ('problem' in parsed) check.fail('default', parsed.problem);
  else draft.default = parsed.value;
}

/** The draft as a field of an entity. */
export function fieldOf(draft: FieldDraft, id: string, slot: string, position: number): Field {
  return { ...draft, id, slot, position, ref: fieldRef({ ...draft, slot }) };
}

/** Parses the definitions of a new entity: at most LIMITS.entity.fieldsMax, no key twice. Throws 400. */
export function parseFields(input: unknown, targets: Targets): FieldDraft[] {
  if (input === undefined || input === null) return [];
  const problems: Problem[] = [];
  if (!Array.isArray(input)) throw invalid([{ path: 'fields', message: 'must be a list' }]);
  if (input.length > LIMITS.entity.fieldsMax) {
    throw invalid([{ path: 'fields', message: `must have at most ${LIMITS.entity.fieldsMax} items` }]);
  }
  const seen = new Set<string>();
  const drafts = input.map((item: unknown, i) => {
    const path = `fields.${i}`;
    if (item === null || typeof item !== 'object' || Array.isArray(item)) {
      problems.push({ path, message: 'must be an object' });
      return null;
    }
    const draft = parseField(item as JsonObject, path, targets, problems);
    if (seen.has(draft.key)) problems.push({ path: `${path}.key`, message: `"${draft.key}" is used twice` });
    seen.add(draft.key);
    return draft;
  });
  if (problems.length > 0) throw invalid(problems);
  return drafts.filter((draft) => draft !== null);
}
