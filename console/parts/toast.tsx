// Short messages at the bottom left, read out politely. Success goes after 6 s, with Undo after 10 s; errors stay until
// closed. At most three are shown; one of the same kind replaces the other.
import { createToaster, Toast, Toaster } from '@ark-ui/react/toast';
import { Button } from './button.tsx';
import { Icon } from './icon.tsx';

const toaster = createToaster({
  placement: 'bottom-start',
  // Above the buttons of a form and the footer of a grid: what is pressed next must not lie under the message.
  offsets: { bottom: '72px', left: '16px', right: '16px', top: '16px' },
  max: 3,
  overlap: false,
  gap: 8,
  pauseOnPageIdle: true,
});

interface Message {
  title: string;
  description?: string;
  /** Shown as "Undo". */
  undo?: () => void;
  /** Messages of one kind replace each other. */
  kind?: string;
}

export function saySuccess({ title, description, undo, kind }: Message): void {
  show('success', undo === undefined ? 6_000 : 10_000, { title, description, undo, kind });
}

export function sayError({ title, description, kind }: Message): void {
  show('error', Number.POSITIVE_INFINITY, { title, description, kind });
}

let shown = 0;

function show(
  type: 'success' | 'error',
  duration: number,
  { title, description, undo, kind }: { [K in keyof Message]: Message[K] | undefined },
): void {
  shown += 1;
  const options = {
    type,
    title,
    description,
    // A message that replaces another one stays as long: the toaster begins anew only when the duration differs.
    duration: duration + (shown % 2),
    ...(undo === undefined ? {} : { action: { label: 'Undo', onClick: undo } }),
  };
  if (kind !== undefined && toaster.isVisible(kind)) toaster.update(kind, options);
  else toaster.create({ ...options, ...(kind === undefined ? {} : { id: kind }) });
}

/** Where messages appear; once in the page. */
export function Toasts() {
  return (
    <Toaster toaster={toaster} className="toasts">
      {(toast) => (
        <Toast.Root className={`toast ${toast.type ?? ''}`}>
          <Icon name={toast.type === 'error' ? 'circle-alert' : 'circle-check'} />
          <div className="grow">
            <Toast.Title>{toast.title}</Toast.Title>
            {toast.description !== undefined && (
              <Toast.Description className="caption">{toast.description}</Toast.Description>
            )}
          </div>
          {toast.action !== undefined && (
            <Toast.ActionTrigger className="button quiet">{toast.action.label}</Toast.ActionTrigger>
          )}
          <Button kind="quiet" icon="x" aria-label="Close message" onClick={() => toaster.dismiss(toast.id)} />
        </Toast.Root>
      )}
    </Toaster>
  );
}
