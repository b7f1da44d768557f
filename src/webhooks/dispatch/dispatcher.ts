// Sends what is due, in this process, together with all others: looks at the subscriptions that
// commits, the broker's schedule and a sweep of the database point at, claims, sends and writes down.
// Dead receivers hold few places (pace.ts) and delay nobody else. Times are milliseconds.
// Contract: decisions#deliveries.
import { setTimeout as delay } from 'node:timers/promises';
import type { Histogram } from 'prom-client';
import type { App } from '../../app.ts';
import { registerOutput } from '../../events/publication.ts';
import { LIMITS } from '../../limits.ts';
import { startWorker, type Worker } from '../../runtime/worker.ts';
import { post } from '../transport/http-post.ts';
import { KeepAliveAgents } from '../transport/keep-alive.ts';
import { headersOf } from '../transport/payload.ts';
import { resolveReceiver } from '../transport/receiver.ts';
import { type ClaimedDelivery, claimPending } from './claim.ts';
import { InlineDeliveries } from './inline-deliveries.ts';
import { LoadShedding } from './load-shedding.ts';
import { ResultWriter } from './result-writer.ts';
import { type AttemptResult, resultOf } from './results.ts';
import { Schedule } from './schedule.ts';
import { InFlightWindows } from './window.ts';

const POLL_MS = 500;
/** Subscriptions looked at in one round. */
const ROUND = 64;
/** Between two looks at whether a round may begin. */
const STEP_MS = 5;
/** The part of SHUTDOWN_TIMEOUT_MS that attempts under way get when the process ends. */
const CLOSE_SHARE = 0.25;

export class Dispatcher {
  readonly #schedule: Schedule;
  readonly #windows = new InFlightWindows();
  readonly #inFlight = new Set<Promise<void>>();
  readonly #abort = new AbortController();
  readonly #results: ResultWriter;
  readonly #inline: InlineDeliveries;
  readonly #agents = new KeepAliveAgents();
  readonly #loadShedding: LoadShedding;
  readonly #durations: Histogram<'outcome'>;
  #worker!: Worker;

  private constructor(private readonly app: App) {
    this.#durations = app.metrics.histogram(
      'svc_webhook_attempt_duration_seconds',
      'Duration of attempts to deliver a webhook, by what became of the delivery.',
      ['outcome'],
    );
    app.metrics.gauge('svc_webhook_attempts_in_flight', 'Webhook attempts under way.', () => this.#inFlight.size);
    this.#loadShedding = new LoadShedding(app.db);
    registerOutput(app, { onCommitted: () => this.#loadShedding.sample(Date.now()) });
    this.#schedule = new Schedule(app, () => this.#worker?.nudge());
    this.#results = new ResultWriter(app, this.#abort.signal, (id) => this.#schedule.add(id, Date.now()));
    this.#inline = new InlineDeliveries(app, this.#schedule, this.#windows, (delivery) => this.#send(delivery));
    registerOutput(app, {
      openFastPath: (tenantId, change) =>
        this.#loadShedding.isOverloaded(Date.now()) ? undefined : this.#inline.openFastPath(tenantId, change),
      onCommitted: (notice) => this.#schedule.onCommitted(notice),
    });
  }

  /** Starts the worker; it hears of what is committed in this process at once. */
  static start(app: App): Dispatcher {
    const dispatcher = new Dispatcher(app);
    dispatcher.#worker = startWorker({
      name: 'webhooks',
      once: () => dispatcher.once(),
      pollMs: POLL_MS,
      log: app.log,
    });
    return dispatcher;
  }

