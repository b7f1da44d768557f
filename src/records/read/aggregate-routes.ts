// The route of aggregates. The operation checks the names in the parameters, so that one answer reports every
// problem.
// Contract: decisions#aggregates.
import { Type } from '@sinclair/typebox';
import { Elysia } from 'elysia';
import type { App } from '../../app.ts';
import { addCursorFor } from '../../entities/response-cursor.ts';
import { okBounded } from '../../http/bounded-response.ts';
import { CHANGES_CURSOR } from '../../http/changes-cursor.ts';
import { guard } from '../../http/guard.ts';
import { route } from '../../http/route.ts';
import { AggregateQuery, aggregateRecords } from './aggregate.ts';
import { listInput } from './parameters.ts';

const Group = Type.Unsafe<Record<string, unknown>>(
  Type.Object({}, { additionalProperties: true, description: 'the values grouped by, then the metrics' }),
);

const AGGREGATE = route({
  id: 'aggregateRecords',
  tag: 'Records',
  summary: 'Count, sum and compare records',
  description: `Metrics over the records that a list with the same filters would return, grouped by equal values. Sums are
exact; of \`decimal\` fields, and where a JSON number would round an integer or be out of range, they are texts. Groups come in
the order of their values, those without a value last.`,
  access: 'tenant',
  query: AggregateQuery,
  ok: [
    200,
    Type.Object({ items: Type.Array(Group, { examples: [[{ country: 'DE', count: 12, avg_employees: 180.5 }]] }) }),
  ],
  responseHeaders: CHANGES_CURSOR,
});

export function aggregateRoutes(app: App) {
  return new Elysia({ name: 'aggregate' }).use(guard(app)).get(
    '/api/entities/:entityName/records/aggregate',
    async ({ caller, params, query, request }) => {
      await addCursorFor(app, caller, request);
      return okBounded(await aggregateRecords(app, caller, params.entityName, listInput(query)));
    },
    AGGREGATE,
  );
}
