// "New subscription": what is sent where, and for whom. The console makes the secret, which the API never shows again, and
// shows it once with the code of a receiver that verifies it.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { post } from '../../api/call.ts';
import { entitiesQuery, keyOf, queryClient } from '../../api/queries.ts';
import { ALL_ENTITIES, EVENT_TYPES, newSecret, SUBSCRIPTIONS, type Subscription } from '../../api/webhooks.ts';
import { useParams } from '../../app/params.ts';
import { go } from '../../app/router.tsx';
import { Combobox } from '../../parts/combobox.tsx';
import { TextField } from '../../parts/field.tsx';
import { FormDialog } from '../../parts/form-dialog.tsx';
import { ReceiverCode } from '../../parts/receiver-code.tsx';
import { SecretOnce } from '../../parts/secret-once.tsx';
import { AudienceFields, EVERYTHING, membersOf } from '../../webhooks/audience.tsx';
import { EventTypes } from '../../webhooks/event-types.tsx';

const EVERY_ENTITY = { value: ALL_ENTITIES, label: 'all entities', detail: 'also later ones' };

export function NewSubscription({ onClose }: { onClose: () => void }) {
  const { tenant } = useParams();
  const { data: entities = [] } = useQuery(entitiesQuery(tenant));
  const [chosen, choose] = useState<string[]>([]);
  const [url, setUrl] = useState('');
  const [types, setTypes] = useState<readonly string[]>(EVENT_TYPES);
  const [audience, setAudience] = useState(EVERYTHING);
  const [made, setMade] = useState<{ id: string; secret: string } | null>(null);
  const entity = entities.find(({ name }) => name === chosen[0]);
  const save = async (): Promise<void> => {
    const secret = newSecret();
    const narrowed = Object.entries(membersOf(audience)).filter(([, value]) => value !== null);
    const body = { entity_name: chosen[0] ?? '', event_types: types, url: url.trim(), secret };
    const { id } = await post<Subscription>(SUBSCRIPTIONS, { ...body, ...Object.fromEntries(narrowed) }, { tenant });
    setMade({ id, secret });
    await queryClient.invalidateQueries({ queryKey: keyOf(tenant, 'subscriptions') });
  };
  if (made !== null) {
    const leave = (): void => {
      onClose();
      go(`/app/t/${tenant}/webhooks/${made.id}`);
    };
    return (
      <SecretOnce
        title="The subscription is ready"
        noun="secret"
        value={made.secret}
        variable="WEBHOOK_SECRET"
        onClose={leave}
      >
        <p className="dim">It signs every request. Receivers verify it like this:</p>
        <ReceiverCode />
      </SecretOnce>
    );
  }
  const options = entities.map(({ name, label }) => ({
    value: name,
    label: name,
    ...(label ? { detail: label } : {}),
  }));
  return (
    <FormDialog
      title="New subscription"
      action="Create"
      refusal="No subscription was created."
      paths={['entity_name', 'url', 'event_types', 'role', 'filters', 'fields', 'fields.']}
      save={save}
      onClose={onClose}
    >
      {(problems) => (
        <>
          <Combobox
            label="Entity"
            options={[...options, EVERY_ENTITY]}
            value={chosen}
            error={problems.entity_name}
            onChange={(value) => {
              choose(value);
              // They are of the entity before.
              setAudience({ ...audience, filters: '', fields: [] });
            }}
          />
          <TextField
            label="Address"
            type="url"
            placeholder="https://receiver.example/hooks"
            value={url}
            error={problems.url}
            onChange={({ target }) => setUrl(target.value)}
          />
          <EventTypes types={types} error={problems.event_types} onChange={setTypes} />
          <details className="webhooks-for-others">
            <summary>For somebody else: role, filter, fields</summary>
            <div className="stack">
              <AudienceFields entity={entity} value={audience} problems={problems} onChange={setAudience} />
            </div>
          </details>
        </>
      )}
    </FormDialog>
  );
}
