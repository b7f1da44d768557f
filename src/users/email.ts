// What counts as an e-mail address of a person: kept as written, compared in lower case. Narrow
// enough that it can stand as one addressee of a mail, with nothing in it that separates or quotes.
// Contract: interface#user, decisions#users.
import { LIMITS } from '../limits.ts';

const EMAIL = /^[^\s@,;:<>()[\]\\"]+@[^\s@,;:<>()[\]\\"]+\.[^\s@,;:<>()[\]\\"]+$/;

export const EMAIL_PROBLEM = `must be an e-mail address of at most ${LIMITS.email.max} characters`;

export function isEmail(value: unknown): value is string {
  return typeof value === 'string' && value.length <= LIMITS.email.max && EMAIL.test(value);
}
