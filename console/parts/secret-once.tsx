// A secret that the service shows once: its value, ways to keep it, and a box to say that it is kept. Nothing else closes
// the dialog, and the value leaves the document with it.
import { type ReactNode, useState } from 'react';
import { Button } from './button.tsx';
import { CopyButton } from './copy-button.tsx';
import { Dialog } from './dialog.tsx';
import { Checkbox } from './field.tsx';
import { saveFile } from './save-file.ts';

interface Props {
  title: string;
  /** What it is, as in "This is the only time you see this key." */
  noun?: string;
  value: string;
  /** The name of the variable in the file that "Download .env" saves. */
  variable?: string;
  /** Further text under the value. */
  children?: ReactNode;
  /** A second way on, beside "Done". */
  next?: { label: string; onClick: () => void };
  onClose: () => void;
}

export function SecretOnce({ title, noun = 'key', value, variable = 'TDS_KEY', children, next, onClose }: Props) {
  const [isStored, store] = useState(false);
  const reason = isStored ? null : 'Check “I have stored it” first.';
  return (
    <Dialog
      title={title}
      isStrict
      onClose={onClose}
      actions={
        <>
          {next !== undefined && (
            <Button disabledReason={reason} onClick={next.onClick}>
              {next.label}
            </Button>
          )}
          <Button kind="primary" disabledReason={reason} onClick={onClose}>
            Done
          </Button>
        </>
      }
    >
      <div className="stack">
        <p>This is the only time you see this {noun}.</p>
        <code className="secret-once">{value}</code>
        <div className="row">
          <CopyButton value={value} />
          <Button
            icon="download"
            onClick={() => saveFile(new Blob([`${variable}=${value}\n`], { type: 'text/plain' }), '.env')}
          >
            Download .env
          </Button>
        </div>
        {children}
        <Checkbox label="I have stored it" checked={isStored} onChange={({ target }) => store(target.checked)} />
      </div>
    </Dialog>
  );
}
