// The schemas of entities and fields in requests and responses. field-input.ts checks the rules that depend on
// the field's type or on the catalog.
// Contract: decisions#entities, decisions#fields.
import { type Static, Type } from '@sinclair/typebox';
import { closed, Ignored, nullable, oneOf, open, optional, Timestamp, textSet, Uuid } from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';
import { FIELD_TYPE_NAMES } from './field-types.ts';

const { labelMax, descriptionMax, optionsMax, fieldsMax } = LIMITS.entity;

const FieldType = oneOf(FIELD_TYPE_NAMES);
const Limit = Type.Union([Type.Number(), Type.String()]);
const Length = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
const OnDelete = oneOf(['restrict', 'set_null', 'cascade']);
const Target = Type.String({ description: 'the target of a relation' });
const Pattern = Type.String({
  maxLength: LIMITS.pattern.sourceMax,
  description: 'RE2 syntax, searched anywhere in the value',
});
const FIELD_EXAMPLE = { key: 'status', type: 'select', label: 'Status', options: ['open', 'closed'], indexed: true };

export const FieldSchema = Type.Object(
  {
    id: Uuid,
    key: Type.String({ description: 'the name in records' }),
    type: FieldType,
    label: nullable(Type.String()),
    description: nullable(Type.String()),
    required: Type.Boolean(),
    unique: Type.Boolean(),
    indexed: Type.Boolean(),
    default: Type.Optional(Type.Unknown()),
    min: Type.Optional(Limit),
    max: Type.Optional(Limit),
    minLength: Type.Optional(Length),
    maxLength: Type.Optional(Length),
    pattern: Type.Optional(Pattern),
    options: Type.Optional(Type.Array(Type.String())),
    entity: Type.Optional(nullable(Target)),
    onDelete: Type.Optional(nullable(OnDelete)),
  },
  {
    $id: 'Field',
    examples: [
      {
        id: '01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f',
        description: null,
        required: false,
        unique: false,
        ...FIELD_EXAMPLE,
      },
    ],
  },
);
/** A field's definition, without the attributes that are not set. */
export type FieldView = Static<typeof FieldSchema>;

/** The attributes of a request; null means not set. */
const Attributes = {
  key: Type.String({ pattern: '^[a-zA-Z][a-zA-Z0-9_]{0,62}$', description: 'the name in records' }),
  type: FieldType,
  label: optional(Type.String({ maxLength: labelMax })),
  description: optional(Type.String({ maxLength: descriptionMax })),
  required: Type.Optional(Type.Boolean()),
  unique: Type.Optional(Type.Boolean()),
  indexed: Type.Optional(Type.Boolean()),
  default: Type.Optional(Type.Unknown()),
  min: optional(Limit),
  max: optional(Limit),
  minLength: optional(Length),
  maxLength: optional(Length),
  pattern: optional(Pattern),
  options: optional(
    textSet(Type.String({ minLength: 1, maxLength: labelMax }), {
      minItems: 1,
      maxItems: optionsMax,
      error: `must be a list of 1 to ${optionsMax} different strings`,
    }),
  ),
  entity: optional(Target),
  onDelete: optional(OnDelete),
};
export const FieldInput = closed(Attributes, { $id: 'FieldInput', examples: [FIELD_EXAMPLE] });
export type FieldInput = Static<typeof FieldInput>;
/** A change of a field: null removes an attribute. */
export const FieldPatch = Type.Partial(closed(Attributes), {
  $id: 'FieldChange',
  examples: [{ label: 'State', required: false, options: ['open', 'closed', 'waiting'] }],
});
export type FieldPatch = Static<typeof FieldPatch>;

export const IndexFields = Type.Array(Type.String({ maxLength: 64 }), {
  minItems: 1,
  maxItems: LIMITS.indexes.fieldsPerIndex,
  description: 'fields in the order of the index, `-` before those that it has in descending order',
  examples: [['status', '-amount']],
});
const IndexSchema = Type.Object({ fields: IndexFields, state: oneOf(['ready', 'building']) });
export type IndexView = Static<typeof IndexSchema>;
/** Accepts `state` too, so that a client can send back what a response shows. */
const IndexInput = closed({ fields: IndexFields, state: Ignored });
export type IndexInput = Static<typeof IndexInput>;
const IndexList = Type.Array(IndexInput, {
  maxItems: LIMITS.indexes.perEntity,
  description: 'indexes of several fields, for lists that filter by the first and sort by the others',
  examples: [[{ fields: ['status', '-amount'] }]],
});

const Label = Type.String({ maxLength: labelMax, examples: ['Tickets'] });
const SearchFolding = Type.Boolean({
  description: '`search` also finds words that differ only by accents: `amelie` finds Amélie',
});
const Description = Type.String({ maxLength: descriptionMax, examples: ['What customers ask for'] });
export const EntitySchema = Type.Object(
  {
    id: Uuid,
    name: Type.String({ examples: ['tickets'] }),
    label: nullable(Label),
    description: nullable(Description),
    isSystem: Type.Boolean({ examples: [false] }),
    searchFolding: SearchFolding,
    fields: Type.Array(FieldSchema),
    indexes: Type.Array(IndexSchema, { examples: [[{ fields: ['status', '-amount'], state: 'ready' }]] }),
    createdAt: Timestamp,
    updatedAt: Timestamp,
  },
  { $id: 'Entity' },
);
export type EntityView = Static<typeof EntitySchema>;

const Names = {
  name: Type.String({ pattern: '^[a-z][a-z0-9_]{0,47}$', examples: ['tickets'] }),
  label: optional(Label),
  description: optional(Description),
  searchFolding: Type.Optional(Type.Boolean({ ...SearchFolding, default: true })),
  indexes: Type.Optional(IndexList),
};
/** Checked before the catalog is loaded. */
export const NewEntityNames = open(Names);
/** The fields used in examples of records. */
const FIELDS_EXAMPLE = [
  { key: 'title', type: 'text', required: true },
  FIELD_EXAMPLE,
  { key: 'amount', type: 'number', min: 0 },
];
export const FieldList = open({
  fields: optional(Type.Array(FieldInput, { maxItems: fieldsMax, examples: [FIELDS_EXAMPLE] })),
});
export type FieldList = Static<typeof FieldList>;
export const NewEntity = Type.Object({ ...Names, ...FieldList.properties }, { $id: 'NewEntity' });
export type NewEntity = Static<typeof NewEntity>;
/** Omitted members keep their values; null clears one. */
export const EntityChange = closed(
  {
    label: Names.label,
    description: Names.description,
    searchFolding: Type.Optional(SearchFolding),
    indexes: Names.indexes,
  },
  { $id: 'EntityChange' },
);
export type EntityChange = Static<typeof EntityChange>;
