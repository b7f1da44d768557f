// The schemas of records in requests and responses. A record is flat, with the entity's fields beside the system fields;
// a static schema can list only the system fields.
// Contract: interface#record, decisions#records, decisions#lists.
import { type Static, Type } from '@sinclair/typebox';
import { nullable, pageSchema, Timestamp, Uuid } from '../http/schemas.ts';

/** Example values of a record: a company of the demo tenant. */
export const EXAMPLE_VALUES = { title: 'Nordlicht', country: 'DE', employees: 12 };

const SystemFields = Type.Object(
  {
    id: Uuid,
    entityId: Uuid,
    createdAt: Timestamp,
    updatedAt: Timestamp,
    createdBy: nullable(Type.String()),
    updatedBy: nullable(Type.String()),
  },
  {
    $id: 'Record',
    additionalProperties: true,
    description: 'System fields, and one member per field of the entity',
    examples: [
      {
        id: '01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f',
        entityId: '01993b1b-0a10-7d3e-8c44-1f2a3b4c5d6e',
        createdAt: '2026-03-01T09:30:00.000Z',
        updatedAt: '2026-03-01T09:30:00.000Z',
        createdBy: '01993b1a-55c0-7a6b-b1d2-9e8f7a6b5c4d',
        updatedBy: '01993b1a-55c0-7a6b-b1d2-9e8f7a6b5c4d',
        ...EXAMPLE_VALUES,
      },
    ],
  },
);
/** A record as callers see it. */
export type FlatRecord = Static<typeof SystemFields> & Record<string, unknown>;
export const RecordSchema = Type.Unsafe<FlatRecord>(SystemFields);

/** Who erased the record of an event or version, and when. */
export const ErasedSchema = Type.Object(
  { at: Timestamp, by: nullable(Type.String({ examples: ['01993b1a-55c0-7a6b-b1d2-9e8f7a6b5c4d'] })) },
  { description: 'when the record’s values were erased, and by whom; only where they were' },
);

/** The values of a record in a request; the operations check them against the entity's fields. */
export type Values = Record<string, unknown>;
export const ValuesSchema = Type.Unsafe<Values>(
  Type.Object(
    {},
    { $id: 'Values', additionalProperties: true, description: 'Values by field key', examples: [EXAMPLE_VALUES] },
  ),
);

/** A page of flat records. `total` and `totalPages` are null under `count=none`. */
export const RecordPageSchema = Type.Composite([
  Type.Omit(pageSchema(RecordSchema), ['total', 'totalPages']),
  Type.Object({
    total: nullable(Type.Integer({ minimum: 0, examples: [1], description: 'null with `count=none`' })),
    totalPages: nullable(Type.Integer({ minimum: 0, examples: [1] })),
    nextCursor: Type.Optional(
      nullable(Type.String(), {
        description: 'in answers to `cursor` and `with=nextCursor`; null on the last page',
        examples: [null],
      }),
    ),
    etags: Type.Optional(
      Type.Array(Type.String(), {
        description: 'with `with=etags`: the ETag of each record, in the order of `items`',
        examples: [['"1"']],
      }),
    ),
  }),
]);
export type RecordPage = Static<typeof RecordPageSchema>;
