// The schemas of a view: as returned, as created, and as changed. The operations in views.ts also validate its
// conditions against its entity.
// Contract: interface#view, decisions#expressions.
import { type Static, Type } from '@sinclair/typebox';
import { closed, nullable, optional, Timestamp, text, Uuid } from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';

const { labelMax, descriptionMax } = LIMITS.entity;

const Condition = closed(
  { condition: Type.String({ examples: ['status == "open" AND owner == $currentUser.id'] }) },
  { error: 'must be an object with a text "condition" and nothing else' },
);
const Conditions = Type.Array(Condition, {
  maxItems: LIMITS.view.conditionsMax,
  description: 'all conditions must match a record of the view',
});
const FilterDslSchema = closed({ validate: Conditions }, { description: 'the conditions of the view' });
/** Conditions joined with `and`. */
export type FilterDsl = Static<typeof FilterDslSchema>;

const Slug = Type.String({
  pattern: '^[a-z0-9][a-z0-9_-]{0,62}$',
  description: 'its name in paths and, as `view:<slug>`, in permissions',
  examples: ['my-open'],
});
const EntitySlug = Type.String({ description: 'the entity of the view', examples: ['task'] });
const Name = text(labelMax, { examples: ['My open tasks'] });
const Description = Type.String({ maxLength: descriptionMax });

/** `filterDsl` holds the conditions that the reader may see. */
export const ViewSchema = Type.Object({
  id: Uuid,
  entitySlug: EntitySlug,
  slug: Slug,
  name: Name,
  description: nullable(Description),
  filterDsl: FilterDslSchema,
  createdAt: Timestamp,
  updatedAt: Timestamp,
});
export type View = Static<typeof ViewSchema>;

const FilterDslInput = closed({ validate: Type.Optional(Conditions) }, { description: 'the conditions of the view' });
export const NewView = closed({
  entitySlug: EntitySlug,
  slug: Slug,
  name: Name,
  description: optional(Description),
  filterDsl: optional(FilterDslInput),
});
export type NewView = Static<typeof NewView>;

/** A change of a view: `entitySlug` and `slug` may be given, but not changed. */
export const ViewChange = Type.Partial(NewView);
export type ViewChange = Static<typeof ViewChange>;
