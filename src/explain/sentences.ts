// The reasons in explanations, as sentences that a tenant admin can act on: what decided, and what to change. Pure, except that
// it looks up which roles exist.
// Contract: decisions#explanations.
import type { TenantCaller } from '../access/caller.ts';
import type { Operation } from '../access/rights.ts';
import { rolesOf } from '../access/role-store.ts';
import type { App } from '../app.ts';
import type { Entity, Field } from '../entities/field.ts';
import type { Channel } from './channels.ts';
import type { Subject } from './subject.ts';

export interface DecidedBy {
  source: 'credential' | 'channel' | 'role' | 'api' | 'bot';
  name: string;
  text: string;
}

/** The source of the rights, and its name in a sentence. */
export interface Holder extends Omit<DecidedBy, 'text'> {
  called: string;
}

const KINDS = {
  owner_key: 'owner key',
  platform_key: 'platform key',
  public_key: 'public key',
  user: 'user',
  developer: 'user',
  bot: 'bot',
  admin_session: 'admin session',
  admin_key: 'admin key',
  super_admin: 'super-admin',
} as const;

function calledOf({ kind, name }: Subject): string {
  if (kind === null) return `the role ${name}`;
  return kind === 'super_admin' || kind === 'admin_key' ? name : `the ${KINDS[kind]} ${name}`;
}

function ofCredential(subject: Subject, text: string): DecidedBy {
  return { source: 'credential', name: subject.name, text };
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}

/** For a credential that no request is accepted with; `message` is that of the refusal. */
export function notAccepted(subject: Subject, message: string): DecidedBy {
  const { ended } = subject;
  const called = sentence(calledOf(subject));
  if (ended === null) return ofCredential(subject, `${called} is switched off: set isActive to true.`);
  if (ended !== undefined) return ofCredential(subject, `${called} ended at ${ended}: make another one.`);
  return ofCredential(subject, `${called} is refused: ${message}.`);
}

export function onlyReads(channel: Channel): DecidedBy {
  const text = `Nothing is written over ${channel}, which only shows changes: write over rest or mcp.`;
  return { source: 'channel', name: channel, text };
}

export function lacksScope(subject: Subject, scope: string): DecidedBy {
  return ofCredential(subject, `${sentence(calledOf(subject))} lacks the scope ${scope}: make a key that has it.`);
}

export function publicKeyReads(subject: Subject, channel: Channel): DecidedBy {
  const text =
    channel === 'mcp'
      ? 'A public key cannot be used over mcp, whose requests are all POST: use a platform key or a bot.'
      : 'A public key only reads: write with a platform key, a bot or a user.';
  return ofCredential(subject, text);
}

/** For a webhook and a credential without a role. */
export function noRole(subject: Subject): DecidedBy {
  const text = `A webhook shows what its subscription’s role may see, and ${calledOf(subject)} has none: ask about the role.`;
  return { source: 'channel', name: 'webhook', text };
}

export function roleIsGone(name: string): DecidedBy {
  const text = `There is no role ${name} in this tenant: add one of that name, or use another role.`;
  return { source: 'role', name, text };
}

export function holderOf(subject: Subject, { role, kind }: TenantCaller, channel: Channel): Holder {
  if (kind === 'platform_key' && subject.api !== undefined) {
    return { source: 'api', name: subject.api, called: `the platform API ${subject.api}` };
  }
  if (kind === 'bot') return { source: 'bot', name: subject.name, called: `the bot ${subject.name}` };
  const isOwnRole = kind === 'user' || kind === 'developer' || kind === 'public_key' || channel === 'webhook';
  if (isOwnRole && role !== null) return { source: 'role', name: role, called: `the role ${role}` };
  return { source: 'credential', name: subject.name, called: calledOf(subject) };
}

export async function notGranted(
  app: App,
  { source, name, called }: Holder,
  { role, tenant }: TenantCaller,
  operation: Operation,
  { name: entity }: Entity,
): Promise<DecidedBy> {
  const grant = `${operation} on ${entity}`;
  const decided = (text: string): DecidedBy => ({ source, name, text });
  if (source === 'api') {
    return decided(
      `${sentence(called)} does not grant its role ${role} ${grant}: add it to the permissions of the API.`,
    );
  }
  if (source === 'bot') return decided(`${sentence(called)} is not granted ${grant}: add it to the bot’s permissions.`);
  if (source !== 'role') return decided(`${sentence(called)} is not granted ${grant}: its role no longer exists.`);
  if (!(await rolesOf(app, tenant)).byName.has(name)) return roleIsGone(name);
  return decided(`${sentence(called)} does not grant ${grant}: add it to the permissions of the role.`);
}

/** For a row filter that no longer fits its entity. */
export function unfit({ role }: TenantCaller, { name }: Entity, condition: string | null): DecidedBy {
  const text = `The row filter of the role ${role} no longer fits ${name}, so that it shows nothing: mend ${condition}.`;
  return { source: 'role', name: role ?? '', text };
}

export function showsNothing(channel: Channel, { name }: Entity, condition: string | null): DecidedBy {
  const text = `A plain ${channel} stream shows nothing of ${name}, of which the role sees some rows only (${condition}): open it with transitions, or follow the changes.`;
  return { source: 'channel', name: channel, text };
}

export function hidesRecord({ role }: TenantCaller, { name }: Entity, condition: string | null): DecidedBy {
  const text = `The row filter of the role ${role} on ${name} hides this record: ${condition} does not hold for it. To the caller it does not exist (404).`;
  return { source: 'role', name: role ?? '', text };
}

export function granted(
  { source, name, called }: Holder,
  operation: Operation,
  entity: Entity,
  { condition, shown, isOne }: { condition: string | null; shown: readonly Field[]; isOne: boolean },
): DecidedBy {
  const hidden = entity.fields.length - shown.length;
  const rows =
    operation === 'create' || (operation === 'update' && condition !== null)
      ? `; what is written must match ${condition}`
      : isOne
        ? `, and this record matches ${condition}`
        : `, for the rows that match ${condition}`;
  const parts = [
    `${sentence(called)} grants ${operation} on ${entity.name}`,
    condition === null ? '' : rows,
    hidden === 0 ? '' : `; ${hidden === 1 ? 'one field is' : `${hidden} fields are`} hidden`,
    '.',
  ];
  return { source, name, text: parts.join('') };
}
