// Related: the records that refer to this one, and those that it refers to, each with its title.
import type { Entity, Row } from '../../api/answers.ts';
import { useParams } from '../../app/params.ts';
import { Link } from '../../app/router.tsx';
import { useTitles } from '../../grid/titles.ts';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { Skeleton } from '../../parts/states.tsx';
import { counted, titleOf } from '../../parts/value.ts';
import { type Reference, useReferences } from './references.ts';

export function Related({ entity, row }: { entity: Entity; row: Row }) {
  const { tenant } = useParams();
  const references = useReferences(tenant, entity.name, row.id);
  const out = entity.fields.filter(({ entity: target, key }) => target && idsOf(row[key]).length > 0);
  const shown = references.filter(({ page }) => page === undefined || (page.total ?? page.items.length) > 0);
  const isLoading = references.some(({ page, error }) => page === undefined && error === null);
  return (
    <div className="record-related">
      <section aria-labelledby="refers-here">
        <h2 id="refers-here">Refer to this record</h2>
        {shown.length === 0 && !isLoading && <p className="dim">Nothing refers to {titleOf(row, entity.fields)}.</p>}
        {shown.map((reference) => (
          <Inward key={`${reference.entity.name} ${reference.field.key}`} reference={reference} />
        ))}
      </section>
      <section aria-labelledby="refers-there">
        <h2 id="refers-there">This record refers to</h2>
        {out.length === 0 && <p className="dim">It refers to no other record.</p>}
        {out.map((field) => (
          <div className="panel" key={field.key}>
            <header>
              <h3>{field.label ?? field.key}</h3>
              <span className="caption">{field.entity}</span>
            </header>
            <Outward entity={field.entity as string} ids={idsOf(row[field.key])} />
          </div>
        ))}
      </section>
    </div>
  );
}

function Inward({ reference: { entity, field, filters, page, error } }: { reference: Reference }) {
  const { tenant } = useParams();
  const all = `/app/t/${tenant}/records/${entity.name}?${new URLSearchParams({ filters })}`;
  return (
    <div className="panel">
      <header>
        <h3>
          {entity.name} <span className="dim">by {field.label ?? field.key}</span>
        </h3>
        <Link href={all}>{page?.total == null ? 'Show' : counted(page.total, 'record')}</Link>
      </header>
      {error !== null && <ErrorPanel title={`Could not load ${entity.name}.`} error={error} />}
      {page === undefined && error === null && (
        <div className="pad">
          <Skeleton lines={2} />
        </div>
      )}
      <ul className="record-links">
        {page?.items.map((row) => (
          <li key={row.id}>
            <Link className="ellipsis" href={`/app/t/${tenant}/records/${entity.name}/${row.id}`}>
              {titleOf(row, entity.fields)}
            </Link>
          </li>
        ))}
      </ul>
    </div>
  );
}

function Outward({ entity, ids }: { entity: string; ids: readonly string[] }) {
  const { tenant } = useParams();
  const titles = useTitles(tenant, entity, ids);
  return (
    <ul className="record-links">
      {ids.map((id, at) => (
        <li key={id}>
          <Link className="ellipsis" href={`/app/t/${tenant}/records/${entity}/${id}`}>
            {titles[at]}
          </Link>
        </li>
      ))}
    </ul>
  );
}

function idsOf(value: unknown): string[] {
  if (Array.isArray(value)) return value.map(String);
  return typeof value === 'string' ? [value] : [];
}
