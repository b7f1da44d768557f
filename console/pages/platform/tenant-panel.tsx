// One tenant beside the list: its state, its domain, its quotas, and its end. Nothing here is undone by closing it.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { del, patch } from '../../api/call.ts';
import { keyOf, queryClient } from '../../api/queries.ts';
import { Link } from '../../app/router.tsx';
import { useWriteBlock } from '../../app/write-block.ts';
import { Badge } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { Confirm } from '../../parts/confirm.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { Peek } from '../../parts/peek.tsx';
import { Skeleton } from '../../parts/states.tsx';
import { useSubmit } from '../../parts/submit.ts';
import { saySuccess } from '../../parts/toast.tsx';
import { counted, time } from '../../parts/value.ts';
import { Quotas } from './quotas.tsx';
import { type OperatedTenant, TENANTS, tenantQuery } from './shapes.ts';

/** Writes a change of the tenant and shows it in the list too. */
export async function changeTenant(slug: string, change: object): Promise<void> {
  const changed = await patch<OperatedTenant>(`${TENANTS}/${slug}`, change);
  queryClient.setQueryData(tenantQuery(slug).queryKey, changed);
  await queryClient.invalidateQueries({ queryKey: keyOf(null, 'tenants') });
}

export function TenantPanel({ slug, onClose }: { slug: string; onClose: () => void }) {
  const { data, error, refetch } = useQuery(tenantQuery(slug));
  return (
    <Peek title={slug} onClose={onClose}>
      {error !== null && <ErrorPanel title={`Could not load ${slug}.`} error={error} onRetry={refetch} />}
      {data === undefined && error === null && <Skeleton />}
      {data !== undefined && <Body tenant={data} onClose={onClose} />}
    </Peek>
  );
}

function Body({ tenant, onClose }: { tenant: OperatedTenant; onClose: () => void }) {
  const [asked, ask] = useState<'suspend' | 'delete' | null>(null);
  const block = useWriteBlock();
  const { slug, name, status, counts, createdAt } = tenant;
  const resume = useSubmit();
  const leave = (): void => ask(null);
  const end = async (): Promise<void> => {
    await del(`${TENANTS}/${slug}`, { query: { confirm: slug } });
    onClose();
    queryClient.removeQueries({ queryKey: tenantQuery(slug).queryKey });
    await queryClient.invalidateQueries({ queryKey: keyOf(null, 'tenants') });
    saySuccess({ title: `${slug} was deleted.` });
  };
  const activate = async (): Promise<void> => {
    if (await resume.submit(() => changeTenant(slug, { status: 'active' })))
      saySuccess({ title: `${slug} is active again.` });
  };
  return (
    <div className="stack">
      <div className="row spread">
        <span className="row">
          <strong>{name}</strong>
          <Badge tone={status === 'active' ? 'ok' : 'warn'}>{status}</Badge>
        </span>
        <Link className="button plain" href={`/app/t/${slug}`}>
          Open {slug}
        </Link>
      </div>
      <p className="caption">
        {counted(counts.entities, 'entity', 'entities')}, {counted(counts.records, 'record')},{' '}
        {counted(counts.users, 'person', 'people')}; created {time(createdAt)}
      </p>
      <Domain tenant={tenant} block={block} />
      <Quotas tenant={tenant} block={block} />
      <section className="stack" aria-labelledby="tenant-end">
        <h3 id="tenant-end">Suspend or delete</h3>
        {resume.failure !== null && <ErrorPanel error={resume.failure} />}
        <div className="row">
          {status === 'active' ? (
            <Button icon="ban" disabledReason={block} onClick={() => ask('suspend')}>
              Suspend
            </Button>
          ) : (
            <Button icon="play" busy={resume.busy} disabledReason={block} onClick={activate}>
              Activate
            </Button>
          )}
          <Button kind="danger" icon="trash-2" disabledReason={block} onClick={() => ask('delete')}>
            Delete
          </Button>
        </div>
      </section>
      {asked === 'suspend' && (
        <Confirm
          title={`Suspend ${slug}?`}
          onConfirm={() => changeTenant(slug, { status: 'suspended' })}
          onClose={leave}
        >
          All calls by its people, keys and bots are refused, and its streams end. Its data stays, and you can activate
          it again. A custom domain must then be verified again.
        </Confirm>
      )}
      {asked === 'delete' && (
        <Confirm title={`Delete ${slug}?`} typed={slug} onConfirm={end} onClose={leave}>
          {counted(counts.records, 'record')} of {counted(counts.entities, 'entity', 'entities')} and{' '}
          {counted(counts.users, 'person', 'people')} are deleted for good, with all keys, webhooks and events. This
          cannot be undone.
        </Confirm>
      )}
    </div>
  );
}

function Domain({ tenant, block }: { tenant: OperatedTenant; block: string | null }) {
  const { slug, settings, customDomainStatus: status } = tenant;
  const domain = settings.customDomain ?? null;
  const { busy, failure, submit } = useSubmit();
  const verify = (customDomainVerified: boolean): void =>
    void submit(() => changeTenant(slug, { settings: { customDomainVerified } }));
  return (
    <section className="stack" aria-labelledby="tenant-domain">
      <h3 id="tenant-domain">Custom domain</h3>
      {domain === null ? (
        <p className="dim">None. The tenant's admins can add one under Settings.</p>
      ) : (
        <>
          <div className="row">
            <code>{domain}</code>
            <Badge tone={status === 'verified' ? 'ok' : 'warn'}>{status}</Badge>
            <Button busy={busy} disabledReason={block} onClick={() => verify(status !== 'verified')}>
              {status === 'verified' ? 'Mark as unverified' : 'Mark as verified'}
            </Button>
          </div>
          <p className="caption">
            {status === 'verified'
              ? 'Requests to this host reach this tenant.'
              : 'Waiting for its TXT record. If you mark it as verified, it works without the record.'}
          </p>
        </>
      )}
      {failure !== null && <ErrorPanel title="Nothing was changed." error={failure} />}
    </section>
  );
}
