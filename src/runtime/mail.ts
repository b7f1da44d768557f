// Outgoing mail, decoupled from requests: a bounded queue, retries, and DATA_DIR/mail for mails that cannot be sent.
// Without SMTP_URL, every mail is written there as an .eml file of mode 0600, which is deleted after 30 days. The number of mails in
// a day is bounded (mails-of-day.ts). Callers see no failure except a refusal. The log contains the recipient and the subject, never the
// text, which may contain tokens.
// Contract: decisions#configuration, neighbours#byte-budgets.
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { createTransport, type Transporter } from 'nodemailer';
import { LIMITS } from '../limits.ts';
import { Semaphore } from './concurrency.ts';
import { isUuid, newId, timeOf } from './ids.ts';
import type { Log } from './log.ts';
import { MailsOfDay } from './mails-of-day.ts';
import { SharedBudget } from './shared-budget.ts';
import { currentWork, withoutSignal } from './work.ts';

/** A plain-text mail. */
export interface Message {
  to: string;
  subject: string;
  text: string;
}

/** A name as a mail's text shows it: on one line, since further lines would look like the service's own. */
export function onOneLine(name: string): string {
  return name.replaceAll(/\s+/g, ' ');
}

export interface MailOptions {
  smtpUrl: string | null;
  /** The From header. */
  from: string;
  dataDir: string;
  log: Log;
  /** Pauses between attempts in ms; there is one more attempt than pauses. */
  retryAfterMs?: readonly number[];
}

const { queuedMax, concurrent, closeMs } = LIMITS.mail;
const KEPT_DAYS = 30;
const TIMEOUT_MS = 10_000;
const DAY_MS = 86_400_000;
const SWEEP_MS = 3_600_000;

export class Mail {
  readonly #options: MailOptions;
  readonly #retryAfterMs: readonly number[];
  readonly #smtp: Transporter | null;
  readonly #semaphore = new Semaphore({ slots: concurrent, shareWaitingMax: queuedMax });
  readonly #pending = new Map<Promise<void>, Message | null>();
  /** Pending messages, by the share that sent them (work.ts). */
  readonly #queued = new SharedBudget(queuedMax);
  readonly #ofDay: MailsOfDay;
  #sweptAt = Number.NEGATIVE_INFINITY;
  readonly #closing = new AbortController();

  constructor(options: MailOptions) {
    this.#options = options;
    this.#ofDay = new MailsOfDay(options.log);
    this.#retryAfterMs = options.retryAfterMs ?? LIMITS.mail.retryAfterMs;
    this.#smtp = options.smtpUrl === null ? null : smtpTransport(options.smtpUrl);
  }

