// Leaving a page with unsaved edits asks first: by link, by the browser's own buttons, by closing the tab.
import { useBlocker } from '@tanstack/react-router';
import { Button } from '../../parts/button.tsx';
import { Dialog } from '../../parts/dialog.tsx';

export function LeaveGuard({ isDirty, what }: { isDirty: boolean; what: string }) {
  const blocker = useBlocker({
    shouldBlockFn: ({ current, next }) => isDirty && current.pathname !== next.pathname,
    enableBeforeUnload: () => isDirty,
    disabled: !isDirty,
    withResolver: true,
  });
  if (blocker.status !== 'blocked') return null;
  return (
    <Dialog
      title="Leave without saving?"
      onClose={blocker.reset}
      actions={
        <>
          <Button kind="danger" onClick={blocker.proceed}>
            Discard
          </Button>
          <Button kind="primary" onClick={blocker.reset}>
            Keep editing
          </Button>
        </>
      }
    >
      Your changes to {what} are not saved.
    </Dialog>
  );
}
