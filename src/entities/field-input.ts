// Parses field definitions from a request and reports all problems of all fields at once. Pure: whether
// stored records satisfy a definition is checked in stored-validation.ts.
// Contract: decisions#entities.
import type { Problem } from '../errors.ts';
import { check, given, type Sound } from '../http/check.ts';
import type { Catalog } from './catalog.ts';
import { FieldInput, FieldList } from './definition.ts';
import { type Field, type FieldRules, type FieldType, RESERVED_KEYS } from './field.ts';
import { compareLimits, isDecimal, isPattern } from './field-parsers.ts';
import { fieldRef, specOf, type TypeAttribute } from './field-types.ts';

/** A field as defined, before it has an id and a slot. */
export type FieldDraft = Omit<Field, 'id' | 'slot' | 'position' | 'ref'>;

const RULES = ['min', 'max', 'minLength', 'maxLength', 'pattern', 'options'] as const;
const TYPE_ATTRIBUTES: ReadonlySet<string> = new Set([...RULES, 'entity', 'onDelete'] satisfies TypeAttribute[]);

/** Whether an attribute of a definition exists for a type. */
export function attributeApplies(name: string, type: FieldType): boolean {
  return !TYPE_ATTRIBUTES.has(name) || specOf({ type }).attributes.some((attribute) => attribute === name);
}

/** Possible targets of relations: the catalog, and the entity that is being created. */
export interface Targets {
  catalog: Catalog;
  self: { id: string; name: string };
}

/** Parses the valid attributes of one definition at `path` in the body. Adds problems to the list instead of throwing. */
export function parseField(input: Sound<FieldInput>, path: string, targets: Targets, problems: Problem[]): FieldDraft {
  const check = new Checks(input, path, problems);
  const { key = '', type = 'text', label = null, description = null } = input;
  if (RESERVED_KEYS.has(key)) check.fail('key', `"${key}" is a reserved name`);
  const draft: FieldDraft = {
    key,
    type,
    label,
    description,
    required: input.required === true,
    unique: input.unique === true,
    indexed: input.indexed === true,
    default: undefined,
    ...readRules(check, type),
    targetId: readTarget(check, type, targets),
    onDelete: attributeApplies('onDelete', type) ? (input.onDelete ?? 'restrict') : null,
  };
  const { canBeUnique, index } = specOf(draft);
  if (draft.unique && !canBeUnique) check.fail('unique', `does not apply to ${type} fields`);
  if (draft.indexed && index === null) check.fail('indexed', `does not apply to ${type} fields`);
  if (input.onDelete !== undefined && draft.onDelete === null) check.fail('onDelete', 'applies to relations only');
  if (draft.onDelete === 'set_null' && draft.required && type === 'relation') {
    check.fail('onDelete', 'set_null cannot be combined with a required relation');
  }
  readDefault(check, draft);
  return draft;
}

/** Collects the problems of one definition. */
class Checks {
  constructor(
    readonly input: Sound<FieldInput>,
    private readonly path: string,
    private readonly problems: Problem[],
  ) {}

  fail(name: string, message: string): void {
    this.problems.push({ path: this.path === '' ? name : `${this.path}.${name}`, message });
  }

  given(name: keyof FieldInput): boolean {
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
    if (typeof value === 'number' || (type === 'decimal' && isDecimal(value))) rules[name] = value;
    else check.fail(name, 'must be a number');
  }
  const { min, max } = rules;
  if (min !== undefined && max !== undefined && compareLimits(min, max) > 0) {
    check.fail('max', 'must not be less than min');
  }
  return rules;
}

function readLengths(check: Checks): FieldRules {
  const { minLength, maxLength, pattern } = given({
    minLength: check.input.minLength,
    maxLength: check.input.maxLength,
    pattern: check.input.pattern,
  });
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
  if (!check.given('options')) check.fail('options', 'is required: the values to choose from');
  return (check.input.options ?? []).filter((option) => option !== undefined);
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

/** One definition with its problems: those of its schema, and those of its type and the catalog. 400. */
export function readField(input: FieldInput, targets: Targets): FieldDraft {
  const drafts: FieldDraft[] = [];
  check(FieldInput, input, (sound) => {
    const problems: Problem[] = [];
    drafts.push(parseField(sound, '', targets, problems));
    return problems;
  });
  return drafts[0] as FieldDraft;
}

/** The definitions of a new entity, no key twice. 400. */
export function readFields(body: FieldList, targets: Targets): FieldDraft[] {
  const drafts: FieldDraft[] = [];
  check(FieldList, body, ({ fields }) => {
    const problems: Problem[] = [];
    const seen = new Set<string>();
    for (const [i, field] of (fields ?? []).entries()) {
      if (field === undefined) continue;
      const draft = parseField(field, `fields.${i}`, targets, problems);
      if (seen.has(draft.key)) problems.push({ path: `fields.${i}.key`, message: `"${draft.key}" is used twice` });
      seen.add(draft.key);
      drafts.push(draft);
    }
    return problems;
  });
  return drafts;
}
