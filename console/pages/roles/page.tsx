// Roles: what each may do, in short; "New role" begins with a copy of another, "Explain" says why somebody may do something.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { EXPLAIN } from '../../access/explain.ts';
import { ExplainDialog } from '../../access/explain-dialog.tsx';
import { nameOf, type Role } from '../../access/permissions.ts';
import { rolesQuery } from '../../access/queries.ts';
import { usePageTitle } from '../../app/page-title.ts';
import { useParams } from '../../app/params.ts';
import { useWriteBlock } from '../../app/write-block.ts';
import { Badge } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { CopyAsCurl } from '../../parts/copy-as-curl.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { LongTable } from '../../parts/long-table.tsx';
import { Notice, Skeleton } from '../../parts/states.tsx';
import { counted } from '../../parts/value.ts';
import { NewRole } from './new-role.tsx';

export default function Roles() {
  usePageTitle('Roles');
  const { tenant } = useParams();
  const block = useWriteBlock();
  const { data, error, refetch } = useQuery(rolesQuery(tenant));
  const [isMaking, make] = useState(false);
  const [isExplaining, explain] = useState(false);
  return (
    <div className="page">
      <div className="page-head">
        <h1>Roles</h1>
        <div className="row">
          <CopyAsCurl of={({ path }) => path.startsWith('/api/roles') || path === EXPLAIN} />
          <Button icon="circle-help" disabledReason={block} onClick={() => explain(true)}>
            Explain
          </Button>
          <Button kind="primary" icon="plus" data-hotkey="n" disabledReason={block} onClick={() => make(true)}>
            New role
          </Button>
        </div>
      </div>
      {error !== null && <ErrorPanel title="Could not load the roles." error={error} onRetry={refetch} />}
      {data === undefined && error === null && <Skeleton />}
      {data?.every(({ isSystem }) => isSystem) && (
        <Notice>Only the four system roles so far. Create a role to limit entities, fields or rows.</Notice>
      )}
      {data !== undefined && (
        <LongTable
          caption="Roles"
          noun="roles"
          textOf={({ name, description }) => `${name} ${description ?? ''}`}
          rows={data}
          keyOf={({ id }) => id}
          href={({ name }) => `/app/t/${tenant}/roles/${encodeURIComponent(name)}`}
          columns={[
            { key: 'name', header: 'role', cell: ({ name }) => name },
            { key: 'may', header: 'may', cell: summaryOf },
            { key: 'limits', header: 'limits', cell: limitsOf, isMinor: true },
            {
              key: 'kind',
              header: 'kind',
              cell: ({ isSystem }) => <Badge>{isSystem ? 'system' : 'own'}</Badge>,
              isMinor: true,
            },
          ]}
        />
      )}
      {isExplaining && <ExplainDialog tenant={tenant} onClose={() => explain(false)} />}
      {isMaking && <NewRole tenant={tenant} roles={data ?? []} onClose={() => make(false)} />}
    </div>
  );
}

const SHOWN = 2;
const ALL = 4;

/** "read, update deals; read companies; 3 more". */
function summaryOf({ permissions }: Role): string {
  const entries = Object.entries(permissions).filter(([, operations]) => operations.length > 0);
  if (entries.length === 0) return 'nothing yet';
  const said = entries
    .slice(0, SHOWN)
    .map(([resource, list]) => `${list.length === ALL ? 'do everything in' : list.join(', ')} ${nameOf(resource)}`);
  return [...said, ...(entries.length > SHOWN ? [`${entries.length - SHOWN} more`] : [])].join('; ');
}

function limitsOf({ entities }: Role): string {
  const limits = Object.values(entities);
  const rows = limits.filter(({ rowFilter }) => rowFilter !== undefined).length;
  const fields = limits.filter((limit) => limit.fields !== undefined || limit.excludeFields !== undefined).length;
  const said = [
    ...(rows > 0 ? [`rows of ${counted(rows, 'entity', 'entities')}`] : []),
    ...(fields > 0 ? [`fields of ${counted(fields, 'entity', 'entities')}`] : []),
  ];
  return said.length === 0 ? '—' : said.join(', ');
}
