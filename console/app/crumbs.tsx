// The breadcrumbs: tenant, page, and what the page shows. A step keeps the query string that its list had when it was
// left, so that going back leads to the same rows.
import { useEffect } from 'react';
import { pageAt, pathTo } from './pages.ts';
import { Link, usePathname, useRouterSearchText } from './router.tsx';

/** The last query string of each path of this tab. */
const left = new Map<string, string>();

interface Crumb {
  label: string;
  path: string;
}

export function Crumbs() {
  const pathname = usePathname();
  const search = useRouterSearchText();
  useEffect(() => {
    left.set(pathname, search);
  }, [pathname, search]);
  const crumbs = crumbsOf(pathname);
  return (
    <nav className="crumbs" aria-label="Breadcrumbs">
      <ol>
        {crumbs.map(({ label, path }, at) => (
          <li key={path}>
            {at === crumbs.length - 1 ? (
              <span aria-current="page">{label}</span>
            ) : (
              <Link href={path + (left.get(path) ?? '')}>{label}</Link>
            )}
          </li>
        ))}
      </ol>
    </nav>
  );
}

function crumbsOf(pathname: string): Crumb[] {
  const found = pageAt(pathname);
  if (found === undefined) return [{ label: 'Not found', path: pathname }];
  const segments = found.page.path.split('/').slice(1);
  const crumbs: Crumb[] = [];
  for (let count = 2; count <= segments.length; count += 1) {
    const path = pathTo(`/${segments.slice(0, count).join('/')}`, found.params);
    const last = segments[count - 1] as string;
    if (last === 't') continue;
    const name = last.startsWith('$') ? labelOf(last.slice(1), found.params) : pageAt(path)?.page.name;
    if (name !== undefined) crumbs.push({ label: name, path });
  }
  if (crumbs.length === 1 && found.params.tenant) crumbs.push({ label: 'Home', path: `${pathname}#home` });
  return crumbs;
}

function labelOf(name: string, params: Record<string, string>): string {
  const value = params[name] ?? '';
  return name === 'id' || name === 'subscription' ? value.slice(0, 8) : value;
}
