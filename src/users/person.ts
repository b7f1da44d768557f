// The members of a user in requests and responses: address, name, role, password. An address is stored as written and
// compared in lower case; its pattern excludes what is unsafe in a mail header. Unknown members are
// rejected in an admin's body and ignored in a registration. Lengths are in UTF-16 code units.
// Contract: interface#user, decisions#users.
import { type Static, Type } from '@sinclair/typebox';
import { closed, closedChange, Ignored, open, optional, text, Uuid } from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';

const EMAIL = String.raw`^[^\s@,;:<>()[\]\\"]+@[^\s@,;:<>()[\]\\"]+\.[^\s@,;:<>()[\]\\"]+$`;
const EMAIL_RULE = `must be an e-mail address of at most ${LIMITS.email.max} characters`;
const { min: minLength, max: maxLength } = LIMITS.password;

export const Email = Type.String({
  maxLength: LIMITS.email.max,
  pattern: EMAIL,
  error: EMAIL_RULE,
  examples: ['ada@example.com'],
});
export const PersonName = text(LIMITS.tenant.nameMax, { examples: ['Ada'] });
export const Password = Type.String({ minLength, maxLength, examples: ['correct horse battery'] });

/** The e-mail address and password of a sign-in; only their lengths are checked. */
export const TypedEmail = Type.String({
  minLength: 1,
  maxLength: LIMITS.email.max,
  error: EMAIL_RULE,
  examples: ['ada@example.com'],
});
export const TypedPassword = Type.String({ minLength: 1, maxLength, examples: ['correct horse battery'] });

/** The part of a user that responses about other resources show. */
export const PersonSchema = Type.Object({ id: Uuid, email: Type.String(), name: Type.String(), role: Type.String() });

export const Mailed = Type.Boolean({ description: 'whether the link is mailed; if not, pass it on yourself' });

const Role = Type.String({ minLength: 1, error: 'must be the name of a role', examples: ['member'] });
const Members = { email: Email, name: PersonName, role: Role };
const WITHOUT = { description: 'without it an invitation is mailed' };

/** A new user; without a password, an invited one. */
export const NewUser = closed({
  ...Members,
  password: optional(Type.String({ ...Password, ...WITHOUT })),
  id: Ignored,
  tenantId: Ignored,
  isActive: Ignored,
});
export type NewUser = Static<typeof NewUser>;

/** A change of a user: members that are missing or null keep their values. */
export const UserChange = closedChange({ ...Members, password: Password, isActive: Type.Boolean() });
export type UserChange = Static<typeof UserChange>;

/** A person who registers. */
export const Registration = open({ email: Email, name: PersonName, password: Password });
export type Registration = Static<typeof Registration>;
