// The router, built from the table of pages. Query strings are plain text, so that a link reads like a call of the API;
// `useUrlState` is how a page reads and writes its own part.
import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  redirect,
  useRouter,
  useRouterState,
} from '@tanstack/react-router';
import { type AnchorHTMLAttributes, useCallback, useRef } from 'react';
import { session } from '../api/session.ts';
import { ErrorPanel } from '../parts/error-panel.tsx';
import { Skeleton } from '../parts/states.tsx';
import { Frame } from './frame.tsx';
import { NotFound } from './not-found.tsx';
import { PAGES } from './pages.ts';

const root = createRootRoute({ component: Frame, notFoundComponent: NotFound });

/** Where a person begins. */
export function startPath(): string {
  const tenant = session.get()?.tenant;
  return tenant ? `/app/t/${tenant}` : '/app/platform';
}

const start = createRoute({
  getParentRoute: () => root,
  path: '/app',
  beforeLoad: () => {
    throw redirect({ to: startPath(), replace: true });
  },
});

const pages = PAGES.map(({ path, load }) =>
  createRoute({ getParentRoute: () => root, path, component: lazyRouteComponent(load) }),
);

export const router = createRouter({
  routeTree: root.addChildren([start, ...pages]),
  parseSearch: (text) => Object.fromEntries(new URLSearchParams(text)),
  stringifySearch: (search) => {
    const kept = Object.entries(search).filter(([, value]) => value !== undefined && value !== '');
    const text = new URLSearchParams(kept as [string, string][]).toString();
    return text === '' ? '' : `?${text}`;
  },
  defaultPendingComponent: () => (
    <div className="page">
      <Skeleton />
    </div>
  ),
  defaultErrorComponent: ({ error, reset }) => (
    <div className="page">
      <ErrorPanel title="This page could not be shown." error={error} onRetry={reset} />
    </div>
  ),
  defaultPendingMs: 200,
  defaultPreload: 'intent',
  scrollRestoration: true,
  scrollToTopSelectors: ['.content'],
});

/** Goes to a path of the console. A tenant that is seen as a role stays so from page to page, until that is stopped. */
export function go(path: string, options: { replace?: boolean } = {}): void {
  visit(keepingRole(path), options);
}

const TENANT = /^\/app\/t\/[^/?]+/;

function keepingRole(path: string): string {
  const { pathname, search } = router.history.location;
  const role = new URLSearchParams(search).get('as');
  const isSameTenant = TENANT.exec(pathname)?.[0] === TENANT.exec(path)?.[0];
  if (role === null || !isSameTenant || /[?&]as=/.test(path)) return path;
  return `${path}${path.includes('?') ? '&' : '?'}as=${encodeURIComponent(role)}`;
}

function visit(path: string, options: { replace?: boolean }): void {
  if (options.replace) router.history.replace(path);
  else router.history.push(path);
}

type LinkProps = AnchorHTMLAttributes<HTMLAnchorElement> & { href: string };

/** A link to a page of the console: a real one, so that it opens in a new tab like any other. */
export function Link({ href, onClick, ...rest }: LinkProps) {
  return (
    <a
      href={href}
      {...rest}
      onClick={(event) => {
        onClick?.(event);
        if (
          event.defaultPrevented ||
          event.button !== 0 ||
          event.metaKey ||
          event.ctrlKey ||
          event.shiftKey ||
          event.altKey
        )
          return;
        event.preventDefault();
        go(href);
      }}
    />
  );
}

export function usePathname(): string {
  return useRouterState({ select: (state) => state.location.pathname });
}

/** The members of the query string, all texts. */
export function useSearch(): Record<string, string> {
  return useRouterState({ select: (state) => state.location.search as Record<string, string> });
}

type Patch<T> = Partial<{ [K in keyof T]: string | null }>;

/**
 * The page's part of the query string, with defaults for what it does not name. Setting a member to its default, to ''
 * or to null removes it. Adds an entry to the history unless `replace` is set, as it should be while a person types.
 */
export function useUrlState<T extends Record<string, string>>(
  defaults: T,
): [state: T, set: (patch: Patch<T>, options?: { replace?: boolean }) => void] {
  const { history } = useRouter();
  const known = useRef(defaults);
  const search = useSearch();
  const state = Object.fromEntries(Object.entries(defaults).map(([name, value]) => [name, search[name] ?? value])) as T;
  const set = useCallback(
    (patch: Patch<T>, options: { replace?: boolean } = {}) => {
      const { pathname, search: text } = history.location;
      const next = new URLSearchParams(text);
      for (const [name, value] of Object.entries(patch)) {
        if (value == null || value === '' || value === known.current[name]) next.delete(name);
        else next.set(name, value as string);
      }
      const query = next.toString();
      const path = pathname + (query === '' ? '' : `?${query}`);
      if (path !== pathname + text) visit(path, options);
    },
    [history],
  );
  return [state, set];
}

/** The query string as it stands in the address. */
export function useRouterSearchText(): string {
  return useRouterState({ select: (state) => state.location.searchStr });
}
