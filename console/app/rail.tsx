// The left rail: tenant, pages, under Records the entities, under Views those that a role may read. What the role may not
// use is absent. Under 1,100 px it shows icons only, under 768 px it is a drawer.
import { useQuery } from '@tanstack/react-query';
import { Fragment, useState } from 'react';
import { entitiesQuery } from '../api/queries.ts';
import { isOperator, session } from '../api/session.ts';
import { useStore } from '../api/store.ts';
import { viewsQuery } from '../api/views.ts';
import { Icon } from '../parts/icon.tsx';
import { PAGES, pathTo } from './pages.ts';
import { mayOpen, type Rights } from './rights.ts';
import { Link, usePathname, useSearch } from './router.tsx';
import { TenantSwitch } from './tenant-switch.tsx';

/** From this number of entities on, a field narrows them. */
const FILTER_FROM = 13;
/** More are found by the field or the palette. */
const MOST_SHOWN = 60;

export function Rail({ tenant, rights }: { tenant: string | null; rights: Rights }) {
  const current = useStore(session);
  const known = tenant ?? current?.tenant ?? null;
  const pages = PAGES.filter(
    (page) => page.rail !== undefined && mayOpen(page, rights) && (known !== null || !page.path.includes('$tenant')),
  );
  return (
    <nav className="rail" aria-label="Main">
      {(known !== null || isOperator(current)) && <TenantSwitch tenant={known} />}
      <ul>
        {pages.map((page, at) => (
          <Fragment key={page.path}>
            {at > 0 && pages[at - 1]?.rail?.group !== page.rail?.group && <li className="gap" aria-hidden="true" />}
            <RailLink page={page} tenant={known} />
            {page.name === 'Views' && tenant !== null && !rights.isAdmin && (
              <li className="rail-entities">
                <Views tenant={tenant} />
              </li>
            )}
            {page.name === 'Records' && tenant !== null && (
              <li className="rail-entities">
                <Entities tenant={tenant} rights={rights} />
              </li>
            )}
          </Fragment>
        ))}
      </ul>
    </nav>
  );
}

function RailLink({ page, tenant }: { page: (typeof PAGES)[number]; tenant: string | null }) {
  const pathname = usePathname();
  const path = pathTo(page.path, { tenant: tenant ?? '' });
  const isHere = page.name !== 'Home' && pathname.startsWith(`${path}/`);
  const { icon, hotkey } = page.rail as NonNullable<typeof page.rail>;
  return (
    <li>
      <Link
        href={path}
        className="rail-link"
        aria-current={pathname === path ? 'page' : isHere ? true : undefined}
        title={hotkey === undefined ? page.name : `${page.name} (g then ${hotkey})`}
      >
        <Icon name={icon} size={20} />
        <span>{page.name}</span>
      </Link>
    </li>
  );
}

/** The views that the role may read: of some entities it may read nothing else. */
function Views({ tenant }: { tenant: string }) {
  const { data = [] } = useQuery(viewsQuery(tenant));
  const { view } = useSearch();
  return (
    <ul>
      {data.slice(0, MOST_SHOWN).map(({ slug, name, entitySlug }) => (
        <li key={slug}>
          <Link
            href={`/app/t/${tenant}/records/${entitySlug}?view=${slug}`}
            className="rail-link entity"
            aria-current={view === slug ? 'page' : undefined}
            title={`${name}: ${entitySlug}`}
          >
            <span className="ellipsis">{name}</span>
          </Link>
        </li>
      ))}
    </ul>
  );
}

function Entities({ tenant, rights }: { tenant: string; rights: Rights }) {
  const { data = [] } = useQuery(entitiesQuery(tenant));
  const [text, setText] = useState('');
  const pathname = usePathname();
  const visible = data.filter(({ name }) => rights.may('read', name));
  const wanted = text.trim().toLowerCase();
  const matching = visible.filter(({ name, label }) => `${name} ${label ?? ''}`.toLowerCase().includes(wanted));
  return (
    <>
      {visible.length >= FILTER_FROM && (
        <input
          className="input"
          type="search"
          placeholder={`Find in ${visible.length} entities`}
          aria-label="Find an entity"
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
      )}
      <ul>
        {matching.slice(0, MOST_SHOWN).map(({ name, label }) => {
          const path = `/app/t/${tenant}/records/${name}`;
          const isHere = pathname === path || pathname.startsWith(`${path}/`);
          return (
            <li key={name}>
              <Link
                href={path}
                className="rail-link entity"
                aria-current={isHere ? 'page' : undefined}
                title={label ?? name}
              >
                <span className="ellipsis">{name}</span>
              </Link>
            </li>
          );
        })}
      </ul>
      {matching.length > MOST_SHOWN && (
        <p className="caption">{matching.length - MOST_SHOWN} more; type to narrow the list</p>
      )}
    </>
  );
}
