// What a person is known by: e-mail address, name, password. An address is kept as written and compared
// in lower case; its pattern is narrow enough for a mail header. Lengths are UTF-16 units.
// Contract: interface#user, decisions#users.
import { Type } from '@sinclair/typebox';
import { text, Uuid } from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';

const EMAIL = String.raw`^[^\s@,;:<>()[\]\\"]+@[^\s@,;:<>()[\]\\"]+\.[^\s@,;:<>()[\]\\"]+$`;
export const EMAIL_RULE = `must be an e-mail address of at most ${LIMITS.email.max} characters`;
const { min: minLength, max: maxLength } = LIMITS.password;

export const Email = Type.String({
  maxLength: LIMITS.email.max,
  pattern: EMAIL,
  error: EMAIL_RULE,
  examples: ['ada@example.com'],
});
export const PersonName = text(LIMITS.tenant.nameMax, { examples: ['Ada'] });
export const Password = Type.String({ minLength, maxLength, examples: ['correct horse battery'] });

/** An address and a password as typed; whether they are right is not a question of their form. */
export const TypedEmail = Type.String({
  minLength: 1,
  maxLength: LIMITS.email.max,
  error: EMAIL_RULE,
  examples: ['ada@example.com'],
});
export const TypedPassword = Type.String({ minLength: 1, maxLength, examples: ['correct horse battery'] });

/** A user as other answers show it. */
export const PersonSchema = Type.Object({ id: Uuid, email: Type.String(), name: Type.String(), role: Type.String() });
