// What the signed-in person may do in the tenant, as far as the console can tell: it hides what cannot work. The service
// decides. Names of operations are those of roles.
import { useQuery } from '@tanstack/react-query';
import type { WhoAmI } from '../api/answers.ts';
import { seenAs } from '../api/call.ts';
import { whoamiQuery } from '../api/queries.ts';
import { isOperator, session } from '../api/session.ts';
import { useStore } from '../api/store.ts';
import type { PageEntry } from './pages.ts';

export type Operation = 'read' | 'create' | 'update' | 'delete';

export interface Rights {
  me: WhoAmI | undefined;
  isAdmin: boolean;
  isOperator: boolean;
  /** The name of the role, for sentences. */
  role: string;
  may: (operation: Operation, entity: string) => boolean;
}

const ADMIN_ROLES = ['owner', 'admin'];
const ADMIN_KINDS = ['super_admin', 'owner_key', 'owner', 'admin_session', 'api_key'];

export function useRights(tenant: string | null): Rights {
  const current = useStore(session);
  const { data: me } = useQuery({ ...whoamiQuery(tenant), enabled: tenant !== null });
  const seenRole = useStore(seenAs);
  const isOwnAdmin =
    current?.kind === 'owner' ||
    current?.kind === 'session' ||
    isOperator(current) ||
    ADMIN_ROLES.includes(me?.role ?? current?.role ?? '') ||
    ADMIN_KINDS.includes(me?.kind ?? '');
  // Seen as a role, the tenant has the links of that role.
  const isAdmin = seenRole === null ? isOwnAdmin : ADMIN_ROLES.includes(seenRole);
  return {
    me,
    isAdmin,
    isOperator: isOperator(current),
    role: seenRole ?? me?.role ?? current?.role ?? (isAdmin ? 'owner' : 'none'),
    may: (operation, entity) =>
      isAdmin || [me?.permissions[entity], me?.permissions['*']].some((list) => list?.includes(operation) ?? false),
  };
}

export function mayOpen(page: PageEntry, rights: Rights): boolean {
  if (page.needs === 'operator') return rights.isOperator;
  return page.needs !== 'admin' || rights.isAdmin;
}
