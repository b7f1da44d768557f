// How many mails were sent in a UTC day: by a tenant, by strangers who name it, by operators, and to one address. Counted in each
// process, since a mail server blocks whoever sends too many, for all tenants. The first refusal of each is logged.
// Contract: neighbours#byte-budgets.
import { LIMITS } from '../limits.ts';
import type { Log } from './log.ts';
import { currentWork, isStrangers } from './work.ts';

const { perDay } = LIMITS.mail;
const { operators, toAddress } = LIMITS.mailsOfDay;
const DAY_MS = 86_400_000;
const OPERATORS = 'operators';

export class MailsOfDay {
  #day = 0;
  readonly #counts = new Map<string, number>();

  constructor(private readonly log: Log) {}

  /** Counts a mail of the current work, before its recipient is known. False when it may not be sent. */
  ofWork(): boolean {
    const { share, isOperator } = currentWork();
    // Of strangers only what is sent counts, or they could use up a tenant's mails with addresses of nobody.
    if (isOperator) return this.#count(OPERATORS, operators);
    return isStrangers(share) || this.#count(share, perDay);
  }

  /** Counts a mail to this address, of operators and strangers; what a tenant sends to one is its own business. */
  toAddress(address: string): boolean {
    const { share, isOperator } = currentWork();
    if (!isOperator && !isStrangers(share)) return true;
    if (!this.#count(`to ${address.toLowerCase()}`, toAddress)) return false;
    return isOperator || this.#count(share, perDay);
  }

  #count(key: string, max: number): boolean {
    const day = Math.floor(Date.now() / DAY_MS);
    if (day !== this.#day) this.#counts.clear();
    this.#day = day;
    const sent = (this.#counts.get(key) ?? 0) + 1;
    this.#counts.set(key, sent);
    if (sent === max + 1) this.log.error('mails dropped: too many today', { sent: max, share: key });
    return sent <= max;
  }
}