  /**
   * Queues a message, or a function that produces one; undefined sends nothing. Returns false when the message is dropped, because the
   * queue is full or the limit for today is reached.
   */
  send(message: Message | (() => Promise<Message | undefined>)): boolean {
    const { share } = currentWork();
    if (!this.#queued.take(share, 1)) {
      const queued = this.#queued.heldBy(share);
      this.#options.log.warn('mail dropped: the queue is full', { waiting: this.#pending.size, queued, share });
      return false;
    }
    const isKnown = typeof message !== 'function';
    if (!this.#ofDay.ofWork() || (isKnown && !this.#ofDay.toAddress(message.to))) {
      this.#queued.give(share, 1);
      return false;
    }
    const made = isKnown ? async () => message : () => this.#admitted(message);
    const task: Promise<void> = withoutSignal(() => Promise.resolve().then(() => this.#semaphore.run(made)))
      .then((ready) =>
        ready === undefined ? undefined : this.#deliver(ready, (sending) => this.#pending.set(task, sending)),
      )
      .catch((error: unknown) => this.#options.log.error('a mail could not be produced or written', { error }))
      .finally(() => {
        this.#pending.delete(task);
        this.#queued.give(share, 1);
      });
    this.#pending.set(task, null);
    return true;
  }

  async #admitted(make: () => Promise<Message | undefined>): Promise<Message | undefined> {
    const message = await make();
    return message !== undefined && this.#ofDay.toAddress(message.to) ? message : undefined;
  }

  /** Sends queued mails without further pauses; after a grace period, writes the unsent ones to files. */
  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.race([Promise.all(this.#pending.keys()), delay(closeMs, undefined, { ref: false })]);
    const unsent = [...this.#pending.values()].filter((message) => message !== null);
    await Promise.all(unsent.map((message) => this.#write(message)));
    this.#smtp?.close();
  }

  /** Messages not sent yet. */
  get length(): number {
    return this.#pending.size;
  }

  /** Resolves when the queue is empty. */
  async whenIdle(): Promise<void> {
    while (this.#pending.size > 0) await Promise.all(this.#pending.keys());
  }

  async #deliver(message: Message, onSending: (message: Message) => void): Promise<void> {
    const smtp = this.#smtp;
    onSending(message);
    if (smtp === null) return this.#semaphore.run(() => this.#write(message));
    const { to, subject } = message;
    for (let attempt = 0; ; attempt++) {
      const failure = await this.#semaphore.run(() => this.#attempt(smtp, message));
      if (failure === undefined) return this.#options.log.info('mail sent', { to, subject });
      this.#options.log.warn('a mail could not be sent', { to, subject, attempt: attempt + 1, reason: failure.reason });
      const waitMs = this.#retryAfterMs[attempt];
      if (waitMs === undefined || failure.isFinal || this.#closing.signal.aborted) return this.#write(message);
      // Shutdown ends the pause for one last attempt.
      await delay(waitMs, undefined, { signal: this.#closing.signal, ref: false }).catch(() => undefined);
    }
  }

  /** One attempt; undefined when the server accepted the message. */
  async #attempt(smtp: Transporter, message: Message): Promise<{ reason: string; isFinal: boolean } | undefined> {
    try {
      await smtp.sendMail(this.#envelope(message));
      return undefined;
    } catch (error) {
      const { code = 'unknown', responseCode } = error as { code?: string; responseCode?: number };
      return {
        reason: responseCode === undefined ? code : `${code} ${responseCode}`,
        isFinal: (responseCode ?? 0) >= 500,
      };
    }
  }

  /** Writes the message as a file, with its text unencoded so that links stay readable. */
  async #write(message: Message): Promise<void> {
    const directory = join(this.#options.dataDir, 'mail');
    const writer = createTransport({ streamTransport: true, buffer: true, newline: 'windows' });
    const { message: made } = await writer.sendMail(this.#envelope({ ...message, text: '-' }));
    const headers = (made as Buffer).toString().split('\r\n\r\n')[0]?.replace(': 7bit', ': 8bit');
    const file = join(directory, `${newId()}.eml`);
    await mkdir(directory, { recursive: true, mode: 0o700 });
    const text = `${headers}\r\n\r\n${message.text.replaceAll('\n', '\r\n')}`;
    await writeFile(file, text, { mode: 0o600, flag: 'wx' });
    this.#options.log.info('mail written', { to: message.to, subject: message.subject, file });
    await this.#deleteOld(directory);
  }

  /** Deletes the files that are too old, at most once an hour. Their names say when they were written. */
  async #deleteOld(directory: string): Promise<void> {
    if (performance.now() - this.#sweptAt < SWEEP_MS) return;
    this.#sweptAt = performance.now();
    const oldest = Date.now() - KEPT_DAYS * DAY_MS;
    const isOld = (id: string): boolean => isUuid(id) && timeOf(id) < oldest;
    const old = (await readdir(directory)).filter((name) => name.endsWith('.eml') && isOld(name.slice(0, -4)));
    for (const name of old) await rm(join(directory, name), { force: true });
  }

  /** `to` as one address, never parsed as a list. */
  #envelope({ to, subject, text }: Message) {
    const { from } = this.#options;
    return {
      from,
      to: { name: '', address: to },
      subject: onOneLine(subject),
      text,
      disableFileAccess: true,
    };
  }
}

function smtpTransport(url: string): Transporter {
  return createTransport(
    {
      url,
      pool: true,
      maxConnections: concurrent,
      connectionTimeout: TIMEOUT_MS,
      greetingTimeout: TIMEOUT_MS,
      socketTimeout: TIMEOUT_MS,
    },
    { disableFileAccess: true, disableUrlAccess: true },
  );
}
