// The dispatcher: claims due deliveries, sends them and stores the results. Commits of this process, the broker's
// shared schedule and a sweep of the database determine which subscriptions to claim for; all processes share the work.
// A failing receiver has a small window and does not delay others. Times are milliseconds.
// Contract: decisions#deliveries.
import { setTimeout as delay } from 'node:timers/promises';
import type { Histogram } from 'prom-client';
import type { App } from '../../app.ts';
import { registerOutput } from '../../events/publication.ts';
import { LIMITS } from '../../limits.ts';
import { giveWay } from '../../runtime/event-loop.ts';
import { traceHeaders } from '../../runtime/trace.ts';
import { areOthersActive, forTenant } from '../../runtime/work.ts';
import { startWorker, type Worker } from '../../runtime/worker.ts';
import { Connections } from '../transport/connections.ts';
import { post } from '../transport/http-post.ts';
import { resolveReceiver } from '../transport/receiver.ts';
import { requestHeaders } from '../transport/request-headers.ts';
import { type AttemptResult, resultOf } from './attempt-result.ts';
import { registerBacklogMetrics } from './backlog.ts';
import { type ClaimedDelivery, claimPending } from './claim.ts';
import { startReleasingClaims } from './claim-owners.ts';
import { FailingReceivers } from './failing-receivers.ts';
import { FanOut } from './fan-out.ts';
import { HealthLog } from './health.ts';
import { HELD, HELD_MS, HeldDeliveries } from './held.ts';
import { InFlight } from './in-flight.ts';
import { InlineDeliveries } from './inline-deliveries.ts';
import { LoadShedding } from './load-shedding.ts';
import { findOverdue } from './overdue.ts';
import { startReleases } from './quota-release.ts';
import { renderedBody } from './rendering.ts';
import { startReplays } from './replays.ts';
import { ResultWriter } from './results.ts';
import { Schedule } from './schedule.ts';
import { startAttempt } from './traced-attempt.ts';
import { InFlightWindows } from './window.ts';

const POLL_MS = 500;
/** The interval between two searches for overdue deliveries. */
const OVERDUE_POLL_MS = 10 * 60_000;
/** How many subscriptions one round claims deliveries for. */
const ROUND_SUBSCRIPTIONS = 64;
/** When a tenant has no free place, its next claim is at a multiple of this, so that several such claims become one. */
const NO_PLACE_MS = 250;
/** How often a round that load shedding is delaying checks whether it may begin. */
const SHEDDING_POLL_MS = 5;
/** The delay until a delivery whose body could not be made is tried again. */
const UNPREPARED_RETRY_MS = 1_000;
/** The part of SHUTDOWN_TIMEOUT_MS that attempts in flight may take. */
const SHUTDOWN_SHARE = 0.25;

export class Dispatcher {
  readonly #schedule: Schedule;
  readonly #windows = new InFlightWindows();
  readonly #failing = new FailingReceivers(areOthersActive);
  readonly #places = new InFlight();
  readonly #inFlight = new Set<Promise<void>>();
  readonly #abort = new AbortController();
  readonly #health: HealthLog;
  readonly #results: ResultWriter;
  readonly #inline: InlineDeliveries;
  readonly #connections = new Connections();
  readonly #loadShedding: LoadShedding;
  readonly #durations: Histogram<'outcome'>;
  readonly #fanOut: FanOut;
  readonly #held: HeldDeliveries;
  #worker!: Worker;
  #fanOutWorker!: Worker;
  /** Other workers that run beside the claims. */
  #others: readonly Worker[] = [];

