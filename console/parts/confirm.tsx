// A question before something that cannot be taken back lightly: what will happen, in words; "Cancel" has the focus.
// `typed` is a text that the person must type first, for what is gone for good.
import { type ReactNode, useRef, useState } from 'react';
import { Button } from './button.tsx';
import { Dialog } from './dialog.tsx';
import { ErrorPanel } from './error-panel.tsx';
import { TextField } from './field.tsx';

interface Props {
  title: string;
  children: ReactNode;
  typed?: string;
  /** The confirming button; the contract's word by default. */
  label?: string;
  /** Why it cannot be confirmed; null when it can. */
  block?: string | null;
  onConfirm: () => Promise<unknown>;
  onClose: () => void;
}

export function Confirm({ title, children, typed, label = 'Confirm', block = null, onConfirm, onClose }: Props) {
  const cancel = useRef<HTMLButtonElement>(null);
  const [text, setText] = useState('');
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<unknown>(null);
  const confirm = async (): Promise<void> => {
    setBusy(true);
    setFailure(null);
    try {
      await onConfirm();
      onClose();
    } catch (cause) {
      setFailure(cause);
    } finally {
      setBusy(false);
    }
  };
  const missing = typed !== undefined && text !== typed ? `Type ${typed} first` : null;
  return (
    <Dialog
      title={title}
      onClose={onClose}
      initialFocus={cancel}
      actions={
        <>
          <button ref={cancel} type="button" className="button plain" onClick={onClose}>
            Cancel
          </button>
          <Button kind="danger" busy={busy} disabledReason={block ?? missing} onClick={confirm}>
            {label}
          </Button>
        </>
      }
    >
      <div className="stack">
        <div>{children}</div>
        {typed !== undefined && (
          <TextField
            label={`Type ${typed} to confirm`}
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
        )}
        {failure !== null && <ErrorPanel error={failure} />}
      </div>
    </Dialog>
  );
}
