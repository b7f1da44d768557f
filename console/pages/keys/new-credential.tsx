// The dialog that makes a key or a bot: fields of its kind, then the value, once.
import { type ReactNode, useState } from 'react';
import { keyOf, queryClient } from '../../api/queries.ts';
import { FormDialog } from '../../parts/form-dialog.tsx';
import { SecretOnce } from '../../parts/secret-once.tsx';

interface Props {
  tenant: string;
  title: string;
  /** The button that makes it. */
  label?: string;
  /** The name of the thing in "This is the only time you see this key." */
  noun?: string;
  /** Makes it; resolves to the value to show, or null when there is none. */
  make: () => Promise<string | null>;
  /** The paths that `fields` shows problems of. */
  paths: readonly string[];
  fields: (problems: Record<string, string>) => ReactNode;
  wide?: boolean;
  onClose: () => void;
}

export function NewCredential({ tenant, label = 'Create key', noun = 'key', make, fields, onClose, ...rest }: Props) {
  const [value, setValue] = useState<string | null>(null);
  const save = async (): Promise<void> => {
    const made = await make();
    void queryClient.invalidateQueries({ queryKey: keyOf(tenant, 'credentials') });
    if (made === null) onClose();
    else setValue(made);
  };
  if (value !== null) return <SecretOnce title={rest.title} noun={noun} value={value} onClose={onClose} />;
  return (
    <FormDialog {...rest} action={label} refusal="Nothing was created." save={save} onClose={onClose}>
      {fields}
    </FormDialog>
  );
}
