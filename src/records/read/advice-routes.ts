// The route of the advice on indexes. It names fields and filters that roles hide, so it is for tenant admins.
// Failures: 403, 404.
// Contract: decisions#advice.
import { Type } from '@sinclair/typebox';
import { Elysia } from 'elysia';
import type { App } from '../../app.ts';
import { okList } from '../../http/bounded-response.ts';
import { guard } from '../../http/guard.ts';
import { route } from '../../http/route.ts';
import { LIMITS } from '../../limits.ts';
import { AdviceSchema, adviseIndexes } from './advice.ts';

const { slowList, advice } = LIMITS;

const ADVICE = route({
  id: 'getIndexAdvice',
  tag: 'Entities',
  summary: 'Show which lists are slow, and the indexes that they lack',
  description: `The combinations of filters and sort keys whose lists, of the entity or of its views, took ${slowList.ms} ms or more in the
database within the last ${advice.keptHours} hours, and which no index serves: without values, those that have taken the most time first. Filters
include those of views and roles. Entities of less than ${slowList.records} records need no index. PATCH \`/api/entities/{entityName}\` takes an \`index\` among its \`indexes\`.`,
  access: 'admin',
  ok: [200, Type.Array(AdviceSchema)],
});

export function adviceRoutes(app: App) {
  return new Elysia({ name: 'advice' })
    .use(guard(app))
    .get(
      '/api/entities/:entityName/advice',
      async ({ caller, params }) => okList(await adviseIndexes(app, caller, params.entityName)),
      ADVICE,
    );
}
