// Who else may see the demo's records: a role that is confined to some fields and rows, a view, and two
// keys that have the role: a platform key for programs, a public key for browsers. Made by the
// operations that REST uses. The keys are shown once, by the console.
// Contract: decisions#configuration.
import type { TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { createPlatformApi } from '../keys/platform-apis.ts';
import { issuePlatformKey } from '../keys/platform-keys.ts';
import { issuePublicKey } from '../keys/public-keys.ts';
import type { JsonObject } from '../runtime/text.ts';
import { addRole } from '../users/roles.ts';
import type { NewView } from '../views/view.ts';
import { createView } from '../views/views.ts';

export const VIEW = 'won-deals';
const ROLE = 'partner';

const role: JsonObject = {
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

/** The values of the demo's keys besides its owner key. */
export interface DemoKeys {
  platform: string;
  public: string;
}

/** Makes role, view and keys in the demo's tenant, whose entities are there. */
export async function createDemoAccess(app: App, caller: TenantCaller): Promise<DemoKeys> {
  const { id: roleId } = await addRole(app, caller, role);
  await createView(app, caller, view);
  const permissions = { '*': { [ROLE]: ['read'] }, [`view:${VIEW}`]: { [ROLE]: ['read'] } };
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
