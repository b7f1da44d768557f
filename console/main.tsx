// The entry: shows the sign-in page, an open page for a link of a mail, or the console. It holds neither router nor
// queries, so that signing in waits for little; those load while the person types.
import { type ComponentType, StrictMode, useEffect, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { session } from './api/session.ts';
import { useStore } from './api/store.ts';
import { pageAt } from './app/pages.ts';
import { SignIn } from './app/sign-in.tsx';

type Load = () => Promise<{ default: ComponentType }>;

const shell = () => import('./app/shell.tsx');

/** The pages that need no session, by the beginning of their path. */
const OPEN_PAGES: readonly { path: RegExp; load: Load }[] = [
  { path: /^(\/app)?\/invite\/[^/]+\/?$/, load: () => import('./pages/invite/page.tsx') },
  { path: /^(\/app)?\/reset-password\/?$/, load: () => import('./pages/reset-password/page.tsx') },
];

function Main() {
  const current = useStore(session);
  const open = OPEN_PAGES.find(({ path }) => path.test(location.pathname));
  if (open !== undefined) return <OnDemand load={open.load} />;
  if (current === null) return <SignIn whenTyping={() => void shell()} />;
  return <OnDemand key={current.tenant ?? ''} load={shell} />;
}

/** Nothing until it has loaded. React's `lazy` would show what has loaded 300 ms after its fallback, or later. */
function OnDemand({ load }: { load: Load }) {
  const [Loaded, show] = useState<ComponentType>();
  useEffect(() => {
    void load().then(({ default: component }) => show(() => component));
  }, [load]);
  return Loaded === undefined ? null : <Loaded />;
}

// The page that the link names loads beside the frame, not after it. If it cannot be loaded, the router says so.
if (session.get() !== null)
  pageAt(location.pathname)
    ?.page.load()
    .catch(() => undefined);

createRoot(document.getElementById('root') as HTMLElement).render(
  <StrictMode>
    <Main />
  </StrictMode>,
);
