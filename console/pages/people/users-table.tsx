// The users of one page, and what an admin can do with each: change, switch off and on, remove.
import { useState } from 'react';
import { del, patch } from '../../api/call.ts';
import { keyOf, queryClient } from '../../api/queries.ts';
import { Badge } from '../../parts/badge.tsx';
import { Confirm } from '../../parts/confirm.tsx';
import { sentenceOf } from '../../parts/error-panel.tsx';
import { MenuButton } from '../../parts/menu-button.tsx';
import { Table } from '../../parts/table.tsx';
import { sayError, saySuccess } from '../../parts/toast.tsx';
import { ago, exactTime } from '../../parts/value.ts';
import { ChangeUser } from './change-user.tsx';
import type { User } from './queries.ts';

interface Props {
  tenant: string;
  users: readonly User[];
  block: string | null;
}

type Act = { kind: 'change' | 'deactivate' | 'remove'; user: User };

export function UsersTable({ tenant, users, block }: Props) {
  const [act, setAct] = useState<Act | null>(null);
  const close = (): void => setAct(null);
  const activate = (user: User): void => {
    void setActive(tenant, user, true).catch((cause: unknown) => sayError({ title: sentenceOf(cause) }));
  };
  const choices = (user: User) => {
    const isDisabled = block !== null;
    return [
      {
        key: 'change',
        label: 'Change',
        icon: 'pencil' as const,
        isDisabled,
        onSelect: () => setAct({ kind: 'change', user }),
      },
      user.isActive
        ? { key: 'off', label: 'Deactivate', isDisabled, onSelect: () => setAct({ kind: 'deactivate', user }) }
        : { key: 'on', label: 'Activate', isDisabled, onSelect: () => activate(user) },
      {
        key: 'remove',
        label: 'Remove',
        icon: 'trash-2' as const,
        isDisabled,
        onSelect: () => setAct({ kind: 'remove', user }),
      },
    ];
  };
  return (
    <>
      <Table
        caption="People"
        rows={users}
        keyOf={({ id }) => id}
        columns={[
          {
            key: 'email',
            header: 'person',
            cell: ({ name, email }) => (
              <span className="people-person">
                <span>{name}</span>
                <span className="caption">{email}</span>
              </span>
            ),
          },
          { key: 'role', header: 'role', cell: ({ role }) => role },
          {
            key: 'state',
            header: 'state',
            cell: ({ isActive }) => <Badge tone={isActive ? 'ok' : 'neutral'}>{isActive ? 'active' : 'off'}</Badge>,
          },
          {
            key: 'since',
            header: 'since',
            isMinor: true,
            cell: ({ createdAt }) => <span title={exactTime(createdAt)}>{ago(createdAt)}</span>,
          },
        ]}
        actions={(user) => (
          <MenuButton label={`Actions for ${user.name}`} icon="ellipsis-vertical" choices={choices(user)} />
        )}
      />
      {act?.kind === 'change' && <ChangeUser tenant={tenant} user={act.user} onClose={close} />}
      {act?.kind === 'deactivate' && (
        <Confirm
          title={`Deactivate ${act.user.name}?`}
          onClose={close}
          onConfirm={() => setActive(tenant, act.user, false)}
        >
          {act.user.email} is signed out everywhere within a second and cannot sign in until activated again. Their
          records stay.
        </Confirm>
      )}
      {act?.kind === 'remove' && (
        <Confirm
          title={`Remove ${act.user.name}?`}
          typed={act.user.email}
          onClose={close}
          onConfirm={() => remove(tenant, act.user)}
        >
          The account of {act.user.email} is deleted for good, and its sessions end within a second. Records stay, but
          show an id where they named this person. To keep the account, deactivate it instead.
        </Confirm>
      )}
    </>
  );
}

const read = (tenant: string): Promise<void> => queryClient.invalidateQueries({ queryKey: keyOf(tenant, 'users') });

async function setActive(tenant: string, { id, name }: User, isActive: boolean): Promise<void> {
  await patch(`/api/users/${id}`, { isActive }, { tenant });
  await read(tenant);
  saySuccess({ title: isActive ? `${name} can sign in again.` : `${name} was deactivated.` });
}

async function remove(tenant: string, { id, name }: User): Promise<void> {
  await del(`/api/users/${id}`, { tenant });
  await read(tenant);
  saySuccess({ title: `${name} was removed.` });
}
