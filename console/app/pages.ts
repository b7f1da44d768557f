// Every page of the console: its path, its name, and the module that shows it, loaded when it is opened. A page is a
// folder of pages/ whose page.tsx has the component as its default export. The rail, the palette and the breadcrumbs
// read this table too.
import type { ComponentType } from 'react';
import type { IconName } from '../parts/icon.tsx';

export interface PageEntry {
  /** With `$name` for a parameter. */
  path: string;
  /** The name of its link and its breadcrumb. */
  name: string;
  load: () => Promise<{ default: ComponentType }>;
  /** Shown in the rail. */
  rail?: { icon: IconName; group: number; hotkey?: string };
  /** Who may open it; everyone who is signed in by default. The service decides anyway. */
  needs?: 'admin' | 'operator';
}

const T = '/app/t/$tenant';

export const PAGES: readonly PageEntry[] = [
  {
    path: T,
    name: 'Home',
    load: () => import('../pages/home/page.tsx'),
    rail: { icon: 'house', group: 1, hotkey: 'h' },
  },
  {
    path: `${T}/records`,
    name: 'Records',
    load: () => import('../pages/entities/page.tsx'),
    rail: { icon: 'table-2', group: 1, hotkey: 'r' },
  },
  { path: `${T}/records/$entity`, name: 'Records', load: () => import('../pages/records/page.tsx') },
  { path: `${T}/records/$entity/deleted`, name: 'Deleted', load: () => import('../pages/deleted/page.tsx') },
  { path: `${T}/records/$entity/$id`, name: 'Record', load: () => import('../pages/record/page.tsx') },
  {
    path: `${T}/schema`,
    name: 'Schema',
    load: () => import('../pages/schema/page.tsx'),
    rail: { icon: 'database', group: 1, hotkey: 's' },
    needs: 'admin',
  },
  {
    path: `${T}/schema/$entity`,
    name: 'Schema',
    load: () => import('../pages/schema-entity/page.tsx'),
    needs: 'admin',
  },
  {
    path: `${T}/views`,
    name: 'Views',
    load: () => import('../pages/views/page.tsx'),
    rail: { icon: 'list-filter', group: 1 },
  },
  {
    path: `${T}/rules`,
    name: 'Rules',
    load: () => import('../pages/rules/page.tsx'),
    rail: { icon: 'workflow', group: 1 },
    needs: 'admin',
  },
  {
    path: `${T}/roles`,
    name: 'Roles',
    load: () => import('../pages/roles/page.tsx'),
    rail: { icon: 'shield-check', group: 2 },
    needs: 'admin',
  },
  { path: `${T}/roles/$role`, name: 'Roles', load: () => import('../pages/role/page.tsx'), needs: 'admin' },
  {
    path: `${T}/people`,
    name: 'People',
    load: () => import('../pages/people/page.tsx'),
    rail: { icon: 'users', group: 2 },
    needs: 'admin',
  },
  {
    path: `${T}/keys`,
    name: 'Keys',
    load: () => import('../pages/keys/page.tsx'),
    rail: { icon: 'key-round', group: 2 },
    needs: 'admin',
  },
  {
    path: `${T}/webhooks`,
    name: 'Webhooks',
    load: () => import('../pages/webhooks/page.tsx'),
    rail: { icon: 'webhook', group: 3, hotkey: 'w' },
    needs: 'admin',
  },
  {
    path: `${T}/webhooks/$subscription`,
    name: 'Webhooks',
    load: () => import('../pages/webhook/page.tsx'),
    needs: 'admin',
  },
  {
    path: `${T}/live`,
    name: 'Live',
    load: () => import('../pages/live/page.tsx'),
    rail: { icon: 'radio', group: 3, hotkey: 'l' },
  },
  {
    path: `${T}/usage`,
    name: 'Usage',
    load: () => import('../pages/usage/page.tsx'),
    rail: { icon: 'chart-column', group: 4 },
    needs: 'admin',
  },
  {
    path: `${T}/settings`,
    name: 'Settings',
    load: () => import('../pages/settings/page.tsx'),
    rail: { icon: 'settings', group: 4 },
    needs: 'admin',
  },
  { path: `${T}/account`, name: 'Account', load: () => import('../pages/account/page.tsx') },
  {
    path: '/app/platform',
    name: 'Platform',
    load: () => import('../pages/platform/page.tsx'),
    rail: { icon: 'server', group: 5 },
    needs: 'operator',
  },
  {
    path: '/app/platform/$section',
    name: 'Platform',
    load: () => import('../pages/platform/page.tsx'),
    needs: 'operator',
  },
];

const PATTERNS = PAGES.map((page) => {
  const names: string[] = [];
  const pattern = page.path.replace(/\$(\w+)/g, (_, name: string) => {
    names.push(name);
    return '([^/]+)';
  });
  return { page, names, pattern: new RegExp(`^${pattern}/?$`) };
});

/** The page of a path: its entry and the parameters. */
export function pageAt(pathname: string): { page: PageEntry; params: Record<string, string> } | undefined {
  for (const { page, names, pattern } of PATTERNS) {
    const match = pattern.exec(pathname);
    if (match === null) continue;
    return {
      page,
      params: Object.fromEntries(names.map((name, at) => [name, decodeURIComponent(match[at + 1] as string)])),
    };
  }
  return undefined;
}

/** A path with its parameters filled in. */
export function pathTo(path: string, params: Record<string, string>): string {
  return path.replace(/\$(\w+)/g, (_, name: string) => encodeURIComponent(params[name] ?? ''));
}
