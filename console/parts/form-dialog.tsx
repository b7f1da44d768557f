// A dialog that is a form: its fields, "Cancel", and the button that sends it. What the service refuses stands beside the
// field that it is about; anything else above the fields. The opener closes the dialog when `save` has succeeded.
import { type FormEvent, type ReactNode, useId } from 'react';
import { Button } from './button.tsx';
import { Dialog } from './dialog.tsx';
import { ErrorPanel } from './error-panel.tsx';
import { useSubmit } from './submit.ts';

interface Props {
  title: string;
  /** The button that sends the form. */
  action?: string;
  /** What is said of a refusal that no field shows. */
  refusal?: string;
  /** The paths whose problems the fields show; `action.` stands for all that begin with it. */
  paths: readonly string[];
  save: () => Promise<unknown>;
  onClose: () => void;
  wide?: boolean;
  /** The fields, given the messages of a refusal by field. */
  children: (problems: Record<string, string>) => ReactNode;
}

export function FormDialog(props: Props) {
  const {
    title,
    action = 'Save',
    refusal = 'Nothing was saved.',
    paths,
    save,
    onClose,
    wide = false,
    children,
  } = props;
  const form = useId();
  const { busy, failure, problems, submit } = useSubmit();
  const isPlaced = (path: string): boolean =>
    paths.some((own) => (own.endsWith('.') ? path.startsWith(own) : path === own));
  const found = Object.keys(problems);
  const send = (event: FormEvent): void => {
    event.preventDefault();
    void submit(save);
  };
  return (
    <Dialog
      title={title}
      wide={wide}
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" form={form} busy={busy}>
            {action}
          </Button>
        </>
      }
    >
      <form id={form} className="stack" noValidate onSubmit={send}>
        {failure !== null && (found.length === 0 || !found.every(isPlaced)) && (
          <ErrorPanel title={refusal} error={failure} />
        )}
        {children(problems)}
      </form>
    </Dialog>
  );
}
