// The page that the link of an invitation opens: to join a tenant or, with a platform code, to create one. Accepting
// signs in at once. It runs without a session, router and queries.
import { useCallback, useEffect, useState } from 'react';
import { get } from '../../api/call.ts';
import { isAborted } from '../../api/errors.ts';
import { OpenCard } from '../../app/open-card.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { Notice, Skeleton } from '../../parts/states.tsx';
import { Accept } from './accept.tsx';

interface Check {
  valid: boolean;
  /** The only address that may accept; null for any. */
  email: string | null;
  /** Null for a platform code. */
  tenantSlug: string | null;
}

export default function Invite() {
  const token = decodeURIComponent(/\/invite\/([^/]+)/.exec(location.pathname)?.[1] ?? '');
  const [check, setCheck] = useState<Check | null>(null);
  const [failure, setFailure] = useState<unknown>(null);
  const load = useCallback(
    async (signal?: AbortSignal): Promise<void> => {
      setFailure(null);
      try {
        setCheck(await get<Check>(`/auth/invite/${encodeURIComponent(token)}`, { isOpen: true, signal }));
      } catch (cause) {
        if (!isAborted(cause)) setFailure(cause);
      }
    },
    [token],
  );
  useEffect(() => {
    const leaving = new AbortController();
    void load(leaving.signal);
    return () => leaving.abort();
  }, [load]);
  return (
    <OpenCard title={titleOf(check)}>
      {check === null && failure === null && <Skeleton lines={4} />}
      {failure !== null && (
        <ErrorPanel title="Could not check the invitation." error={failure} onRetry={() => load()} />
      )}
      {check?.valid === false && <Unusable />}
      {check?.valid && <Accept token={token} email={check.email} tenantSlug={check.tenantSlug} />}
    </OpenCard>
  );
}

function titleOf(check: Check | null): string {
  if (check?.valid !== true) return 'Invitation';
  return check.tenantSlug === null ? 'Create your tenant' : `Join ${check.tenantSlug}`;
}

/** The service does not say which of these it is, so that links cannot be probed. */
function Unusable() {
  return (
    <div className="stack">
      <Notice tone="warn">This invitation cannot be used.</Notice>
      <p>
        It was accepted before, has expired, was withdrawn, or the link is not complete. If you accepted it, sign in.
        Otherwise ask the person who invited you for a new one.
      </p>
      <p>
        <a href="/app">Sign in</a>
      </p>
    </div>
  );
}
