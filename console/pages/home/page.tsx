// Home: what needs attention, the entities with their counts, what happened last, and the first steps of a new tenant.
import { useQuery } from '@tanstack/react-query';
import { entitiesQuery } from '../../api/queries.ts';
import { NoEntities } from '../../app/no-entities.tsx';
import { usePageTitle } from '../../app/page-title.ts';
import { useParams } from '../../app/params.ts';
import { useRights } from '../../app/rights.ts';
import { Link } from '../../app/router.tsx';
import { Count } from '../../parts/badge.tsx';
import { CopyAsCurl } from '../../parts/copy-as-curl.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { Skeleton } from '../../parts/states.tsx';
import { useEntityCounts } from './counts.ts';
import { FirstSteps } from './first-steps.tsx';
import { Latest } from './latest.tsx';
import { Warnings } from './warnings.tsx';

const MOST_SHOWN = 12;

export default function Home() {
  usePageTitle('Home');
  const { tenant } = useParams();
  const rights = useRights(tenant);
  const { data, error, refetch } = useQuery(entitiesQuery(tenant));
  const readable = (data ?? []).filter(({ name }) => rights.may('read', name));
  const counts = useEntityCounts(
    tenant,
    rights.isAdmin,
    readable.slice(0, MOST_SHOWN).map(({ name }) => name),
  );
  const isEmpty = data !== undefined && data.length === 0;
  return (
    <div className="page">
      <div className="page-head">
        <h1>{rights.me?.tenant?.name ?? tenant}</h1>
        <div className="row">
          <CopyAsCurl of={({ path }) => path === '/api/entities'} />
          {rights.isAdmin && (
            <Link
              className={`button ${isEmpty ? 'plain' : 'primary'}`}
              href={`/app/t/${tenant}/schema?new=1`}
              data-hotkey="n"
            >
              New entity
            </Link>
          )}
        </div>
      </div>
      {rights.isAdmin && <Warnings tenant={tenant} />}
      {rights.isAdmin && data !== undefined && <FirstSteps tenant={tenant} entities={data} counts={counts} />}
      {error !== null && <ErrorPanel title="Could not load the entities." error={error} onRetry={refetch} />}
      <div className="home">
        <section className="panel" aria-labelledby="home-entities">
          <header>
            <h2 id="home-entities">Entities</h2>
            {readable.length > MOST_SHOWN && <Link href={`/app/t/${tenant}/records`}>All {readable.length}</Link>}
          </header>
          {data === undefined && error === null && (
            <div className="pad">
              <Skeleton />
            </div>
          )}
          {data !== undefined && readable.length === 0 && <NoEntities tenant={tenant} rights={rights} />}
          <ul className="home-entities">
            {readable.slice(0, MOST_SHOWN).map(({ name, label, fields }) => (
              <li key={name}>
                <Link href={`/app/t/${tenant}/records/${name}`}>
                  <span className="grow">
                    <strong className="ellipsis">{name}</strong>
                    <span className="caption ellipsis">
                      {label && label.toLowerCase() !== name ? label : fields.map(({ key }) => key).join(', ')}
                    </span>
                  </span>
                  <Count value={counts[name]} />
                </Link>
              </li>
            ))}
          </ul>
        </section>
        <Latest tenant={tenant} entities={readable} />
      </div>
    </div>
  );
}
