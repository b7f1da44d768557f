// Sends what is due, in this process, together with all others: looks at the subscriptions that
// commits, the broker's schedule and a sweep of the database point at, claims, sends and writes down.
// Dead receivers hold few places (pace.ts) and delay nobody else. Times are milliseconds.
// Contract: decisions#deliveries.
import { setTimeout as delay } from 'node:timers/promises';
import type { App } from '../app.ts';
import { LIMITS } from '../limits.ts';
import { usePlaces } from '../records/write/inline-delivery.ts';
import type { Histogram } from '../runtime/metrics.ts';
import { startWorker, type Worker } from '../runtime/worker.ts';
import { type Claimed, claimDue } from './claim.ts';
import { Connections } from './connections.ts';
import { Direct } from './direct.ts';
import { post } from './exchange.ts';
import { type Ending, endingOf } from './finish.ts';
import { Outcomes } from './outcomes.ts';
import { Pace } from './pace.ts';
import { headersOf } from './payload.ts';
import { findReceiver } from './receiver.ts';
import { Restraint } from './restraint.ts';
import { Schedule } from './schedule.ts';

const POLL_MS = 500;
/** Subscriptions looked at in one round. */
const ROUND = 64;
/** Between two looks at whether a round may begin. */
const STEP_MS = 5;
/** The part of SHUTDOWN_TIMEOUT_MS that attempts under way get when the process ends. */
const CLOSE_SHARE = 0.25;

export class Courier {
  readonly #schedule: Schedule;
  readonly #pace = new Pace();
  readonly #sending = new Set<Promise<void>>();
  readonly #cut = new AbortController();
  readonly #outcomes: Outcomes;
  readonly #direct: Direct;
  readonly #connections = new Connections();
  readonly #restraint: Restraint;
  readonly #durations: Histogram;
  #worker!: Worker;

  private constructor(private readonly app: App) {
    this.#durations = app.metrics.histogram(
      'svc_webhook_attempt_duration_seconds',
      'Duration of attempts to deliver a webhook, by what became of the delivery.',
      ['outcome'],
    );
    app.metrics.gauge('svc_webhook_attempts_in_flight', 'Webhook attempts under way.', () => this.#sending.size);
    this.#restraint = new Restraint(app.db);
    app.onCommitted(() => this.#restraint.look(Date.now()));
    this.#schedule = new Schedule(app, () => this.#worker?.nudge());
    this.#outcomes = new Outcomes(app, this.#cut.signal, (id) => this.#schedule.at(id, Date.now()));
    this.#direct = new Direct(app, this.#schedule, this.#pace, (delivery) => this.#send(delivery));
    usePlaces(app, (...of) => (this.#restraint.isBusy(Date.now()) ? undefined : this.#direct.take(...of)));
  }

  /** Starts the worker; it hears of what is committed in this process at once. */
  static start(app: App): Courier {
    const courier = new Courier(app);
    courier.#worker = startWorker({
      name: 'webhooks',
      once: () => courier.once(),
      pollMs: POLL_MS,
      log: app.log,
    });
    return courier;
  }

  /** One round: claims what is due and sets it on its way. Resolves to how many deliveries that were. */
  async once(): Promise<number> {
    while (!this.#restraint.begins(Date.now())) await delay(STEP_MS);
    const capacity = LIMITS.webhook.perProcess - this.#sending.size;
    if (capacity <= 0) return 0;
    const ids = (await this.#schedule.take(ROUND)).filter((id) => this.#isTimely(id));
    if (ids.length === 0) return 0;
    const most = this.#restraint.mostOfEach(ids.length, Date.now());
    const wanted = ids.map((id) => ({ subscriptionId: id, window: this.#pace.windowOf(id), most }));
    try {
      const { claimed, again } = await claimDue(this.app, wanted, capacity);
      for (const delivery of claimed) {
        this.#pace.left(delivery.subscriptionId, Date.now());
        this.#send(delivery);
      }
      for (const { subscriptionId, inMs } of again) this.#schedule.at(subscriptionId, Date.now() + inMs);
      return claimed.length;
    } catch (error) {
      for (const id of ids) this.#schedule.at(id, Date.now());
      throw error;
    }
  }

  /** Claims nothing more, gives attempts under way a while, and gives back what was cut off. */
  async stop(): Promise<void> {
    await this.#worker.stop();
    this.#schedule.close();
    const all = Promise.all(this.#sending);
    const over = new AbortController();
    const grace = delay(this.app.config.shutdownTimeoutMs * CLOSE_SHARE, undefined, { signal: over.signal });
    await Promise.race([all, grace.catch(() => undefined)]);
    over.abort();
    this.#cut.abort();
    await all;
    this.#connections.close();
  }

  /** False for one that is looked at later. */
  #isTimely(subscriptionId: string): boolean {
    const now = Date.now();
    const at = this.#pace.nextClaimAt(subscriptionId, now);
    if (at !== null && at > now) this.#schedule.at(subscriptionId, at);
    return at === now;
  }

  #send(delivery: Claimed): void {
    const startedAt = performance.now();
    const { isDirect, subscriptionId } = delivery;
    const sending = this.#attempt(delivery)
      .then((ending) => {
        this.#durations.series(ending.state).observe((performance.now() - startedAt) / 1_000);
        this.#pace.answered(subscriptionId, ending.state === 'delivered', isDirect);
        if (isDirect) this.#direct.ended(delivery);
        return this.#conclude(ending);
      })
      .finally(() => {
        if (this.#sending.size === LIMITS.webhook.perProcess) this.#worker.nudge();
        this.#sending.delete(sending);
        if (this.#pace.ended(subscriptionId, isDirect)) this.#schedule.at(subscriptionId, Date.now());
      });
    this.#sending.add(sending);
  }

  async #attempt(delivery: Claimed): Promise<Ending> {
    const cut = Promise.withResolvers<Ending>();
    const giveBack = (): void => cut.resolve({ delivery, status: null, error: null, state: 'given back', retryMs: 0 });
    if (this.#cut.signal.aborted) giveBack();
    this.#cut.signal.addEventListener('abort', giveBack, { once: true });
    const ending = await Promise.race([cut.promise, this.#deliver(delivery)]);
    this.#cut.signal.removeEventListener('abort', giveBack);
    return ending;
  }

  async #deliver(delivery: Claimed): Promise<Ending> {
    const { config } = this.app;
    const { body, url, secret, id: deliveryId, eventId, type, attempts } = delivery;
    if (body === null) {
      return endingOf(config, delivery, { status: null, error: 'event no longer kept', isFinal: true });
    }
    const startedAt = performance.now();
    const { timeoutMs } = config.webhook;
    const found = await findReceiver(this.app, url, timeoutMs);
    if ('fault' in found) {
      return endingOf(config, delivery, { status: null, error: found.fault, isFinal: found.isRefused });
    }
    const headers = headersOf({ deliveryId, eventId, type, number: attempts + 1, body, secret });
    const left = Math.max(1, timeoutMs - (performance.now() - startedAt));
    const way = this.#connections.open(delivery.subscriptionId, found.url, found.addresses);
    const outcome = await post(found.url, found.addresses, way, headers, body, left);
    return endingOf(config, delivery, outcome);
  }

  async #conclude(ending: Ending): Promise<void> {
    const { delivery, state, retryMs } = ending;
    await this.#outcomes.write(ending);
    if (state === 'pending') this.#schedule.share(delivery.subscriptionId, Date.now() + retryMs);
  }
}
