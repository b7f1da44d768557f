// Restricted access to the demo: a role limited to some fields and rows, a view, and two keys with that role, a
// platform key for programs and a public key for browsers. The console shows the keys once.
// Contract: decisions#configuration.
import type { TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { createPlatformApi } from '../keys/platform-apis.ts';
import { issuePlatformKey } from '../keys/platform-keys.ts';
import { issuePublicKey } from '../keys/public-keys.ts';
import type { NewRole } from '../users/role-input.ts';
import { addRole } from '../users/roles.ts';
import type { NewView } from '../views/view.ts';
import { createView } from '../views/views.ts';

export const VIEW = 'won-deals';
const ROLE = 'partner';

const role: NewRole = {
  name: ROLE,
  description: 'Reads companies, and the deals that are neither lost nor new, without notes',
  permissions: { companies: ['read'], deals: ['read'], [`view:${VIEW}`]: ['read'] },
  entities: {
    companies: { excludeFields: ['taxNumber', 'rating'] },
    deals: { excludeFields: ['notes'], rowFilter: 'stage in (qualified, proposal, won)' },
  },
};

const view: NewView = {
  entitySlug: 'deals',
  slug: VIEW,
  name: 'Won deals',
  filterDsl: { validate: [{ condition: 'stage = won' }] },
};

export interface DemoKeys {
  platform: string;
  public: string;
}

/** Creates role, view and keys. The demo's entities must exist. */
export async function createDemoAccess(app: App, caller: TenantCaller): Promise<DemoKeys> {
  const { id: roleId } = await addRole(app, caller, role);
  await createView(app, caller, view);
  const reads = { [ROLE]: ['read' as const] };
  const permissions = { '*': reads, [`view:${VIEW}`]: reads };
  const api = await createPlatformApi(app, caller, {
    name: 'Partners',
    slug: 'partners',
    roles: [ROLE],
    permissions,
  });
  const platformKey = await issuePlatformKey(app, caller, api.id, { role: ROLE, label: 'demo' });
  const publicKey = await issuePublicKey(app, caller, { label: 'demo', roleId, scopes: ['records:read'] });
  return { platform: platformKey.key, public: publicKey.key };
}
