// What a request may say about a user: address, name, role, password, and whether the user is active.
// Every problem is named at once: 400. An admin's other members are problems too; those of a person who
// registers mean nothing, whatever role they name.
// Contract: decisions#users.
import { passwordProblem } from '../access/passwords.ts';
import { invalid, type Problem } from '../errors.ts';
import { strangers } from '../http/input.ts';
import { LIMITS } from '../limits.ts';
import type { JsonObject } from '../runtime/text.ts';
import { EMAIL_PROBLEM, isEmail } from './email.ts';

export interface UserChanges {
  email?: string;
  name?: string;
  role?: string;
  password?: string;
  isActive?: boolean;
}

type Member = keyof UserChanges;

/** Why a member's value is not acceptable, or undefined. */
const PROBLEMS: Readonly<Record<Member, (value: unknown) => string | undefined>> = {
  email: (value) => (isEmail(value) ? undefined : EMAIL_PROBLEM),
  name: (value) => (isPersonName(value) ? undefined : NAME_PROBLEM),
  role: (value) => (typeof value === 'string' && value !== '' ? undefined : 'must be the name of a role'),
  password: passwordProblem,
  isActive: (value) => (typeof value === 'boolean' ? undefined : 'must be true or false'),
};

const NAME_PROBLEM = `must be a text of 1 to ${LIMITS.tenant.nameMax} characters`;

function isPersonName(value: unknown): value is string {
  return typeof value === 'string' && value.trim() !== '' && value.length <= LIMITS.tenant.nameMax;
}

/** What a new user is given, and nobody else's to say: it may be sent, and means nothing. */
const IGNORED_MEMBERS = ['id', 'tenantId', 'isActive'];

/** A new user; without a password, an invited one. */
export function readUserInput(body: JsonObject): { email: string; name: string; role: string; password?: string } {
  return read(body, ['email', 'name', 'role'], ['password'], IGNORED_MEMBERS) as ReturnType<typeof readUserInput>;
}

/** A person who adds themselves. */
export function readRegistration(body: JsonObject): { email: string; name: string; password: string } {
  const { email, name, password } = body;
  return read({ email, name, password }, ['email', 'name', 'password'], []) as ReturnType<typeof readRegistration>;
}

export function readUserChanges(body: JsonObject): UserChanges {
  return read(body, [], ['email', 'name', 'role', 'password', 'isActive']);
}

/** The members asked for; others, but for the idle ones, are problems. An optional one may be left out or null. */
function read(
  body: JsonObject,
  required: readonly Member[],
  optional: readonly Member[],
  idle: readonly string[] = [],
): UserChanges {
  const problems: Problem[] = [];
  const members: [Member, unknown][] = [];
  for (const path of [...required, ...optional]) {
    const value = body[path];
    if (value == null && optional.includes(path)) continue;
    const message = PROBLEMS[path](value);
    if (message === undefined) members.push([path, value]);
    else problems.push({ path, message });
  }
  problems.push(...strangers(body, [...required, ...optional, ...idle]));
  if (problems.length > 0) throw invalid(problems);
  return Object.fromEntries(members);
}
