// What the client does in each runtime: the same calls under Bun, Node.js, Deno and in a page of Chromium, which import the
// built package. Resolves to what they gave; the test knows what is right. `WebSocket` is for a runtime that has none.
export async function scenario({ createClient, ApiError, etagOf, verifyWebhook }, options) {
  const client = createClient(options);
  const deals = client.records('deals');
  const codeOf = (error) => (error instanceof ApiError ? `${error.status} ${error.code}` : String(error));
  const ending = new AbortController();
  const { signal } = ending;
  const { changesCursor: since } = await deals.list({ limit: 1 });
  const followed = [
    client.changes({ since, entities: ['deals'], signal }),
    client.live({ since, entities: ['deals'], signal }),
    client.live({ since, entities: ['deals'], signal, transport: 'websocket' }),
  ].map(taken);

  const made = await deals.create({ title: 'one', amount: 1 });
  const changed = await deals.update(made.id, { amount: 2 }, { etag: etagOf(made) });
  const lost = await deals.update(made.id, { amount: 3 }, { etag: etagOf(made) }).catch(codeOf);
  const bulk = await deals.bulk([
    { op: 'create', data: { title: 'two', amount: 2 } },
    { op: 'create', data: { title: 'three', amount: 3 } },
  ]);
  const upserted = await deals.upsert('title', { title: 'three', amount: 4 });
  const tried = await deals.create({ title: 'tried' }, { dryRun: true });
  const titles = [];
  for await (const { title } of deals.all({ sort: ['-amount', 'title'], limit: 1, fields: ['title'] }))
    titles.push(title);
  const imported = await deals.import('title,amount\nfour,4\n,5\n', { format: 'csv' });
  const file = await (await deals.export({ format: 'csv', fields: ['title'], sort: 'title' })).text();
  const sums = await deals.aggregate({ metrics: ['count', 'sum:amount'] });
  const page = await client.view('large').list({ limit: 1, with: ['etags'] });
  const views = await client.views();
  await deals.delete(made.id, { etag: etagOf(changed) });
  const gone = await deals.get(made.id).catch(codeOf);
  const aborted = await deals
    .list({ signal: AbortSignal.abort(new Error('cancelled')) })
    .catch(({ message }) => message);
  const unreachable = await createClient({ ...options, url: 'http://127.0.0.1:1', retries: 0 })
    .views()
    .catch(({ name }) => name);

  const events = await Promise.all(followed);
  ending.abort();
  return {
    changed: changed.amount,
    lost,
    bulk: bulk.succeeded,
    upserted: [upserted.outcome, upserted.record.amount],
    tried: [tried.result.title, tried.dryRun.events],
    titles,
    imported: [imported.created, imported.refused, imported.errors[0]?.line],
    lines: file
      .trim()
      .split('\n')
      .map((line) => line.split(',')[1] ?? line),
    sums,
    view: [page.total, page.items[0].title, etagOf(page.items[0]), typeof page.changesCursor],
    views: views.map(({ slug }) => slug),
    gone,
    aborted,
    unreachable,
    events,
    webhook: await webhook(verifyWebhook),
  };
}

/** What comes until a record is deleted. */
async function taken(sequence) {
  const seen = [];
  for await (const { event, data } of sequence) {
    seen.push(`${event} ${data.title ?? ''}`.trim());
    if (event === 'record.deleted') break;
  }
  return seen;
}

async function webhook(verify) {
  const secret = 'a secret';
  const body = JSON.stringify({ id: 'evt_1', event: 'record.created', entity: 'deals', data: {} });
  const time = Math.floor(Date.now() / 1_000);
  const bytes = (text) => new TextEncoder().encode(text);
  const key = await crypto.subtle.importKey('raw', bytes(secret), { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
  const code = await crypto.subtle.sign('HMAC', key, bytes(`msg_1.${time}.${body}`));
  const signature = `v1,${btoa(String.fromCharCode(...new Uint8Array(code)))}`;
  const headers = {
    'Webhook-Id': 'msg_1',
    'webhook-timestamp': String(time),
    'webhook-signature': `v1,forged ${signature}`,
  };
  const { event } = await verify(secret, headers, body);
  const forged = await verify(secret, new Headers(headers), `${body} `).catch(
    ({ status, message }) => `${status} ${message}`,
  );
  return [event, forged];
}
