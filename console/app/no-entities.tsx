// In the place of the entities when there are none to show: the tenant has none yet, or the role may read none. Of the
// latter it may read views.
import { useQuery } from '@tanstack/react-query';
import { viewsQuery } from '../api/views.ts';
import { Empty } from '../parts/states.tsx';
import type { Rights } from './rights.ts';
import { Link } from './router.tsx';

const MOST_SHOWN = 12;

export function NoEntities({ tenant, rights }: { tenant: string; rights: Rights }) {
  const mayReadAll = rights.may('read', '*');
  const { data: views = [] } = useQuery({ ...viewsQuery(tenant), enabled: !mayReadAll && rights.me !== undefined });
  if (!mayReadAll && rights.me === undefined) return null;
  if (mayReadAll) {
    return (
      <Empty icon="table-2">
        {tenant} has no entities yet. An entity is a kind of record, like companies or tasks.
      </Empty>
    );
  }
  if (views.length === 0) {
    return (
      <Empty icon="table-2">
        Your role {rights.role} may not read any entity. An admin can change that under Roles.
      </Empty>
    );
  }
  const links = views.slice(0, MOST_SHOWN).map(({ slug, name, entitySlug }) => (
    <Link key={slug} className="button plain" href={`/app/t/${tenant}/records/${entitySlug}?view=${slug}`}>
      {name}
    </Link>
  ));
  return (
    <Empty icon="list-filter" action={links}>
      Your role {rights.role} reads records through {views.length === 1 ? 'this view' : 'these views'}.
    </Empty>
  );
}
