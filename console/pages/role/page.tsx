// One role: the matrix of entities and operations, fields and rows of each, "See as this role". Nothing is saved until
// "Save", and what it changes stands beside it in words.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { EXPLAIN } from '../../access/explain.ts';
import { ExplainDialog } from '../../access/explain-dialog.tsx';
import type { Role } from '../../access/permissions.ts';
import { roleQuery, rolesQuery } from '../../access/queries.ts';
import { del } from '../../api/call.ts';
import { keyOf, queryClient } from '../../api/queries.ts';
import { usePageTitle } from '../../app/page-title.ts';
import { useParams } from '../../app/params.ts';
import { go, Link } from '../../app/router.tsx';
import { useWriteBlock } from '../../app/write-block.ts';
import { Button } from '../../parts/button.tsx';
import { Confirm } from '../../parts/confirm.tsx';
import { CopyAsCurl } from '../../parts/copy-as-curl.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { Notice, Skeleton } from '../../parts/states.tsx';
import { saySuccess } from '../../parts/toast.tsx';
import { Matrix } from './matrix.tsx';

/** May do everything, and stay as they are. */
const FIXED = ['owner', 'admin'];

export default function RolePage() {
  const { tenant, role: name } = useParams();
  usePageTitle(`Role ${name}`);
  const block = useWriteBlock();
  const { data: role, error, refetch } = useQuery(roleQuery(tenant, name));
  const [isDeleting, setDeleting] = useState(false);
  const [isExplaining, explain] = useState(false);
  const isFixed = FIXED.includes(name);
  return (
    <div className="page">
      <div className="page-head">
        <div>
          <h1>{name}</h1>
          {role?.description && <p className="dim">{role.description}</p>}
        </div>
        <div className="row">
          <CopyAsCurl of={({ path }) => path.startsWith('/api/roles') || path === EXPLAIN} />
          {role?.isSystem === false && (
            <Button icon="trash-2" disabledReason={block} onClick={() => setDeleting(true)}>
              Delete
            </Button>
          )}
          <Button
            icon="circle-help"
            disabledReason={role === undefined ? 'The role is loading.' : block}
            onClick={() => explain(true)}
          >
            Explain
          </Button>
          <Link className="button plain" href={`/app/t/${tenant}/records?as=${encodeURIComponent(name)}`}>
            See as this role
          </Link>
        </div>
      </div>
      {isFixed && <Notice>The role {name} can do everything. It cannot be changed or deleted.</Notice>}
      {error !== null && <ErrorPanel title={`Could not load the role ${name}.`} error={error} onRetry={refetch} />}
      {role === undefined && error === null && <Skeleton />}
      {role !== undefined && (
        <Matrix key={role.id} tenant={tenant} role={role} isReadOnly={isFixed || block !== null} />
      )}
      {isExplaining && <ExplainDialog tenant={tenant} role={name} onClose={() => explain(false)} />}
      {isDeleting && role !== undefined && (
        <DeleteRole tenant={tenant} role={role} onClose={() => setDeleting(false)} />
      )}
    </div>
  );
}

function DeleteRole({ tenant, role, onClose }: { tenant: string; role: Role; onClose: () => void }) {
  return (
    <Confirm
      title={`Delete the role ${role.name}?`}
      onClose={onClose}
      onConfirm={async () => {
        await del(`/api/roles/${encodeURIComponent(role.name)}`, { tenant });
        saySuccess({ title: `The role ${role.name} was deleted.` });
        go(`/app/t/${tenant}/roles`);
        queryClient.removeQueries({ queryKey: keyOf(tenant, 'roles', role.name) });
        await queryClient.invalidateQueries({ queryKey: rolesQuery(tenant).queryKey, exact: true });
      }}
    >
      A role can be deleted once no person, invitation, platform API or key has it. Its limits to fields and rows are
      lost.
    </Confirm>
  );
}