  private constructor(private readonly app: App) {
    this.#durations = app.metrics.histogram(
      'svc_webhook_attempt_duration_seconds',
      'Duration of webhook attempts by outcome.',
      ['outcome'],
    );
    app.metrics.gauge('svc_webhook_attempts_in_flight', 'Webhook attempts in flight.', () => this.#inFlight.size);
    registerBacklogMetrics(app);
    this.#loadShedding = new LoadShedding(app.db);
    // A separate output, because the one below is not told about commits that its fast path handles.
    registerOutput(app, {
      onCommitted: (notice) => {
        this.#loadShedding.sample(Date.now());
        this.#fanOut.onCommitted(notice);
      },
    });
    this.#schedule = new Schedule(
      app,
      () => this.#worker?.nudge(),
      (id) => this.#mayClaim(id),
    );
    this.#health = new HealthLog(app);
    this.#health.registerMetrics();
    this.#results = new ResultWriter(app, this.#health, this.#abort.signal, (id) => this.#schedule.add(id, Date.now()));
    const onDue = (id: string, tenantId: string): void => this.#schedule.addOf(tenantId, id, Date.now());
    this.#held = new HeldDeliveries(app, onDue);
    this.#fanOut = new FanOut(app, onDue, () => this.#fanOutWorker?.nudge(), this.#held);
    this.#inline = new InlineDeliveries(app, this.#schedule, this.#windows, (delivery) => this.#send(delivery));
    registerOutput(app, {
      openFastPath: (tenantId, change) =>
        this.#loadShedding.isOverloaded(Date.now()) ? undefined : this.#inline.openFastPath(tenantId, change),
      onCommitted: (notice) => this.#schedule.onCommitted(notice),
    });
  }

  static start(app: App): Dispatcher {
    const dispatcher = new Dispatcher(app);
    const once = (): Promise<number> => dispatcher.once();
    const giveUp = async (): Promise<number> => dispatcher.#results.giveUp(await findOverdue(app));
    dispatcher.#worker = startWorker({ name: 'webhooks', once, pollMs: POLL_MS, log: app.log });
    const fanOut = (): Promise<number> => dispatcher.#fanOut.once();
    dispatcher.#fanOutWorker = startWorker({ name: 'webhook fan-out', once: fanOut, pollMs: POLL_MS, log: app.log });
    dispatcher.#others = [
      dispatcher.#fanOutWorker,
      dispatcher.#held.start(),
      startReplays(app, (id, tenantId) => dispatcher.#schedule.addOf(tenantId, id, Date.now())),
      startReleases(app),
      startReleasingClaims(app, (id) => dispatcher.#schedule.add(id, Date.now())),
      startWorker({ name: 'overdue webhooks', once: giveUp, pollMs: OVERDUE_POLL_MS, log: app.log }),
    ];
    return dispatcher;
  }

  /** One round: claims due deliveries and starts sending them. Resolves to their number. */
  async once(): Promise<number> {
    while (!this.#loadShedding.tryBeginRound(Date.now())) await delay(SHEDDING_POLL_MS);
    const capacity = LIMITS.webhook.perProcess - this.#inFlight.size;
    if (capacity <= 0) return 0;
    const ids = (await this.#schedule.takeDue(ROUND_SUBSCRIPTIONS)).filter((id) => this.#mayClaim(id));
    if (ids.length === 0) return 0;
    const limit = this.#loadShedding.claimLimit(ids.length, Date.now());
    const requests = ids.map((id) => ({ subscriptionId: id, window: this.#windows.sizeOf(id), limit }));
    try {
      const { claimed, rechecks } = await claimPending(this.app, requests, this.#places.plan());
      for (const delivery of claimed) {
        this.#windows.started(delivery.subscriptionId, Date.now());
        this.#send(delivery);
      }
      for (const { subscriptionId, inMs } of rechecks) this.#schedule.add(subscriptionId, Date.now() + inMs);
      return claimed.length;
    } catch (error) {
      for (const id of ids) this.#schedule.add(id, Date.now());
      throw error;
    }
  }

  /** Stops claiming, waits a while for attempts in flight, and releases the claims of those that remain. */
  async stop(): Promise<void> {
    await Promise.all([this.#worker, ...this.#others].map((worker) => worker.stop()));
    await this.#fanOut.stop();
    this.#schedule.close();
    const all = Promise.all(this.#inFlight);
    const finished = new AbortController();
    const grace = delay(this.app.config.shutdownTimeoutMs * SHUTDOWN_SHARE, undefined, { signal: finished.signal });
    await Promise.race([all, grace.catch(() => undefined)]);
    finished.abort();
    this.#abort.abort();
    await all;
    await this.#health.stop();
    this.#connections.close();
  }

  /** False when the claim must wait for a place of the tenant, for a failing receiver's turn, or for the subscription's window. */
  #mayClaim(subscriptionId: string): boolean {
    const now = Date.now();
    const tenantId = this.#schedule.tenantOf(subscriptionId);
    if (tenantId !== undefined && !this.#places.admits(tenantId, 0)) {
      this.#schedule.add(subscriptionId, (Math.floor(now / NO_PLACE_MS) + 1) * NO_PLACE_MS);
      return false;
    }
    const failingUntil = this.#failing.nextClaimAt(subscriptionId, now);
    if (failingUntil > now) {
      this.#schedule.add(subscriptionId, failingUntil);
      return false;
    }
    const at = this.#windows.nextClaimAt(subscriptionId, now);
    if (at !== null && at > now) this.#schedule.add(subscriptionId, at);
    return at === now;
  }

  #send(delivery: ClaimedDelivery): void {
    const [startedAt, startedAtMs] = [performance.now(), Date.now()];
    const { isInline, subscriptionId, tenantId } = delivery;
    const bytes = delivery.body?.length ?? delivery.source?.size ?? 0;
    this.#places.started(tenantId, bytes);
    const sending = forTenant(tenantId, () => this.#attempt(delivery))
      .then((result) => {
        const durationMs = performance.now() - startedAt;
        this.#durations.labels(result.state).observe(durationMs / 1_000);
        this.#windows.answered(subscriptionId, result.state === 'delivered', isInline);
        if (result.state !== 'aborted') this.#failing.answered(delivery, result.state === 'delivered', Date.now());
        this.#inline.finished(delivery);
        return this.#record({ ...result, startedAtMs, durationMs });
      })
      .finally(() => {
        if (this.#inFlight.size === LIMITS.webhook.perProcess) this.#worker.nudge();
        this.#inFlight.delete(sending);
        this.#places.ended(tenantId, bytes);
        if (this.#windows.finished(subscriptionId, isInline)) this.#schedule.add(subscriptionId, Date.now());
      });
    this.#inFlight.add(sending);
  }

  async #attempt(delivery: ClaimedDelivery): Promise<AttemptResult> {
    const aborted = Promise.withResolvers<AttemptResult>();
    const abort = (): void => aborted.resolve({ delivery, status: null, error: null, state: 'aborted', retryMs: 0 });
    if (this.#abort.signal.aborted) abort();
    this.#abort.signal.addEventListener('abort', abort, { once: true });
    const result = await Promise.race([
      aborted.promise,
      this.#deliver(delivery).catch((error) => this.#unprepared(delivery, error)),
    ]);
    this.#abort.signal.removeEventListener('abort', abort);
    return result;
  }

  /** The result when the database did not answer: nothing was sent, and it does not count as an attempt. */
  #unprepared(delivery: ClaimedDelivery, error: unknown): AttemptResult {
    this.app.log.warn('a webhook delivery could not be prepared yet', { delivery: delivery.id, error });
    return { delivery, status: null, error: null, state: 'aborted', retryMs: UNPREPARED_RETRY_MS };
  }

  #hold(delivery: ClaimedDelivery, reason: string): AttemptResult {
    this.#held.noteHeld(delivery.subscriptionId, reason);
    return { delivery, status: null, error: HELD, state: 'aborted', retryMs: HELD_MS };
  }

  async #deliver(delivery: ClaimedDelivery): Promise<AttemptResult> {
    const { config } = this.app;
    const { url, secrets, isTest, id: deliveryId, eventId, type, attempts } = delivery;
    const body = await renderedBody(this.app, delivery);
    if (typeof body !== 'string') {
      if (body.isHeld === true) return this.#hold(delivery, body.reason);
      return resultOf(config, delivery, { status: null, error: body.reason, isFinal: true, isUnsent: true });
    }
    const sent = delivery.source === null ? delivery : { ...delivery, body };
    // Signing and sending take 0.1 ms, and a claim may return hundreds of deliveries.
    const turn = giveWay();
    if (turn !== undefined) await turn;
    const startedAt = performance.now();
    const { timeoutMs } = config.webhook;
    const receiver = await resolveReceiver(this.app, url, timeoutMs);
    if ('fault' in receiver) {
      return resultOf(config, delivery, { status: null, error: receiver.fault, isFinal: receiver.isForbidden });
    }
    const span = startAttempt(this.app, delivery, receiver.url);
    const traced = span.trace === null ? {} : traceHeaders(span.trace);
    const attempt = { deliveryId, eventId, type, number: attempts + 1, body, secrets, isTest };
    const headers = { ...requestHeaders(attempt), ...traced };
    const remainingMs = Math.max(1, timeoutMs - (performance.now() - startedAt));
    const outcome = await post(this.#connections, delivery, receiver, headers, body, remainingMs);
    span.end(outcome);
    return resultOf(config, sent, outcome);
  }

  async #record(result: AttemptResult): Promise<void> {
    await this.#results.write(result);
    const { delivery, state, retryMs } = result;
    if (state === 'pending' || (retryMs > 0 && retryMs < HELD_MS))
      this.#schedule.addShared(delivery.subscriptionId, Date.now() + retryMs);
  }
}
