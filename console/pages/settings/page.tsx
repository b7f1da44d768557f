// Settings: the tenant's name, who may sign in how, origins and the custom domain. Each section saves by itself.
import { useQuery } from '@tanstack/react-query';
import { ownTenantQuery } from '../../api/tenant.ts';
import { usePageTitle } from '../../app/page-title.ts';
import { useParams } from '../../app/params.ts';
import { useWriteBlock } from '../../app/write-block.ts';
import { CopyAsCurl } from '../../parts/copy-as-curl.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { Skeleton } from '../../parts/states.tsx';
import { Domain } from './domain.tsx';
import { Name } from './name.tsx';
import { Origins } from './origins.tsx';
import { SignIn } from './sign-in.tsx';

export default function Settings() {
  usePageTitle('Settings');
  const { tenant } = useParams();
  const block = useWriteBlock();
  const { data, error, refetch } = useQuery(ownTenantQuery(tenant));
  return (
    <div className="page settings">
      <div className="page-head">
        <h1>Settings</h1>
        <CopyAsCurl of={({ path }) => path === '/api/tenant'} />
      </div>
      {error !== null && <ErrorPanel title="Could not load the settings." error={error} onRetry={refetch} />}
      {data === undefined && error === null && <Skeleton />}
      {data !== undefined && (
        <>
          <Name tenant={tenant} own={data} block={block} />
          <SignIn tenant={tenant} own={data} block={block} />
          {data.settings.allowedOrigins !== undefined && (
            <Origins tenant={tenant} origins={data.settings.allowedOrigins} block={block} />
          )}
          <Domain tenant={tenant} own={data} block={block} />
        </>
      )}
    </div>
  );
}
