// Which tenant is shown. An operator may go to another: to the same page there, or to its Home. A person who belongs to
// one tenant sees its name.
import { useQuery } from '@tanstack/react-query';
import { useDeferredValue, useState } from 'react';
import { tenantsQuery } from '../api/queries.ts';
import { isOperator, session } from '../api/session.ts';
import { useStore } from '../api/store.ts';
import { Dialog } from '../parts/dialog.tsx';
import { ErrorPanel } from '../parts/error-panel.tsx';
import { TextField } from '../parts/field.tsx';
import { Icon } from '../parts/icon.tsx';
import { Skeleton } from '../parts/states.tsx';
import { pageAt, pathTo } from './pages.ts';
import { Link, usePathname } from './router.tsx';

export function TenantSwitch({ tenant }: { tenant: string | null }) {
  const current = useStore(session);
  const [isOpen, open] = useState(false);
  const face = (
    <>
      <span className="tenant-face" aria-hidden="true">
        {(tenant ?? '·').slice(0, 1).toUpperCase()}
      </span>
      <span className="ellipsis grow">{tenant ?? 'All tenants'}</span>
    </>
  );
  if (!isOperator(current)) return <div className="tenant">{face}</div>;
  return (
    <>
      <button
        type="button"
        className="tenant"
        aria-label={`${tenant ?? 'All tenants'}, switch tenant`}
        onClick={() => open(true)}
      >
        {face}
        <Icon name="chevron-down" />
      </button>
      {isOpen && <Tenants onClose={() => open(false)} />}
    </>
  );
}

function Tenants({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState('');
  const wanted = useDeferredValue(text.trim());
  const { data, error, refetch } = useQuery(tenantsQuery(wanted));
  const pathname = usePathname();
  const found = pageAt(pathname);
  const items = data?.items ?? [];
  const total = data?.total ?? items.length;
  // A page of one record or entity may not exist in the other tenant.
  const isGeneral = found !== undefined && Object.keys(found.params).join() === 'tenant';
  const pathIn = (slug: string): string => (isGeneral ? pathTo(found.page.path, { tenant: slug }) : `/app/t/${slug}`);
  return (
    <Dialog title="Switch tenant" onClose={onClose}>
      <div className="stack">
        <TextField label="Search" type="search" value={text} onChange={(event) => setText(event.target.value)} />
        {error !== null && <ErrorPanel title="Could not load the tenants." error={error} onRetry={refetch} />}
        {data === undefined && error === null && <Skeleton />}
        <ul className="choices">
          {items.map(({ slug, name }) => (
            <li key={slug}>
              <Link href={pathIn(slug)} onClick={onClose}>
                <span className="grow ellipsis">{name}</span>
                <span className="caption mono">{slug}</span>
              </Link>
            </li>
          ))}
        </ul>
        <p className="caption" role="status">
          {data !== undefined && items.length === 0 && 'No matching tenants.'}
          {total > items.length && `First ${items.length} of ${total.toLocaleString('en')}, type to narrow`}
        </p>
      </div>
    </Dialog>
  );
}
