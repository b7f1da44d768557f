// A section of the settings: a form that saves by itself and says when it holds.
import { type FormEvent, type ReactNode, useId } from 'react';
import { changeOwnTenant } from '../../api/tenant.ts';
import { Button } from '../../parts/button.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { useSubmit } from '../../parts/submit.ts';
import { saySuccess } from '../../parts/toast.tsx';

interface Props {
  tenant: string;
  title: string;
  /** The fields, given the messages of a refusal by field. */
  children: (problems: Record<string, string>) => ReactNode;
  /** What is saved; null while nothing was changed. */
  change: object | null;
  block: string | null;
  onSaved: () => void;
}

export function Section({ tenant, title, children, change, block, onSaved }: Props) {
  const id = useId();
  const { busy, failure, problems, submit } = useSubmit();
  const save = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    if (change === null || block !== null || !(await submit(() => changeOwnTenant(tenant, change)))) return;
    onSaved();
    saySuccess({
      title: `${title} saved.`,
      description: 'It takes effect within a second, in every process.',
      kind: title,
    });
  };
  return (
    <section className="panel" aria-labelledby={id}>
      <header>
        <h2 id={id}>{title}</h2>
      </header>
      <form className="pad stack" noValidate onSubmit={save}>
        {children(problems)}
        {failure !== null && Object.keys(problems).length === 0 && (
          <ErrorPanel title="Nothing was saved." error={failure} />
        )}
        <div>
          <Button
            type="submit"
            busy={busy}
            aria-label={`Save ${title.toLowerCase()}`}
            disabledReason={block ?? (change === null ? 'Nothing was changed' : null)}
          >
            Save
          </Button>
        </div>
      </form>
    </section>
  );
}
