// Platform: what operators do across tenants. Each section has a link of its own.
import type { ComponentType } from 'react';
import { usePageTitle } from '../../app/page-title.ts';
import { useParams } from '../../app/params.ts';
import { Link } from '../../app/router.tsx';
import { Empty } from '../../parts/states.tsx';
import { AdminKeys } from './admin-keys.tsx';
import { Health } from './health.tsx';
import { Invitations } from './invitations.tsx';
import { Tenants } from './tenants.tsx';
import { PlatformUsage } from './usage.tsx';

const SECTIONS: readonly { key: string; name: string; Section: ComponentType }[] = [
  { key: '', name: 'Tenants', Section: Tenants },
  { key: 'keys', name: 'Admin keys', Section: AdminKeys },
  { key: 'invitations', name: 'Invitations', Section: Invitations },
  { key: 'health', name: 'Schema health', Section: Health },
  { key: 'usage', name: 'Usage', Section: PlatformUsage },
];

export default function Platform() {
  const { section } = useParams();
  const wanted = section === 'tenants' ? '' : section;
  const shown = SECTIONS.find(({ key }) => key === wanted);
  usePageTitle(shown === undefined || shown.key === '' ? 'Platform' : `Platform: ${shown.name}`);
  return (
    <div className="page">
      <nav className="platform-nav" aria-label="Platform">
        {SECTIONS.map(({ key, name }) => (
          <Link
            key={key}
            href={`/app/platform${key === '' ? '' : `/${key}`}`}
            aria-current={key === wanted ? 'page' : undefined}
          >
            {name}
          </Link>
        ))}
      </nav>
      {shown === undefined ? (
        <Empty icon="circle-help">The platform has no section {section}.</Empty>
      ) : (
        <shown.Section />
      )}
    </div>
  );
}
