// `dryRun=true`: a route that supports it runs its whole call, keeps nothing, and answers as the call would, with a member
// `dryRun` that reports what else the call would cause. A call that would be refused is refused in the same way.
// Contract: trying#dry-runs.
import { type Static, Type } from '@sinclair/typebox';
import type { TenantCaller } from '../access/caller.ts';
import { readsEverything } from '../access/rights.ts';
import { type App, runDry } from '../app.ts';
import { countJudgedOf } from '../events/dry-deliveries.ts';
import type { DryRun } from '../runtime/dry-run.ts';
import { waitForPlace } from '../runtime/large-calls.ts';
import { flagParameter } from './parameters.ts';
import { bodyOf, type Envelope, responseOf, typed, withBody } from './reply.ts';
import { oneOf } from './schemas.ts';

/** The parameter of every route that supports dry runs. */
export const DRY_RUN = {
  dryRun: Type.Optional(
    flagParameter({ description: 'answers as if, and says in `dryRun` what else would happen; nothing is kept' }),
  ),
};

const BreakSchema = Type.Object({
  kind: oneOf(['view', 'role', 'rule', 'record']),
  name: Type.String({ description: 'of the view, role or rule; of records, their entity', examples: ['open-deals'] }),
  text: Type.String({ examples: ['its condition names stage, which is no field of deals'] }),
  count: Type.Optional(Type.Integer({ minimum: 1, description: 'of the records' })),
});

/** The member `dryRun` of an answer. */
export const DryRunSchema = Type.Object(
  {
    rules: Type.Array(Type.String(), { description: 'the rules that would act, before and after the change' }),
    events: Type.Integer({ minimum: 0, description: 'the events that the call would make', examples: [1] }),
    webhooks: Type.Integer({ minimum: 0, description: 'the deliveries that it would make', examples: [2] }),
    breaks: Type.Array(BreakSchema, { description: 'what a change of definitions would break' }),
  },
  { description: 'with `dryRun=true` only' },
);

/** Finds what the call breaks: takes the App of the dry run before the call, and resolves to a function to run after it. */
export type FindBreaks = (app: App, caller: TenantCaller, dryRun: DryRun) => Promise<() => Promise<void>>;

interface Call {
  caller: TenantCaller;
  query: { dryRun?: boolean };
  /** Whether the call may scan tables. */
  isSlow?: boolean;
  findBreaks?: FindBreaks;
}

/** Like `runDry`, for calls that change records: counts their deliveries. */
export const tryOut: typeof runDry = (app, options, call) =>
  runDry(app, options, (dry, dryRun) => {
    countJudgedOf.set(dry, countJudgedOf(app));
    return call(dry, dryRun);
  });

/** Runs a call, as it is or as a dry run, and passes it the App to use. */
export async function runOrTry<T>(
  app: App,
  { caller, query, isSlow = false, findBreaks }: Call,
  call: (app: App) => Promise<Envelope<T>>,
): Promise<Envelope<T>> {
  if (query.dryRun !== true) return call(app);
  const dryCall = async (dry: App, dryRun: DryRun): Promise<Envelope<T>> => {
    const noteBreaks = await findBreaks?.(dry, caller, dryRun);
    const answer = await call(dry);
    await noteBreaks?.();
    return answer;
  };
  // A dry run counts as a large call, so that few hold a transaction at once, and none holds one while it waits for a slot.
  await waitForPlace();
  const { result, dryRun } = await tryOut(app, { isSlow }, dryCall);
  return withReport(result, dryRun, caller);
}

/** The report of a dry run that a caller may see. */
export function reportTo({ rights }: TenantCaller, dryRun: DryRun): Static<typeof DryRunSchema> {
  return dryRun.report(readsEverything(rights));
}

/** The response of a dry run: the response of its call, with a report of what the call would cause. */
export async function withReport<T>(answer: Envelope<T>, dryRun: DryRun, caller: TenantCaller): Promise<Envelope<T>> {
  const response = responseOf(answer);
  const chunks = bodyOf(response)?.chunks ?? [new Uint8Array(await response.arrayBuffer())];
  const last = chunks.at(-1) as Uint8Array;
  const member = new TextEncoder().encode(`,"dryRun":${JSON.stringify(reportTo(caller, dryRun))}}`);
  return typed(withBody(response, [...chunks.slice(0, -1), last.subarray(0, -1), member]));
}
