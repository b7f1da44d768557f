// The four first steps of a new tenant, each ticked when the API shows that it was done. Gone when all are, or when the
// person sends them away.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { Entity } from '../../api/answers.ts';
import { get } from '../../api/call.ts';
import { keyOf } from '../../api/queries.ts';
import { SUBSCRIPTIONS } from '../../api/webhooks.ts';
import { Link } from '../../app/router.tsx';
import { Button } from '../../parts/button.tsx';
import { Icon } from '../../parts/icon.tsx';

interface Props {
  tenant: string;
  entities: readonly Entity[];
  counts: Record<string, number | null>;
}

const keyOfTenant = (tenant: string): string => `svc.steps.${tenant}`;

export function FirstSteps({ tenant, entities, counts }: Props) {
  const [isGone, leave] = useState(() => localStorage.getItem(keyOfTenant(tenant)) === 'gone');
  const people = useCount(tenant, '/api/users', isGone);
  const invited = useCount(tenant, '/api/invitations', isGone);
  const keys = useCount(tenant, '/api/keys', isGone);
  const webhooks = useCount(tenant, SUBSCRIPTIONS, isGone);
  const first = (entities.find(({ name }) => counts[name] === 0) ?? entities[0])?.name;
  const base = `/app/t/${tenant}`;
  const steps = [
    {
      name: 'Create an entity',
      text: 'a kind of record, like companies',
      href: `${base}/schema?new=1`,
      isDone: entities.length > 0,
    },
    {
      name: 'Add records',
      text: 'type them in, or import a file',
      href: first === undefined ? undefined : `${base}/records/${first}`,
      isDone: Object.values(counts).some((count) => (count ?? 0) > 0),
    },
    { name: 'Invite people', text: 'with the right role', href: `${base}/people`, isDone: people + invited > 0 },
    {
      name: 'Connect a program',
      text: 'with a key of its own, or a webhook',
      href: `${base}/keys`,
      isDone: keys > 1 || webhooks > 0,
    },
  ];
  if (isGone || steps.every(({ isDone }) => isDone)) return null;
  const next = steps.find(({ isDone }) => !isDone);
  return (
    <section className="panel" aria-labelledby="first-steps">
      <header>
        <h2 id="first-steps">Four steps</h2>
        <Button
          kind="quiet"
          icon="x"
          aria-label="Hide the steps"
          onClick={() => {
            localStorage.setItem(keyOfTenant(tenant), 'gone');
            leave(true);
          }}
        />
      </header>
      <ol className="steps">
        {steps.map((step, at) => (
          <li key={step.name} className={step.isDone ? 'done' : ''}>
            <span className="step-mark" aria-hidden="true">
              {step.isDone ? <Icon name="check" /> : at + 1}
            </span>
            <span className="grow">
              {step.href === undefined || step.isDone ? (
                <strong>{step.name}</strong>
              ) : (
                <Link href={step.href}>{step.name}</Link>
              )}
              <span className="caption">{step.isDone ? 'done' : step.text}</span>
            </span>
            {step === next && step.href !== undefined && (
              <Link
                className={`button ${at === 0 ? 'primary' : 'plain'}`}
                href={step.href}
                aria-label={`${at === 0 ? 'New entity' : 'Start'}: ${step.name}`}
              >
                {at === 0 ? 'New entity' : 'Start'}
              </Link>
            )}
          </li>
        ))}
      </ol>
    </section>
  );
}

function useCount(tenant: string, path: string, isGone: boolean): number {
  const { data } = useQuery({
    queryKey: keyOf(tenant, 'first-steps', path),
    queryFn: ({ signal }) => get<unknown[] | { items: unknown[]; total?: number }>(path, { tenant, signal }),
    enabled: !isGone,
    retry: false,
  });
  return Array.isArray(data) ? data.length : (data?.total ?? data?.items.length ?? 0);
}
