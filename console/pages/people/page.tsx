// People: the users of the tenant, by page and search, and the invitations that wait. Search and page stand in the link.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { usePageTitle } from '../../app/page-title.ts';
import { useParams } from '../../app/params.ts';
import { useUrlState } from '../../app/router.tsx';
import { useWriteBlock } from '../../app/write-block.ts';
import { Button } from '../../parts/button.tsx';
import { CopyAsCurl } from '../../parts/copy-as-curl.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { Empty, Skeleton } from '../../parts/states.tsx';
import { counted } from '../../parts/value.ts';
import { Invitations } from './invitations.tsx';
import { Invite } from './invite.tsx';
import { invitationsQuery, PAGE_SIZE, usersQuery } from './queries.ts';
import { UsersTable } from './users-table.tsx';

export default function People() {
  usePageTitle('People');
  const { tenant } = useParams();
  const block = useWriteBlock();
  const [{ search, page: shown }, setUrl] = useUrlState({ search: '', page: '1' });
  const [isInviting, invite] = useState(false);
  const page = Math.max(1, Number.parseInt(shown, 10) || 1);
  const { data, error, refetch } = useQuery(usersQuery(tenant, page, search));
  const { data: invitations = [] } = useQuery(invitationsQuery(tenant));
  const pages = Math.max(1, Math.ceil((data?.total ?? 0) / PAGE_SIZE));
  return (
    <div className="page">
      <div className="page-head">
        <h1>People</h1>
        <div className="row">
          <CopyAsCurl of={({ path }) => path.startsWith('/api/users')} />
          <Button kind="primary" icon="plus" data-hotkey="n" disabledReason={block} onClick={() => invite(true)}>
            Invite
          </Button>
        </div>
      </div>
      {invitations.length > 0 && <Invitations tenant={tenant} invitations={invitations} />}
      <div className="row spread">
        <input
          className="input narrow"
          type="search"
          aria-label="Search"
          placeholder="Search by name or e-mail"
          value={search}
          maxLength={254}
          data-hotkey="/"
          onChange={(event) => setUrl({ search: event.target.value, page: null }, { replace: true })}
        />
        <span role="status" className="caption num">
          {data !== undefined && sentenceOf(data.total ?? 0, search)}
        </span>
      </div>
      {error !== null && <ErrorPanel title="Could not load the people." error={error} onRetry={refetch} />}
      {data === undefined && error === null && <Skeleton />}
      {data?.items.length === 0 && (
        <Empty
          icon="users"
          action={search !== '' && <Button onClick={() => setUrl({ search: null, page: null })}>Clear search</Button>}
        >
          {search === '' ? 'No people yet. Programs use keys instead.' : `No person matches “${search}”.`}
        </Empty>
      )}
      {data !== undefined && data.items.length > 0 && <UsersTable tenant={tenant} users={data.items} block={block} />}
      {pages > 1 && (
        <nav className="row spread" aria-label="Pages">
          <Button
            icon="chevron-left"
            disabledReason={page <= 1 ? 'This is the first page.' : null}
            onClick={() => setUrl({ page: String(page - 1) })}
          >
            Previous
          </Button>
          <span className="caption num">
            Page {page} of {pages}
          </span>
          <Button
            disabledReason={page >= pages ? 'This is the last page.' : null}
            onClick={() => setUrl({ page: String(page + 1) })}
          >
            Next
          </Button>
        </nav>
      )}
      {isInviting && <Invite tenant={tenant} onClose={() => invite(false)} />}
    </div>
  );
}

function sentenceOf(total: number, search: string): string {
  if (search !== '') return `${counted(total, 'person matches', 'people match')}`;
  return total === 1 ? 'Only you so far' : counted(total, 'person', 'people');
}
