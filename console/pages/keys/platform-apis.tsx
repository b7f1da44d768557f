// Platform APIs: each says what its roles may do; its keys have one of these roles.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { APIS, keysOfApi, listQuery, type PlatformApi, type PlatformKey } from '../../access/credentials.ts';
import { del, post } from '../../api/call.ts';
import { queryClient } from '../../api/queries.ts';
import { useWriteBlock } from '../../app/write-block.ts';
import { Button } from '../../parts/button.tsx';
import { Confirm } from '../../parts/confirm.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { Select, TextField } from '../../parts/field.tsx';
import { Empty, Skeleton } from '../../parts/states.tsx';
import { saySuccess } from '../../parts/toast.tsx';
import { KeyList } from './key-list.tsx';
import { NewCredential } from './new-credential.tsx';
import { NewPlatformApi } from './new-platform-api.tsx';
import { ExpiryField } from './owner-keys.tsx';

export function PlatformApis({ tenant }: { tenant: string }) {
  const block = useWriteBlock();
  const { data, error, refetch } = useQuery(listQuery<PlatformApi>(tenant, APIS));
  const [isMaking, make] = useState(false);
  const [chosen, choose] = useState('');
  const api = data?.find(({ id }) => id === chosen) ?? data?.[0];
  return (
    <div className="stack">
      {error !== null && <ErrorPanel title="Could not load the APIs." error={error} onRetry={refetch} />}
      {data === undefined && error === null && <Skeleton lines={4} />}
      {data?.length === 0 && (
        <Empty
          icon="key-round"
          action={
            <Button kind="primary" icon="plus" disabledReason={block} onClick={() => make(true)}>
              New API
            </Button>
          }
        >
          No platform keys yet. Create an API first: it says what its keys may do.
        </Empty>
      )}
      {data !== undefined && api !== undefined && (
        <>
          <div className="row keys-api">
            <Select label="API" value={api.id} onChange={(event) => choose(event.target.value)}>
              {data.map(({ id, name }) => (
                <option key={id} value={id}>
                  {name}
                </option>
              ))}
            </Select>
            <Button disabledReason={block} onClick={() => make(true)}>
              New API
            </Button>
            <DeleteApi tenant={tenant} api={api} block={block} />
          </div>
          <KeyList<PlatformKey>
            key={api.id}
            tenant={tenant}
            path={keysOfApi(api.id)}
            caption={`Keys of ${api.name}`}
            about={`Roles of ${api.name}: ${api.roles.join(', ')}.`}
            empty={`${api.name} has no keys yet. Each key has one of its roles.`}
            more={[{ key: 'role', header: 'role', cell: ({ role }) => role }]}
            form={(onClose) => <NewPlatformKey tenant={tenant} api={api} onClose={onClose} />}
          />
        </>
      )}
      {isMaking && <NewPlatformApi tenant={tenant} onClose={() => make(false)} />}
    </div>
  );
}

function DeleteApi({ tenant, api, block }: { tenant: string; api: PlatformApi; block: string | null }) {
  const [isAsking, ask] = useState(false);
  return (
    <>
      <Button icon="trash-2" disabledReason={block} onClick={() => ask(true)}>
        Delete API
      </Button>
      {isAsking && (
        <Confirm
          title={`Delete the API ${api.name}?`}
          typed={api.slug}
          onClose={() => ask(false)}
          onConfirm={async () => {
            await del(`${APIS}/${api.id}`, { tenant });
            await queryClient.invalidateQueries({ queryKey: listQuery(tenant, APIS).queryKey, exact: true });
            saySuccess({ title: `The API ${api.name} and its keys were deleted.` });
          }}
        >
          Its keys are deleted too, and programs that use them are refused within a second. This cannot be undone.
        </Confirm>
      )}
    </>
  );
}

function NewPlatformKey({ tenant, api, onClose }: { tenant: string; api: PlatformApi; onClose: () => void }) {
  const [role, setRole] = useState(api.roles[0] ?? '');
  const [label, setLabel] = useState('');
  const [days, setDays] = useState('90');
  return (
    <NewCredential
      tenant={tenant}
      title="New key"
      paths={['role', 'label', 'ttlDays']}
      onClose={onClose}
      make={async () => {
        const named = label.trim() === '' ? {} : { label: label.trim() };
        const ttl = days === '' ? {} : { ttlDays: Number(days) };
        return (await post<{ key: string }>(keysOfApi(api.id), { role, ...named, ...ttl }, { tenant })).key;
      }}
      fields={(problems) => (
        <>
          <TextField
            label="Label"
            optional
            error={problems.label}
            value={label}
            onChange={(event) => setLabel(event.target.value)}
          />
          <Select label="Role" error={problems.role} value={role} onChange={(event) => setRole(event.target.value)}>
            {api.roles.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </Select>
          <ExpiryField value={days} error={problems.ttlDays} onChange={setDays} />
        </>
      )}
    />
  );
}
