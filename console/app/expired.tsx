// The dialog over the page after a 401: the page stays, its calls wait, and go on after signing in.
import { expired, forget, session, signIn } from '../api/session.ts';
import { useStore } from '../api/store.ts';
import { Button } from '../parts/button.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { SignInForm } from './sign-in.tsx';

export function Expired() {
  const isExpired = useStore(expired);
  const current = useStore(session);
  if (!isExpired || current === null) return null;
  return (
    <Dialog
      title="You were signed out"
      isStrict
      onClose={() => undefined}
      actions={
        <Button kind="quiet" onClick={forget}>
          Sign out
        </Button>
      }
    >
      <div className="stack">
        <p>Sign in to continue. Nothing you typed is lost.</p>
        <SignInForm again={current} whenDone={signIn} />
      </div>
    </Dialog>
  );
}
