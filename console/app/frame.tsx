// The frame around every page: rail, top bar, notices, and the page itself.
import { Outlet } from '@tanstack/react-router';
import { Suspense, useEffect, useState } from 'react';
import { online, seenAs } from '../api/call.ts';
import { isOperator, session } from '../api/session.ts';
import { useStore } from '../api/store.ts';
import { Button } from '../parts/button.tsx';
import { Icon } from '../parts/icon.tsx';
import { Skeleton } from '../parts/states.tsx';
import { Crumbs } from './crumbs.tsx';
import { useHotkeys } from './hotkeys.ts';
import { JobChips } from './job-chips.tsx';
import { KeyMap } from './key-map.tsx';
import { NoRight } from './no-right.tsx';
import { pageAt } from './pages.ts';
import { Palette } from './palette.tsx';
import { PersonMenu } from './person-menu.tsx';
import { Rail } from './rail.tsx';
import { mayOpen, useRights } from './rights.ts';
import { usePathname, useSearch, useUrlState } from './router.tsx';

export function Frame() {
  const pathname = usePathname();
  const found = pageAt(pathname);
  const tenant = found?.params.tenant ?? null;
  const rights = useRights(tenant);
  const { as = '' } = useSearch();
  if (seenAs.get() !== (as || null)) seenAs.set(as || null);
  const [isDrawerOpen, openDrawer] = useState(false);
  const [overlay, setOverlay] = useState<'palette' | 'keys' | null>(null);
  useHotkeys(tenant, rights, setOverlay);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the drawer closes when another page opens
  useEffect(() => openDrawer(false), [pathname]);
  const isAllowed = found === undefined || mayOpen(found.page, rights);
  // A page for admins asks for what others may not read: it waits until the rights are known.
  const isUnknown = !isAllowed && rights.me === undefined && tenant !== null;
  return (
    <div className={`frame ${isDrawerOpen ? 'drawer-open' : ''}`}>
      <a className="skip" href="#content">
        Skip to content
      </a>
      {tenant !== null && <Operator tenant={tenant} />}
      <header className="topbar">
        <span className="drawer-button">
          <Button
            kind="quiet"
            icon="menu"
            aria-label="Navigation"
            aria-expanded={isDrawerOpen}
            onClick={() => openDrawer(!isDrawerOpen)}
          />
        </span>
        <Crumbs />
        <JobChips />
        <Connection />
        <button type="button" className="button plain palette-button" onClick={() => setOverlay('palette')}>
          <Icon name="search" />
          <span>Search or go to</span>
          <kbd>Ctrl K</kbd>
        </button>
        <PersonMenu onKeys={() => setOverlay('keys')} tenant={tenant} />
      </header>
      <Rail tenant={tenant} rights={rights} />
      {isDrawerOpen && (
        <button
          type="button"
          className="veil drawer-veil"
          aria-label="Close navigation"
          onClick={() => openDrawer(false)}
        />
      )}
      <main className="content" id="content" tabIndex={-1}>
        <SeenAs />
        <Suspense fallback={<Waiting />}>
          {isUnknown ? (
            <Waiting />
          ) : isAllowed ? (
            <Outlet key={tenant} />
          ) : (
            <NoRight what={`open ${found?.page.name}`} role={rights.role} />
          )}
        </Suspense>
      </main>
      {overlay === 'palette' && (
        <Palette tenant={tenant} rights={rights} onClose={() => setOverlay(null)} onKeys={() => setOverlay('keys')} />
      )}
      {overlay === 'keys' && <KeyMap onClose={() => setOverlay(null)} />}
    </div>
  );
}

function Waiting() {
  return (
    <div className="page">
      <Skeleton />
    </div>
  );
}

function Operator({ tenant }: { tenant: string }) {
  const current = useStore(session);
  if (!isOperator(current)) return null;
  return (
    <p className="operator">
      You are acting as super-admin in <strong>{tenant}</strong>
    </p>
  );
}

function Connection() {
  const isOnline = useStore(online);
  return (
    <span role="status" className="connection">
      {!isOnline && (
        <span className="badge bad">No connection. You can look around; changes wait until it is back.</span>
      )}
    </span>
  );
}

/** The reminder that the tenant is seen as another role, and the way out. */
function SeenAs() {
  const [{ as }, set] = useUrlState({ as: '' });
  if (as === '') return null;
  return (
    <div className="notice warn seen-as">
      <span className="grow">
        You are viewing this tenant as <strong>{as}</strong>. Nothing can be changed.
      </span>
      <Button onClick={() => set({ as: null })}>Stop</Button>
    </div>
  );
}
