// What a subscription sends where and for whom. Only what was changed is sent to the service.
import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { put } from '../../api/call.ts';
import { entitiesQuery, keyOf, queryClient } from '../../api/queries.ts';
import { SUBSCRIPTIONS, type Subscription } from '../../api/webhooks.ts';
import { Button } from '../../parts/button.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { TextField } from '../../parts/field.tsx';
import { useSubmit } from '../../parts/submit.ts';
import { saySuccess } from '../../parts/toast.tsx';
import { AudienceFields, audienceOf, membersOf } from '../../webhooks/audience.tsx';
import { EventTypes } from '../../webhooks/event-types.tsx';

interface Props {
  tenant: string;
  subscription: Subscription;
  block: string | null;
}

export function Settings({ tenant, subscription, block }: Props) {
  const { data: entities } = useQuery(entitiesQuery(tenant));
  const [url, setUrl] = useState(subscription.url);
  const [description, setDescription] = useState(subscription.description ?? '');
  const [types, setTypes] = useState<readonly string[]>(subscription.event_types);
  const [audience, setAudience] = useState(() => audienceOf(subscription));
  const { busy, failure, problems, submit } = useSubmit();
  const before = valuesOf(subscription);
  const now = { url: url.trim(), description: description.trim() || null, event_types: types, ...membersOf(audience) };
  const changed = Object.entries(now).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name]));
  const save = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    const change = (): Promise<unknown> =>
      put(`${SUBSCRIPTIONS}/${subscription.id}`, Object.fromEntries(changed), { tenant });
    if (!(await submit(change))) return;
    const isMoved = changed.some(([name]) => name === 'url');
    saySuccess(
      isMoved
        ? { title: 'The address was saved.', description: 'Waiting deliveries go there too.' }
        : { title: 'The subscription was saved.' },
    );
    await queryClient.invalidateQueries({ queryKey: keyOf(tenant, 'subscriptions') });
  };
  return (
    <form className="stack" noValidate onSubmit={save}>
      <TextField
        label="Address"
        type="url"
        value={url}
        error={problems.url}
        onChange={({ target }) => setUrl(target.value)}
      />
      <TextField
        label="Description"
        optional
        value={description}
        error={problems.description}
        onChange={({ target }) => setDescription(target.value)}
      />
      <EventTypes types={types} error={problems.event_types} onChange={setTypes} />
      <AudienceFields
        entity={entities?.find(({ name }) => name === subscription.entity_name)}
        value={audience}
        problems={problems}
        onChange={setAudience}
      />
      {failure !== null && Object.keys(problems).length === 0 && (
        <ErrorPanel title="Nothing was saved." error={failure} />
      )}
      <div>
        <Button
          type="submit"
          busy={busy}
          disabledReason={block ?? (changed.length === 0 ? 'Nothing was changed' : null)}
        >
          Save
        </Button>
      </div>
    </form>
  );
}

function valuesOf(subscription: Subscription): Record<string, unknown> {
  const { url, description, event_types } = subscription;
  return { url, description, event_types, ...membersOf(audienceOf(subscription)) };
}
