// Keys: what programs sign in with, by kind. Values are shown once, when they are made.
import { usePageTitle } from '../../app/page-title.ts';
import { useParams } from '../../app/params.ts';
import { CopyAsCurl } from '../../parts/copy-as-curl.tsx';
import { Tabs } from '../../parts/tabs.tsx';
import { Bots } from './bots.tsx';
import { OwnerKeys } from './owner-keys.tsx';
import { PlatformApis } from './platform-apis.tsx';
import { PublicKeys } from './public-keys.tsx';

export default function Keys() {
  usePageTitle('Keys');
  const { tenant } = useParams();
  return (
    <div className="page">
      <div className="page-head">
        <h1>Keys</h1>
        <CopyAsCurl of={({ path }) => /^\/api\/(keys|apis|auth\/(public-keys|bots))/.test(path)} />
      </div>
      <Tabs
        label="Kinds of keys"
        tabs={[
          { key: 'owner', label: 'Owner', content: () => <OwnerKeys tenant={tenant} /> },
          { key: 'platform', label: 'Platform', content: () => <PlatformApis tenant={tenant} /> },
          { key: 'public', label: 'Public', content: () => <PublicKeys tenant={tenant} /> },
          { key: 'bots', label: 'Bots', content: () => <Bots tenant={tenant} /> },
        ]}
      />
    </div>
  );
}
