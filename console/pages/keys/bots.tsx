// Bots: agents with permissions of their own, by name and secret. Revoking one is final; a new secret ends the old one.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { BOTS, type Bot, listQuery } from '../../access/credentials.ts';
import { PermissionGrid } from '../../access/permission-grid.tsx';
import { type Permissions, toggled } from '../../access/permissions.ts';
import { useResources } from '../../access/queries.ts';
import { post } from '../../api/call.ts';
import { keyOf, queryClient } from '../../api/queries.ts';
import { useWriteBlock } from '../../app/write-block.ts';
import { Badge } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { Confirm } from '../../parts/confirm.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { TextField } from '../../parts/field.tsx';
import { SecretOnce } from '../../parts/secret-once.tsx';
import { Empty, Skeleton } from '../../parts/states.tsx';
import { Table } from '../../parts/table.tsx';
import { saySuccess } from '../../parts/toast.tsx';
import { counted } from '../../parts/value.ts';
import { LastUse } from './key-list.tsx';
import { NewCredential } from './new-credential.tsx';

type Act = { kind: 'revoke' | 'reset'; bot: Bot };

export function Bots({ tenant }: { tenant: string }) {
  const block = useWriteBlock();
  const { data, error, refetch } = useQuery(listQuery<Bot>(tenant, BOTS));
  const [isMaking, make] = useState(false);
  const [act, setAct] = useState<Act | null>(null);
  const [secret, setSecret] = useState<string | null>(null);
  const after = (): Promise<void> => queryClient.invalidateQueries({ queryKey: keyOf(tenant, 'credentials') });
  return (
    <div className="stack keys">
      <div className="row spread">
        <p className="dim grow">A bot is an agent. It signs in with its name and secret, for an hour at a time.</p>
        <Button kind="primary" icon="plus" data-hotkey="n" disabledReason={block} onClick={() => make(true)}>
          New bot
        </Button>
      </div>
      {error !== null && <ErrorPanel title="Could not load the bots." error={error} onRetry={refetch} />}
      {data === undefined && error === null && <Skeleton lines={4} />}
      {data?.length === 0 && (
        <Empty icon="key-round">No bots yet. Create one for an agent that needs its own permissions.</Empty>
      )}
      {data !== undefined && data.length > 0 && (
        <Table
          caption="Bots"
          rows={data}
          keyOf={({ id }) => id}
          columns={[
            { key: 'name', header: 'name', cell: ({ name }) => name },
            {
              key: 'may',
              header: 'may use',
              isMinor: true,
              cell: ({ permissions }) => counted(Object.keys(permissions.entities).length, 'entity', 'entities'),
            },
            { key: 'state', header: 'state', cell: ({ isActive }) => <State isActive={isActive} /> },
            { key: 'used', header: 'last use', cell: (bot) => <LastUse {...bot} /> },
          ]}
          actions={(bot) =>
            bot.isActive && (
              <>
                <Button
                  aria-label={`New secret for ${bot.name}`}
                  disabledReason={block}
                  onClick={() => setAct({ kind: 'reset', bot })}
                >
                  New secret
                </Button>
                <Button
                  aria-label={`Revoke ${bot.name}`}
                  disabledReason={block}
                  onClick={() => setAct({ kind: 'revoke', bot })}
                >
                  Revoke
                </Button>
              </>
            )
          }
        />
      )}
      {isMaking && <NewBot tenant={tenant} onClose={() => make(false)} />}
      {act?.kind === 'revoke' && (
        <Confirm
          title={`Revoke ${act.bot.name} for good?`}
          onClose={() => setAct(null)}
          onConfirm={async () => {
            await post(`${BOTS}/${act.bot.id}/revoke`, undefined, { tenant });
            await after();
            saySuccess({ title: `${act.bot.name} was revoked.` });
          }}
        >
          It can no longer sign in. A token it already holds works until it expires, within the hour. This cannot be
          undone.
        </Confirm>
      )}
      {act?.kind === 'reset' && (
        <Confirm
          title={`A new secret for ${act.bot.name}?`}
          onClose={() => setAct(null)}
          onConfirm={async () => {
            const answer = await post<{ secret: string }>(`${BOTS}/${act.bot.id}/reset-secret`, undefined, { tenant });
            await after();
            setSecret(answer.secret);
          }}
        >
          The current secret stops working at once. The new one is shown only once.
        </Confirm>
      )}
      {secret !== null && (
        <SecretOnce
          title="New secret"
          noun="secret"
          value={secret}
          variable="TDS_BOT_SECRET"
          onClose={() => setSecret(null)}
        />
      )}
    </div>
  );
}

function State({ isActive }: { isActive: boolean }) {
  return <Badge tone={isActive ? 'ok' : 'bad'}>{isActive ? 'active' : 'revoked'}</Badge>;
}

const NOTHING: Permissions = {};

function NewBot({ tenant, onClose }: { tenant: string; onClose: () => void }) {
  const [name, setName] = useState('');
  const [entities, setEntities] = useState<Permissions>(NOTHING);
  const resources = useResources(tenant, NOTHING, false);
  return (
    <NewCredential
      tenant={tenant}
      title="New bot"
      label="Create bot"
      noun="secret"
      wide
      paths={['name']}
      onClose={onClose}
      make={async () => {
        const body = { name: name.trim(), tenantSlug: tenant, permissions: { entities } };
        return (await post<{ secret: string }>(`${BOTS}/register`, body, { tenant })).secret;
      }}
      fields={(problems) => (
        <>
          <TextField
            label="Name"
            hint="3 to 50 lower-case letters, digits and hyphens, such as order-agent."
            error={problems.name}
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
          <PermissionGrid
            label="What the bot may do"
            resources={resources}
            permissions={entities}
            onToggle={(resource, operation) => setEntities((before) => toggled(before, resource, operation))}
          />
        </>
      )}
    />
  );
}
