// What a check of rights costs beyond the owner's: the same requests with the key of a role that may not see one
// field, and the records of a view beside the same filter on its entity. Set up through the service's own API.

import { Api } from './api.ts';
import type { Shot } from './measure.ts';
import type { Comparison } from './rows.ts';
import type { Bench } from './run.ts';
import { serviceShots } from './service-shots.ts';
import type { Shots } from './world.ts';

const HIDDEN = 'due';
const RIGHTS = ['read', 'create', 'update', 'delete'];
const COMPARED = ['get', 'list', 'filter', 'create', 'update', 'delete'] as const;

/** The same requests with a role-limited platform key. */
export async function roleComparisons({ world, options }: Bench, owner: Shots): Promise<Comparison[]> {
  const key = await issueLimitedKey(new Api(world.server.port, { key: world.key }));
  const limited = serviceShots({ ...world, key, hidden: HIDDEN }, options.seconds);
  return COMPARED.map((name) => ({
    id: `role-${name}`,
    label: `${name}, role-limited key`,
    against: 'owner key',
    baseline: owner[name],
    subject: hiding(limited[name]),
    must: 1.3,
    goal: 1.15,
  }));
}

/** The records of a view that has the condition of the filter row. */
export async function viewComparisons({ world }: Bench, owner: Shots): Promise<Comparison[]> {
  const view = { entitySlug: 'items', slug: 'open-items', name: 'Open items' };
  const filterDsl = { validate: [{ condition: "status == 'open'" }] };
  await new Api(world.server.port, { key: world.key }).call('POST', '/api/views', { ...view, filterDsl });
  const targets = () => [{ method: 'GET', path: '/api/views/open-items/records', key: world.key }];
  const subject = { ...owner.filter, targets };
  const against = 'the same filter on the entity';
  return [{ id: 'view', label: 'view records', against, baseline: owner.filter, subject, must: 1.2, goal: 1.1 }];
}

async function issueLimitedKey(api: Api): Promise<string> {
  const limits = { excludeFields: [HIDDEN] };
  await api.call('POST', '/api/roles', {
    name: 'bench',
    permissions: { items: RIGHTS, items_w: RIGHTS, people: ['read'] },
    entities: { items: limits, items_w: limits },
  });
  const { id } = await api.call<{ id: string }>('POST', '/api/apis', {
    name: 'Bench',
    slug: 'bench',
    roles: ['bench'],
    permissions: { items: { bench: RIGHTS }, items_w: { bench: RIGHTS }, people: { bench: ['read'] } },
  });
  const request = { role: 'bench', label: 'bench', ttlDays: 1 };
  return (await api.call<{ key: string }>('POST', `/api/apis/${id}/keys`, request)).key;
}

/** The shot, with the further demand that the answer does not show the hidden field. */
function hiding(shot: Shot): Shot {
  const wrong: Shot['wrong'] = (data, target) =>
    JSON.stringify(data).includes(`"${HIDDEN}"`) ? 'the answer shows the hidden field' : shot.wrong(data, target);
  return { ...shot, wrong };
}
