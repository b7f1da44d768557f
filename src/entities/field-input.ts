// Parses field definitions from a request and reports all problems of all fields at once. Pure: whether
// stored records satisfy a definition is checked in stored-validation.ts.
// Contract: decisions#entities.
import type { Problem } from '../errors.ts';
import { check, given, type Valid } from '../http/check.ts';
import { LIMITS } from '../limits.ts';
import { isJsonLarger } from '../runtime/text.ts';
import type { Catalog } from './catalog.ts';
import { FieldInput, FieldList } from './definition.ts';
import { FIELD_RULES, type Field, type FieldRules, type FieldType, RESERVED_KEYS } from './field.ts';
import { compareLimits, isDecimal } from './field-parsers.ts';
import { fieldRef, specOf, type TypeAttribute } from './field-types.ts';
import { type PatternValue, patternProblem } from './patterns.ts';

/** A field as defined, before it has an id and a slot. */
export type FieldDraft = Omit<Field, 'id' | 'slot' | 'slotAt' | 'isRetyped' | 'position' | 'ref'>;

const TYPE_ATTRIBUTES: ReadonlySet<string> = new Set([...FIELD_RULES, 'entity', 'onDelete'] satisfies TypeAttribute[]);

/** Whether an attribute of a definition exists for a type. */
export function attributeApplies(name: string, type: FieldType): boolean {
  return !TYPE_ATTRIBUTES.has(name) || specOf({ type }).attributes.some((attribute) => attribute === name);
}

/** Possible targets of relations: the catalog, and the field's own entity, which may not exist yet. */
export interface Targets {
  catalog: Catalog;
  self: { id: string; name: string };
}

/** Parses the valid attributes of the definition at `path` in the body; adds problems to the list. */
function parseField(input: Valid<FieldInput>, path: string, targets: Targets, problems: Problem[]): FieldDraft {
  const reader = new AttributeReader(input, path, problems);
  const { key = '', type = 'text', label = null, description = null } = input;
  if (RESERVED_KEYS.has(key)) reader.fail('key', `"${key}" is a reserved name`);
  const draft: FieldDraft = {
    key,
    type,
    label,
    description,
    required: input.required === true,
    unique: input.unique === true,
    indexed: input.indexed === true,
    default: undefined,
    ...readRules(reader, type),
    targetId: readTarget(reader, type, targets),
    onDelete: attributeApplies('onDelete', type) ? (input.onDelete ?? 'restrict') : null,
  };
  const { canBeUnique, index } = specOf(draft);
  if (draft.unique && !canBeUnique) reader.fail('unique', `does not apply to ${type} fields`);
  if (draft.indexed && index === null) reader.fail('indexed', `does not apply to ${type} fields`);
  if (input.onDelete !== undefined && draft.onDelete === null) reader.fail('onDelete', 'applies to relations only');
  if (draft.onDelete === 'set_null' && draft.required && type === 'relation') {
    reader.fail('onDelete', 'set_null cannot be combined with a required relation');
  }
  readDefault(reader, draft);
  return draft;
}

/** Reads the attributes of one definition and collects its problems. */
class AttributeReader {
  constructor(
    readonly input: Valid<FieldInput>,
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

function readRules(reader: AttributeReader, type: FieldType): FieldRules {
  for (const name of FIELD_RULES) {
    if (reader.given(name) && !attributeApplies(name, type)) reader.fail(name, `does not apply to ${type} fields`);
  }
  if (attributeApplies('min', type)) return readRange(reader, type);
  if (attributeApplies('minLength', type)) return readLengths(reader);
  return attributeApplies('options', type) ? { options: readOptions(reader) } : {};
}

function readRange(reader: AttributeReader, type: FieldType): FieldRules {
  const rules: FieldRules = {};
  for (const name of ['min', 'max'] as const) {
    const value = reader.input[name];
    if (value === undefined || value === null) continue;
    if (typeof value === 'number' || (type === 'decimal' && isDecimal(value))) rules[name] = value;
    else reader.fail(name, 'must be a number');
  }
  const { min, max } = rules;
  if (min !== undefined && max !== undefined && compareLimits(min, max) > 0) {
    reader.fail('max', 'must not be less than min');
  }
  return rules;
}

function readLengths(reader: AttributeReader): FieldRules {
  const { minLength, maxLength, pattern } = reader.input;
  const rules = given({ minLength, maxLength, pattern });
  if (rules.minLength !== undefined && rules.maxLength !== undefined && rules.minLength > rules.maxLength) {
    reader.fail('maxLength', 'must not be less than minLength');
  }
  const problem = patternProblem(rules);
  if (problem !== undefined) reader.fail('pattern', problem);
  return rules;
}

function readOptions(reader: AttributeReader): string[] {
  if (!reader.given('options')) reader.fail('options', 'is required: the values to choose from');
  return (reader.input.options ?? []).filter((option) => option !== undefined);
}

function readTarget(reader: AttributeReader, type: FieldType, { catalog, self }: Targets): string | null {
  const name = reader.input.entity;
  if (!attributeApplies('entity', type)) {
    if (reader.given('entity')) reader.fail('entity', 'applies to relations only');
    return null;
  }
  if (name === self.name) return self.id;
  const target = typeof name === 'string' ? catalog.byName.get(name) : undefined;
  if (target === undefined) reader.fail('entity', 'must name an entity of this tenant');
  return target?.id ?? null;
}

function readDefault(reader: AttributeReader, draft: FieldDraft): void {
  if (!reader.given('default')) return;
  if (draft.targetId !== null) {
    reader.fail('default', 'does not apply to relations');
    return;
  }
  if (isJsonLarger(reader.input.default, LIMITS.entity.defaultBytesMax)) {
    reader.fail(
      'default',
      `must have at most ${LIMITS.entity.defaultBytesMax} bytes as JSON; every new record holds it`,
    );
    return;
  }
  const parsed = specOf(draft).parse(reader.input.default, fieldOf(draft, '', '', 0));
  if ('problem' in parsed) reader.fail('default', parsed.problem);
  else draft.default = parsed.value;
}

/** The draft as a field of an entity. */
export function fieldOf(draft: FieldDraft, id: string, slot: string, position: number): Field {
  return { ...draft, id, slot, slotAt: null, isRetyped: false, position, ref: fieldRef({ ...draft, slot }) };
}

/** The patterns and values that parsing these unchecked definitions will compile and match. */
export function definitionValues(definitions: unknown): PatternValue[] {
  const list = Array.isArray(definitions) ? definitions.slice(0, LIMITS.entity.fieldsMax) : [];
  return list.flatMap((definition: Partial<FieldInput> | null) => {
    const { pattern, maxLength, default: value } = definition ?? {};
    if (typeof pattern !== 'string') return [];
    return [{ pattern, maxLength: typeof maxLength === 'number' ? maxLength : undefined, value }];
  });
}

/** Parses one definition. 400 with the problems of its schema, its type and its target. */
export function readField(input: FieldInput, targets: Targets): FieldDraft {
  const drafts: FieldDraft[] = [];
  check(FieldInput, input, (valid) => {
    const problems: Problem[] = [];
    drafts.push(parseField(valid, '', targets, problems));
    return problems;
  });
  return drafts[0] as FieldDraft;
}

/** Parses the definitions of a new entity, whose keys must differ. 400. */
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
