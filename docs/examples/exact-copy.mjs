// Keeps a copy of the records that a condition selects equal to the list, through lost connections, deletions, and changes
// of rights and definitions. For pages, Bun, Node and Deno. `credential()` gives the headers of a credential, `onChange(copy,
// cursor)` gets the copy after each step, `live` follows an event stream instead of long polls, `start` is a copy saved before.
const SYSTEM = ['entityId', 'createdAt', 'updatedAt', 'createdBy', 'updatedBy'];
const GONE = ['record.deleted', 'record.left'];
const CHANGES = ['record.created', 'record.updated', 'record.entered', ...GONE];
const READ_AGAIN = ['rights.changed', 'definition.changed'];
const FINAL = [400, 401, 403, 404];
/** A stream without a heartbeat for so long is dead. */
const SILENCE_MS = 90_000;

export function keepCopy({ api, tenant, entity, filters, credential, onChange, live = false, start = {} }) {
  let copy = new Map(start.records);
  let cursor = start.cursor ?? null;
  const stopped = new AbortController();
  const selection = { entities: entity, filters, transitions: true };

  async function call(path, query, body) {
    const response = await fetch(`${api}${path}?${new URLSearchParams(query)}`, {
      method: body ? 'POST' : 'GET',
      headers: { 'Content-Type': 'application/json', ...credential() },
      body: body && JSON.stringify(body),
      signal: AbortSignal.any([stopped.signal, AbortSignal.timeout(60_000)]),
    });
    const { data, error } = await response.json();
    if (response.ok) return { data, since: response.headers.get('Changes-Cursor') };
    const retryAfter = Number(response.headers.get('Retry-After'));
    throw Object.assign(new Error(error.message), { status: response.status, retryAfter });
  }

  /** Reads the whole list. The cursor is that of the first page: what happens while the others are read comes after it. */
  async function readAll() {
    const records = new Map();
    let from = null;
    for (let page = ''; page !== null; ) {
      const query = { filters, cursor: page, limit: 100, count: 'none' };
      const { data, since } = await call(`/api/entities/${entity}/records`, query);
      from ??= since;
      for (const record of data.items) records.set(record.id, ownFields(record));
      page = data.nextCursor;
    }
    [copy, cursor] = [records, from];
    onChange(copy, cursor);
  }

  /** False when the copy has to be read again. */
  function apply(event, id, record) {
    if (READ_AGAIN.includes(event)) return false;
    if (GONE.includes(event)) copy.delete(id);
    else copy.set(id, ownFields({ id, ...record }));
    return true;
  }

  /** One page of changes, for which the service waits up to `wait` seconds. True while more follow at once. */
  async function readChanges(wait) {
    const { data } = await call('/api/changes', { ...selection, since: cursor, limit: 1000, wait });
    const isGood = data.items.every((item) => apply(item.event, item.record_id, item.data));
    cursor = isGood ? data.nextCursor : null;
    if (isGood && data.items.length > 0) onChange(copy, cursor);
    return isGood && data.hasMore;
  }

  /** Follows an event stream until it ends. What went wrong then, the next `readChanges` is told. */
  async function readStream() {
    const { data } = await call(`/api/v1/tenants/${tenant}/events/tickets`, {}, { ...selection, since: cursor });
    const source = new EventSource(`${api}/api/v1/tenants/${tenant}/events/stream?ticket=${data.ticket}`);
    let timer;
    await new Promise((resolve) => {
      const isAlive = () => {
        clearTimeout(timer);
        timer = setTimeout(resolve, SILENCE_MS);
      };
      const onEvent = (message) => {
        const { type, record_id: id, data, cursor: next } = JSON.parse(message.data);
        cursor = apply(type, id, data?.fields) ? next : null;
        if (cursor === null) resolve();
        else onChange(copy, cursor);
        isAlive();
      };
      isAlive();
      source.addEventListener('heartbeat', isAlive);
      for (const type of [...CHANGES, ...READ_AGAIN]) source.addEventListener(type, onEvent);
      source.onerror = resolve;
      stopped.signal.addEventListener('abort', resolve);
    });
    clearTimeout(timer);
    source.close();
  }

  async function run() {
    for (let failures = 0; !stopped.signal.aborted; ) {
      const isNew = cursor === null;
      try {
        if (isNew) await readAll();
        const hasMore = await readChanges(live ? 0 : 20);
        if (live && !hasMore && cursor !== null) await readStream();
        failures = 0;
      } catch (error) {
        if (stopped.signal.aborted) return;
        // Too old, or of a service whose secret has been replaced.
        const isVoid = error.status === 410 || (error.status === 400 && !isNew);
        if (isVoid) cursor = null;
        else if (FINAL.includes(error.status)) throw error;
        const ms = error.retryAfter * 1000 || Math.min(250 * 2 ** failures++, 30_000);
        await new Promise((resolve) => setTimeout(resolve, ms * (0.5 + Math.random())));
      }
    }
  }

  return { done: run(), stop: () => stopped.abort() };
}

/** The record without the members that every record has, which streams leave out. */
function ownFields(record) {
  return Object.fromEntries(Object.entries(record).filter(([name]) => !SYSTEM.includes(name)));
}
