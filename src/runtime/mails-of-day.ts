// Counts how many mails were sent in a UTC day: by a tenant, by strangers who name the tenant, by operators, and to one address. Each
// process counts for itself. A mail server blocks anyone who sends too many, which would stop the mails of all tenants. The first refusal
// of each count is logged.
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
    // For strangers, only sent mails count: otherwise they could use up a tenant's mails with addresses that do not exist.
    if (isOperator) return this.#count(OPERATORS, operators);
    return isStrangers(share) || this.#count(share, perDay);
  }

  /** Counts a mail of operators or strangers to this address; a tenant's own mails to one address are not limited. */
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
    if (sent === max + 1) this.log.warn('mails dropped: too many today', { sent: max, share: key });
    return sent <= max;
  }
}
