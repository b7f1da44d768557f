// The signed-in person's own account: sessions with "End", "Sign out everywhere", and a new password.
import { useQuery } from '@tanstack/react-query';
import { session } from '../../api/session.ts';
import { useStore } from '../../api/store.ts';
import { usePageTitle } from '../../app/page-title.ts';
import { useParams } from '../../app/params.ts';
import { useRights } from '../../app/rights.ts';
import { CopyAsCurl } from '../../parts/copy-as-curl.tsx';
import { Empty } from '../../parts/states.tsx';
import { ChangePassword } from './change-password.tsx';
import { sessionsQuery } from './queries.ts';
import { Sessions } from './sessions.tsx';

export default function Account() {
  usePageTitle('Account');
  const { tenant } = useParams();
  const current = useStore(session);
  const { role } = useRights(tenant);
  const isUser = current?.kind === 'user';
  const sessions = useQuery({ ...sessionsQuery(tenant), enabled: isUser });
  return (
    <div className="page">
      <div className="page-head">
        <h1>Account</h1>
        <CopyAsCurl of={({ path }) => path.startsWith('/api/auth/')} />
      </div>
      {!isUser || current === null ? (
        <Empty icon="key-round">You are signed in with a key. Keys have no password and no sessions.</Empty>
      ) : (
        <>
          <p>
            {current.name} · {current.email} · <span className="dim">role</span> {role}
          </p>
          <Sessions tenant={tenant} {...sessions} />
          <ChangePassword tenant={tenant} current={current} />
        </>
      )}
    </div>
  );
}
