// The schemas of an item of the feed and of a page of items, as REST and MCP return them. Members of an item have the same names
// as in events elsewhere; `data` is the record as REST shows it to this caller.
// Contract: feed#items.
import { type Static, Type } from '@sinclair/typebox';
import { nullable, oneOf, Timestamp, Uuid } from '../http/schemas.ts';
import { ErasedSchema, EXAMPLE_VALUES } from '../records/record.ts';
import { ITEM_TYPES } from './selection.ts';

const Cursor = Type.String({ description: 'opaque; good for as long as events are kept', examples: ['Zm9sbG93Li4u'] });

const ChangeSchema = Type.Object(
  {
    cursor: Cursor,
    id: Type.String({ examples: ['evt_01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f'] }),
    event: oneOf(ITEM_TYPES, { examples: ['record.created'] }),
    entity: nullable(Type.String({ examples: ['companies'] })),
    record_id: nullable(Uuid),
    version: nullable(Type.Integer({ minimum: 1, examples: [1] }), { description: 'of the record; null without one' }),
    at: Timestamp,
    triggered_by: Type.String({ examples: ['api'] }),
    actor: nullable(Type.String(), { description: 'the id of who made the change' }),
    data: Type.Unsafe<Record<string, unknown>>(
      Type.Object(
        {},
        {
          additionalProperties: true,
          description: 'the record as REST shows it; `{ id }` when it is gone, `{ entity }` of a changed definition',
          examples: [EXAMPLE_VALUES],
        },
      ),
    ),
    erased: Type.Optional(ErasedSchema),
  },
  { $id: 'Change' },
);
export type ChangeItem = Static<typeof ChangeSchema>;

export const ChangesPageSchema = Type.Object({
  items: Type.Array(ChangeSchema),
  nextCursor: Cursor,
  hasMore: Type.Boolean({ description: 'whether to go on at once; a page may then have no items', examples: [false] }),
});
export type ChangesPage = Static<typeof ChangesPageSchema>;