  /** One round: claims what is due and sets it on its way. Resolves to how many deliveries that were. */
  async once(): Promise<number> {
    while (!this.#loadShedding.tryBeginRound(Date.now())) await delay(STEP_MS);
    const capacity = LIMITS.webhook.perProcess - this.#inFlight.size;
    if (capacity <= 0) return 0;
    const ids = (await this.#schedule.takeDue(ROUND)).filter((id) => this.#mayClaim(id));
    if (ids.length === 0) return 0;
    const most = this.#loadShedding.claimLimit(ids.length, Date.now());
    const wanted = ids.map((id) => ({ subscriptionId: id, window: this.#windows.sizeOf(id), most }));
    try {
      const { claimed, rechecks } = await claimPending(this.app, wanted, capacity);
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

  /** Claims nothing more, gives attempts under way a while, and gives back what was cut off. */
  async stop(): Promise<void> {
    await this.#worker.stop();
    this.#schedule.close();
    const all = Promise.all(this.#inFlight);
    const over = new AbortController();
    const grace = delay(this.app.config.shutdownTimeoutMs * CLOSE_SHARE, undefined, { signal: over.signal });
    await Promise.race([all, grace.catch(() => undefined)]);
    over.abort();
    this.#abort.abort();
    await all;
    this.#agents.close();
  }

  /** False for one that is looked at later. */
  #mayClaim(subscriptionId: string): boolean {
    const now = Date.now();
    const at = this.#windows.nextClaimAt(subscriptionId, now);
    if (at !== null && at > now) this.#schedule.add(subscriptionId, at);
    return at === now;
  }

  #send(delivery: ClaimedDelivery): void {
    const startedAt = performance.now();
    const { isInline, subscriptionId } = delivery;
    const sending = this.#attempt(delivery)
      .then((ending) => {
        this.#durations.labels(ending.state).observe((performance.now() - startedAt) / 1_000);
        this.#windows.answered(subscriptionId, ending.state === 'delivered', isInline);
        this.#inline.finished(delivery);
        return this.#record(ending);
      })
      .finally(() => {
        if (this.#inFlight.size === LIMITS.webhook.perProcess) this.#worker.nudge();
        this.#inFlight.delete(sending);
        if (this.#windows.finished(subscriptionId, isInline)) this.#schedule.add(subscriptionId, Date.now());
      });
    this.#inFlight.add(sending);
  }

  async #attempt(delivery: ClaimedDelivery): Promise<AttemptResult> {
    const cut = Promise.withResolvers<AttemptResult>();
    const giveBack = (): void => cut.resolve({ delivery, status: null, error: null, state: 'given back', retryMs: 0 });
    if (this.#abort.signal.aborted) giveBack();
    this.#abort.signal.addEventListener('abort', giveBack, { once: true });
    const ending = await Promise.race([cut.promise, this.#deliver(delivery)]);
    this.#abort.signal.removeEventListener('abort', giveBack);
    return ending;
  }

  async #deliver(delivery: ClaimedDelivery): Promise<AttemptResult> {
    const { config } = this.app;
    const { body, url, secret, id: deliveryId, eventId, type, attempts } = delivery;
    if (body === null) {
      return resultOf(config, delivery, { status: null, error: 'event no longer kept', isFinal: true });
    }
    const startedAt = performance.now();
    const { timeoutMs } = config.webhook;
    const found = await resolveReceiver(this.app, url, timeoutMs);
    if ('fault' in found) {
      return resultOf(config, delivery, { status: null, error: found.fault, isFinal: found.isRefused });
    }
    const headers = headersOf({ deliveryId, eventId, type, number: attempts + 1, body, secret });
    const left = Math.max(1, timeoutMs - (performance.now() - startedAt));
    const way = this.#agents.lease(delivery.subscriptionId, found.url, found.addresses);
    const outcome = await post(found.url, found.addresses, way, headers, body, left);
    return resultOf(config, delivery, outcome);
  }

  async #record(ending: AttemptResult): Promise<void> {
    const { delivery, state, retryMs } = ending;
    await this.#results.write(ending);
    if (state === 'pending') this.#schedule.addShared(delivery.subscriptionId, Date.now() + retryMs);
  }
}
