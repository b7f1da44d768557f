// The cost of access checks: the same requests with an owner key and with the key of a role that hides one field; the
// records of a view, and the same filter on its entity. Set up through the service's API.
// A response that shows the hidden field fails its row.

import { Api } from './api.ts';
import type { Workloads } from './fixture.ts';
import type { Workload } from './measure.ts';
import type { Comparison } from './rows.ts';
import type { Bench } from './run.ts';
import { serviceWorkloads } from './service-workloads.ts';

const HIDDEN = 'due';
const RIGHTS = ['read', 'create', 'update', 'delete'];
const COMPARED = ['get', 'list', 'filter', 'create', 'update', 'delete'] as const;

/** The same requests with a role-limited platform key. */
export async function roleComparisons({ fixture, options }: Bench, owner: Workloads): Promise<Comparison[]> {
  const key = await issueLimitedKey(new Api(fixture.server.port, { key: fixture.key }));
  const limited = serviceWorkloads({ ...fixture, key, hidden: HIDDEN }, options.seconds);
  return COMPARED.map((name) => ({
    id: `role-${name}`,
    label: `${name}, role-limited key`,
    against: 'owner key',
    baseline: owner[name],
    subject: hiding(limited[name]),
    must: 1.2,
    goal: 1.1,
  }));
}

/** The records of a view that has the same condition as the benchmark row `filter`. */
export async function viewComparisons({ fixture }: Bench, owner: Workloads): Promise<Comparison[]> {
  const view = { entitySlug: 'items', slug: 'open-items', name: 'Open items' };
  const filterDsl = { validate: [{ condition: "status == 'open'" }] };
  await new Api(fixture.server.port, { key: fixture.key }).call('POST', '/api/views', { ...view, filterDsl });
  const targets = () => [{ method: 'GET', path: '/api/views/open-items/records', key: fixture.key }];
  const subject = { ...owner.filter, targets };
  const against = 'the same filter on the entity';
  return [{ id: 'view', label: 'view records', against, baseline: owner.filter, subject, must: 1.2, goal: 1.05 }];
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

/** The workload with a check that no response shows the hidden field. */
function hiding(workload: Workload): Workload {
  const problem: Workload['problem'] = (data, target) =>
    JSON.stringify(data).includes(`"${HIDDEN}"`) ? 'the answer shows the hidden field' : workload.problem(data, target);
  return { ...workload, problem };
}
