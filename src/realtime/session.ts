// The protocol of the WebSocket as a pure function: a session and a message give the session after it, the
// answers, and what has to be found out before the rest can be answered. No transport, no clock, no lookup.
// Contract: interface#websocket, decisions#websocket.

export interface Session {
  /** `expired`: its token has run out; subscriptions stay for the next `auth`. */
  phase: 'new' | 'ready' | 'expired';
  entities: readonly string[];
}

export type Reply =
  | { type: 'auth_ok' | 'pong' }
  | { type: 'auth_error' | 'error'; code: string; message: string }
  | { type: 'subscribed' | 'unsubscribed'; entity: string };

/** What the transport has to find out. */
export type Need = { kind: 'auth'; token: string } | { kind: 'entity'; entity: string };

export interface Step {
  session: Session;
  replies: readonly Reply[];
  need?: Need;
}

export const NEW_SESSION: Session = { phase: 'new', entities: [] };

/** A message of the client. */
export function receive(session: Session, text: string, maxSubscriptions: number): Step {
  const message = parse(text);
  if (message === null) return refuse(session, 'invalid_message', 'a message is a JSON object with a type');
  const { type, token, entity } = message;
  switch (type) {
    case 'auth':
      if (typeof token !== 'string') return refuse(session, 'invalid_message', 'auth needs a token');
      return { session, replies: [], need: { kind: 'auth', token } };
    case 'ping':
      return session.phase === 'new' ? unready(session) : { session, replies: [{ type: 'pong' }] };
    case 'subscribe':
    case 'unsubscribe':
      if (session.phase !== 'ready') return unready(session);
      if (typeof entity !== 'string') return refuse(session, 'invalid_message', `${type} needs an entity`);
      return type === 'subscribe' ? subscribe(session, entity, maxSubscriptions) : unsubscribe(session, entity);
    default:
      return session.phase === 'new' ? unready(session) : refuse(session, 'invalid_message', 'unknown message type');
  }
}

/** The token was looked at. Another tenant's, or a first one, begins without subscriptions. */
export function authenticated(session: Session, outcome: 'same' | 'other' | 'refused'): Step {
  if (outcome === 'refused') {
    const reply = { type: 'auth_error', code: 'not_authenticated', message: 'the token is not accepted' } as const;
    return { session, replies: [reply] };
  }
  const entities = outcome === 'same' ? session.entities : NEW_SESSION.entities;
  return { session: { phase: 'ready', entities }, replies: [{ type: 'auth_ok' }] };
}

/** The entity was looked for. */
export function looked(session: Session, entity: string, isThere: boolean): Step {
  if (!isThere) return refuse(session, 'entity_not_found', 'no such entity');
  const entities = session.entities.includes(entity) ? session.entities : [...session.entities, entity];
  return { session: { ...session, entities }, replies: [{ type: 'subscribed', entity }] };
}

/** The token has run out. */
export function expired(session: Session): Step {
  return refuse({ ...session, phase: 'expired' }, 'auth_expired', 'the token has expired; send auth with a new one');
}

function subscribe(session: Session, entity: string, max: number): Step {
  if (!session.entities.includes(entity) && session.entities.length >= max) {
    return refuse(session, 'limit_exceeded', `at most ${max} subscriptions`);
  }
  return { session, replies: [], need: { kind: 'entity', entity } };
}

function unsubscribe(session: Session, entity: string): Step {
  const entities = session.entities.filter((other) => other !== entity);
  return { session: { ...session, entities }, replies: [{ type: 'unsubscribed', entity }] };
}

function unready(session: Session): Step {
  if (session.phase === 'expired') return expired(session);
  return refuse(session, 'not_authenticated', 'the first message must be auth');
}

function refuse(session: Session, code: string, message: string): Step {
  return { session, replies: [{ type: 'error', code, message }] };
}

function parse(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null;
  } catch {
    // Not JSON: said in the answer.
    return null;
  }
}
