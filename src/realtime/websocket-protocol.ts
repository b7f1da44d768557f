// The WebSocket protocol as a pure function: a state and a client message give the next state, the replies, and the
// lookup that must be made before the message can be answered. No transport, no clock, no I/O.
// Contract: interface#websocket, decisions#websocket.
import { SYSTEM_FIELDS } from '../expression/ast.ts';
import { LIMITS } from '../limits.ts';

export interface SocketState {
  /** `expired`: the token has expired; subscriptions are kept for the next `auth`. */
  phase: 'new' | 'ready' | 'expired';
  entities: readonly string[];
}

export type Reply =
  | { type: 'auth_ok' | 'pong' }
  | { type: 'auth_error' | 'error'; code: string; message: string }
  | { type: 'subscribed' | 'unsubscribed'; entity: string };

export type Lookup = { kind: 'auth'; token: string } | { kind: 'entity'; entity: string; options: SubscribeOptions };

/** The options of a subscription besides its entity; `fields` are the fields that its events show. */
export interface SubscribeOptions {
  since?: string;
  filters?: string;
  view?: string;
  transitions?: boolean;
  fields?: ReadonlySet<string>;
}

/** Most field keys of an entity, with the system fields. A longer list would be stored, and searched for every field of every event. */
const FIELDS_MAX = LIMITS.entity.fieldsMax + Object.keys(SYSTEM_FIELDS).length;

export interface Transition {
  state: SocketState;
  replies: readonly Reply[];
  lookup?: Lookup;
}

export const NEW_SOCKET: SocketState = { phase: 'new', entities: [] };

export function receive(state: SocketState, text: string, maxSubscriptions: number): Transition {
  const message = parse(text);
  if (message === null) return errorReply(state, 'invalid_message', 'a message is a JSON object with a type');
  const { type, token, entity } = message;
  switch (type) {
    case 'auth':
      if (typeof token !== 'string') return errorReply(state, 'invalid_message', 'auth needs a token');
      return { state, replies: [], lookup: { kind: 'auth', token } };
    case 'ping':
      return state.phase === 'new' ? notAuthenticated(state) : { state, replies: [{ type: 'pong' }] };
    case 'subscribe':
    case 'unsubscribe':
      if (state.phase !== 'ready') return notAuthenticated(state);
      if (typeof entity !== 'string') return errorReply(state, 'invalid_message', `${type} needs an entity`);
      return type === 'subscribe' ? subscribe(state, entity, message, maxSubscriptions) : unsubscribe(state, entity);
    default:
      return state.phase === 'new'
        ? notAuthenticated(state)
        : errorReply(state, 'invalid_message', 'unknown message type');
  }
}

/** The result of an `auth` lookup. A first token, or one of another tenant, starts without subscriptions. */
export function authenticated(state: SocketState, outcome: 'same' | 'other' | 'rejected'): Transition {
  if (outcome === 'rejected') {
    const reply = { type: 'auth_error', code: 'not_authenticated', message: 'the token is not accepted' } as const;
    return { state, replies: [reply] };
  }
  const entities = outcome === 'same' ? state.entities : NEW_SOCKET.entities;
  return { state: { phase: 'ready', entities }, replies: [{ type: 'auth_ok' }] };
}

/** The result of an `entity` lookup. */
export function entityLookedUp(state: SocketState, entity: string, isVisible: boolean): Transition {
  if (!isVisible) return errorReply(state, 'entity_not_found', 'no such entity');
  const entities = state.entities.includes(entity) ? state.entities : [...state.entities, entity];
  return { state: { ...state, entities }, replies: [{ type: 'subscribed', entity }] };
}

export function expired(state: SocketState): Transition {
  return errorReply({ ...state, phase: 'expired' }, 'auth_expired', 'the token has expired; send auth with a new one');
}

function subscribe(state: SocketState, entity: string, message: Record<string, unknown>, max: number): Transition {
  const options = optionsIn(message);
  if (typeof options === 'string') return errorReply(state, 'invalid_message', options);
  if (!state.entities.includes(entity) && state.entities.length >= max) {
    return errorReply(state, 'limit_exceeded', `at most ${max} subscriptions`);
  }
  return { state, replies: [], lookup: { kind: 'entity', entity, options } };
}

/** The options of a `subscribe`, or the problem with them. */
function optionsIn({ since, filters, view, transitions, fields }: Record<string, unknown>): SubscribeOptions | string {
  const options: SubscribeOptions = {};
  for (const [name, value] of Object.entries({ since, filters, view })) {
    if (value == null) continue;
    if (typeof value !== 'string') return `${name} must be a text`;
    options[name as 'since' | 'filters' | 'view'] = value;
  }
  if (transitions != null && typeof transitions !== 'boolean') return 'transitions must be true or false';
  if (transitions === true) options.transitions = true;
  if (fields == null) return options;
  const keys: unknown = typeof fields === 'string' ? fields.split(',').map((key) => key.trim()) : fields;
  const isList = Array.isArray(keys) && keys.every((key) => typeof key === 'string');
  if (!isList) return 'fields must be a list of field keys';
  if (keys.length > FIELDS_MAX) return `fields must be a list of at most ${FIELDS_MAX} field keys`;
  return { ...options, fields: new Set<string>(keys) };
}

/** Refuses a request; the reply says why. */
export function refused(state: SocketState, message: string): Transition {
  return errorReply(state, 'invalid_message', message);
}

function unsubscribe(state: SocketState, entity: string): Transition {
  const entities = state.entities.filter((other) => other !== entity);
  return { state: { ...state, entities }, replies: [{ type: 'unsubscribed', entity }] };
}

function notAuthenticated(state: SocketState): Transition {
  if (state.phase === 'expired') return expired(state);
  return errorReply(state, 'not_authenticated', 'the first message must be auth');
}

function errorReply(state: SocketState, code: string, message: string): Transition {
  return { state, replies: [{ type: 'error', code, message }] };
}

function parse(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    return isObject ? (value as Record<string, unknown>) : null;
  } catch {
    // Not JSON: `receive` replies with an error.
    return null;
  }
}
